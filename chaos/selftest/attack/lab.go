//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/live/cluster"
	"handoff/chaos/servers"
)

// lab gives attacks the binaries, a folder for their files, and a system.
type lab struct {
	bin, dir string
	// mark is part of everything that attacks start, so that leftovers can be found.
	mark string
	log  io.Writer
	// keys are the configuration keys that the worker of this build knows.
	keys string
	// shared is the system of the attacks that leave it intact; nil before the first of them.
	shared *system
}

// openLab makes the folder; close removes it.
func openLab(bin string, log io.Writer) (*lab, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"executor", "worker", "chaos"} {
		if info, err := os.Stat(filepath.Join(bin, name)); err != nil || info.IsDir() {
			return nil, fmt.Errorf("--bin %s: there is no %s in it; build the binaries first: make build", bin, name)
		}
	}
	dir, err := os.MkdirTemp("", "handoff-attack-*")
	if err != nil {
		return nil, err
	}
	// Workers without rights must reach their files through it.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // pass through, not list
		return nil, err
	}
	return &lab{bin: bin, dir: dir, mark: "attack" + word(), log: log, keys: knownKeys(filepath.Join(bin, "worker"))}, nil
}

// close ends the shared system and everything that attacks have left behind.
func (l *lab) close() error {
	var err error
	if l.shared != nil {
		err = l.shared.close()
	}
	killMarked(l.mark)
	return errors.Join(err, os.RemoveAll(l.dir))
}

// word is a random word.
func word() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// knownKeys returns the configuration that the worker prints. An older build lacks some keys.
func knownKeys(worker string) string {
	cmd := exec.Command(worker, "--print-config")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HANDOFF_DATABASE_URL=postgres://127.0.0.1/none", "HANDOFF_MESSAGE_QUEUE_RABBITMQ_URL=amqp://127.0.0.1/none"}
	text, _ := cmd.Output()
	return string(text)
}

// knows says whether the build has a configuration key. It searches for the last part of the key.
func (l *lab) knows(key string) bool {
	last := key[strings.LastIndexByte(key, '.')+1:]
	return strings.Contains(l.keys, last+":")
}

// system is a running system: servers, an executor, workers.
type system struct {
	*cluster.Cluster
	lab      *lab
	executor *cluster.Daemon
	// api is the address of the API. token is the token that it requires; empty for none.
	api, token string
	db         *pgx.Conn
	// ups are the `chaos up` processes beside it.
	ups []*servers.Supervised
}

// common returns the system that attacks share, with one worker. It restarts the executor, so that
// no remains of the last attack are in it.
func (l *lab) common(ctx context.Context) (*system, error) {
	if l.shared != nil {
		return l.shared, l.shared.restartExecutor(ctx)
	}
	s, err := l.up(ctx, nil)
	if err != nil {
		return nil, err
	}
	l.shared = s
	_, err = s.worker(ctx, workerOptions{name: "worker-1"})
	return s, err
}

// up starts servers and an executor, with configuration from HANDOFF_… variables. It starts no
// worker.
func (l *lab) up(ctx context.Context, env map[string]string) (*system, error) {
	c, err := cluster.Up(ctx, cluster.Options{Bin: l.bin, Executors: 1, Env: env})
	if err != nil {
		return nil, err
	}
	s := &system{Cluster: c, lab: l, executor: c.Executors[0], api: c.Executors[0].URL, token: env["HANDOFF_API_TOKEN"]}
	if s.db, err = pgx.Connect(ctx, c.Servers.Postgres.URL); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close stops the whole system.
func (s *system) close() error {
	if s.db != nil {
		_ = s.db.Close(context.Background()) // the server stops next
	}
	within, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, up := range s.ups {
		up.Terminate()
	}
	for _, up := range s.ups {
		if up.Wait(within) != nil {
			up.Kill()
		}
	}
	return s.Down()
}

// pid is the id of a daemon's process.
func pid(d *cluster.Daemon) int {
	if p, ok := d.Instance().(*servers.Supervised); ok {
		return p.PID()
	}
	return 0
}

// restartExecutor kills the executor and starts it again, which clears its memory and ends its
// work.
func (s *system) restartExecutor(ctx context.Context) error {
	s.executor.Instance().Kill()
	if err := s.executor.Start(ctx); err != nil {
		return err
	}
	pause(ctx, 500*time.Millisecond)
	return ctx.Err()
}

// workerOptions say how a worker is started.
type workerOptions struct {
	name string
	// secret goes into the password of the database's address; the database does not ask for a
	// password.
	secret string
	// actions is its actions directory; empty for none.
	actions string
	// before is a line of shell that runs before the worker replaces the shell.
	before string
	// as is the id of the user and group that it runs as; 0 for the present user.
	as  int
	env map[string]string
}

// worker starts a worker, which ends with the system.
func (s *system) worker(ctx context.Context, o workerOptions) (*cluster.Daemon, error) {
	ports, err := servers.FreePorts(1)
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	args := []string{"--name", o.name, "--health-listen", address, "--runtimes", "noop,shell"}
	if o.actions != "" {
		args = append(args, "--actions-dir", o.actions)
	}
	program := filepath.Join(s.lab.bin, "worker")
	if o.as != 0 || o.before != "" {
		if program, err = s.wrapped(o); err != nil {
			return nil, err
		}
	}
	database, err := url.Parse(s.Servers.Postgres.URL)
	if err != nil {
		return nil, err
	}
	if o.secret != "" {
		database.User = url.UserPassword(database.User.Username(), o.secret)
	}
	vars := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": "/", "TMPDIR": os.Getenv("TMPDIR"),
		"HANDOFF_DATABASE_URL": database.String(), "HANDOFF_MESSAGE_QUEUE_RABBITMQ_URL": s.Servers.RabbitMQ.URL,
	}
	maps.Copy(vars, o.env)
	var env []string
	for _, key := range slices.Sorted(maps.Keys(vars)) {
		if vars[key] != "" {
			env = append(env, key+"="+vars[key])
		}
	}
	d := cluster.NewDaemon(s.Servers, address, servers.Program{Name: o.name, Path: program, Args: args, Env: env})
	s.Workers = append(s.Workers, d)
	return d, d.Start(ctx)
}

// wrapped is a script that becomes the worker, as another user or after another command.
func (s *system) wrapped(o workerOptions) (string, error) {
	as := ""
	if o.as != 0 {
		setpriv, err := exec.LookPath("setpriv")
		if err != nil {
			return "", err
		}
		as = fmt.Sprintf("%s --reuid=%d --regid=%d --clear-groups ", setpriv, o.as, o.as)
	}
	text := fmt.Sprintf("#!/bin/sh\n%s\nexec %s%s \"$@\"\n", o.before, as, filepath.Join(s.lab.bin, "worker"))
	path := filepath.Join(s.lab.dir, "worker-"+word())
	return path, os.WriteFile(path, []byte(text), 0o755) //nolint:gosec // a script that others run, too
}

// stopWorker stops a worker in good order and removes it from the system.
func (s *system) stopWorker(ctx context.Context, d *cluster.Daemon) {
	if p := d.Instance(); p != nil && p.Running() {
		p.Resume()
		p.Terminate()
		within, cancel := context.WithTimeout(ctx, 8*time.Second)
		defer cancel()
		if p.Wait(within) != nil {
			p.Kill()
		}
	}
	s.Workers = slices.DeleteFunc(s.Workers, func(w *cluster.Daemon) bool { return w == d })
}

// amqp returns a connection to the broker, and a channel on it. The caller closes the connection.
func (s *system) amqp() (*amqp.Connection, *amqp.Channel, error) {
	conn, err := amqp.Dial(s.Servers.RabbitMQ.URL)
	if err != nil {
		return nil, nil, err
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, ch, nil
}

// number reads one number from the database.
func (s *system) number(ctx context.Context, sql string, args ...any) (int, error) {
	var n int
	err := s.db.QueryRow(ctx, sql, args...).Scan(&n)
	return n, err
}

// pause waits; it ends early with ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// until calls yes again and again until it returns true. It returns whether that was before the
// time was over.
func until(ctx context.Context, within time.Duration, yes func() bool) bool {
	for end := time.Now().Add(within); ; pause(ctx, 50*time.Millisecond) {
		if yes() {
			return true
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return false
		}
	}
}
