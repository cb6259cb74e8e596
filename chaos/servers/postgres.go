package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// Time limits for a server. They are generous, for a machine that is busy with other things; they
// are no expectations.
const (
	postgresStartWithin = 5 * time.Minute
	postgresStopWithin  = 2 * time.Minute
	cleanupWithin       = 2 * time.Minute
)

// Postgres is a PostgreSQL server: a private instance, or a given server on which we have a
// database. Stop, Kill, Start, Pause and Resume are for private instances; several goroutines may
// call them, and they take effect one at a time.
type Postgres struct {
	// URL is the URL of an empty database. On a private instance its user is a superuser.
	URL string

	admin string // another database, from which to create and drop ours
	name  string // our database on a given server

	mu     sync.Mutex
	server server                                // nil before the first start
	launch func(context.Context) (server, error) // runs it; nil for a given server
	log    func() string                         // the path of its log
	data   string                                // directory; empty in a container
}

// DB is one database on a server.
type DB struct {
	URL    string
	Name   string
	Server *Postgres
}

// Private reports whether the server was started here and may be stopped, killed and paused.
func (p *Postgres) Private() bool { return p.launch != nil }

// Log is the path of the server's log, empty for a given server. A container's log is written there
// at the call.
func (p *Postgres) Log() string {
	if !p.Private() {
		return ""
	}
	return p.log()
}

// CreateDatabase creates an empty database with a unique name. It takes about 0.1 s.
func (p *Postgres) CreateDatabase(ctx context.Context) (*DB, error) {
	db := &DB{Name: uniqueName(), Server: p}
	var err error
	if db.URL, err = withDatabase(p.admin, db.Name); err != nil {
		return nil, err
	}
	return db, p.exec(ctx, "CREATE DATABASE "+pgx.Identifier{db.Name}.Sanitize())
}

// Drop removes the database, even if clients are still connected.
func (db *DB) Drop(ctx context.Context) error {
	return db.Server.exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{db.Name}.Sanitize()+" WITH (FORCE)")
}

func (p *Postgres) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, p.admin)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// Start runs a stopped or killed server again, with the same data and port, and returns when it
// answers (after recovery, if it was killed).
func (p *Postgres) Start(ctx context.Context) error {
	if !p.Private() {
		return ErrNotOurs
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil && p.server.running() {
		return errors.New("PostgreSQL already runs")
	}
	ctx, cancel := context.WithTimeout(ctx, postgresStartWithin)
	defer cancel()
	s, err := p.launch(ctx)
	if err != nil {
		return err
	}
	p.server = s
	err = s.ready(ctx, 20*time.Millisecond, p.probe)
	if err != nil {
		s.kill()
		return &StartError{Component: "PostgreSQL", Err: err, LogTail: tail(p.log())}
	}
	return nil
}

// probe succeeds if our own server answers: another process may have got the port first.
func (p *Postgres) probe(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.admin)
	if err != nil {
		return err
	}
	var data string
	err = conn.QueryRow(ctx, "SHOW data_directory").Scan(&data)
	if err == nil && p.data != "" && data != p.data {
		err = errStranger
	}
	return errors.Join(err, conn.Close(ctx))
}

// Stop is a fast shutdown: it closes connections and rolls transactions back, so no recovery is
// needed.
func (p *Postgres) Stop() error {
	return p.withServer(func(s server) error { return s.stop(sigInt, postgresStopWithin) })
}

// Kill ends the postmaster and all backends at once with SIGKILL; the next Start recovers.
func (p *Postgres) Kill() error { return p.withServer(func(s server) error { s.kill(); return nil }) }

// Pause freezes the postmaster and all backends: connections stay open and nothing answers.
func (p *Postgres) Pause() error { return p.withServer(server.pause) }

// Resume lets a paused server continue.
func (p *Postgres) Resume() error {
	return p.withServer(func(s server) error { s.resume(); return nil })
}

// Running reports whether the process lives, paused or not. It is always true for a given server.
func (p *Postgres) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.Private() || p.server.running()
}

func (p *Postgres) withServer(f func(server) error) error {
	if !p.Private() {
		return ErrNotOurs
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return f(p.server)
}

func (p *Postgres) close() error {
	if p.Private() {
		return p.Stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupWithin)
	defer cancel()
	return (&DB{Name: p.name, Server: p}).Drop(ctx)
}

// startPostgres creates a cluster, or finds the one that was kept, and starts it. Every user of this
// machine may connect as its superuser (it listens on loopback only), so use it only for test data.
func startPostgres(ctx context.Context, b *postgresBinaries, dir *workDir, g *guard, log *lineLog) (*Postgres, error) {
	began := time.Now()
	fail := func(err error) (*Postgres, error) { return nil, &StartError{Component: "PostgreSQL", Err: err} }
	who, err := serverAccount("postgres", "nobody")
	if err != nil {
		return fail(err)
	}
	was, err := dir.recall("postgres")
	if err != nil {
		return fail(err)
	}
	home := filepath.Join(dir.path, "postgres")
	data := filepath.Join(home, "data")
	env := serverEnv(home)
	if was == nil {
		if err := createCluster(ctx, b, home, data, env, who); err != nil {
			return fail(err)
		}
	}
	for attempt := 1; ; attempt++ {
		ports, err := was.ports(attempt, 1)
		if err != nil {
			return fail(err)
		}
		server := &program{
			name: "PostgreSQL", path: b.postgres, env: env, dir: home, user: who,
			log: filepath.Join(dir.path, "postgres.log"),
			args: append([]string{
				"-D", data, "-p", strconv.Itoa(ports[0]),
				"-c", "listen_addresses=127.0.0.1",
				"-c", "unix_socket_directories=", // their paths have a length limit, ours may be longer
			}, postgresSettings()...),
		}
		p := &Postgres{data: data, launch: launching(server, g), log: server.logPath}
		p.admin = fmt.Sprintf("postgres://handoff@%s/postgres?sslmode=disable", loopback(ports[0]))
		if err = p.Start(ctx); err == nil {
			if err = p.openDatabase(ctx, dir, was, ports); err == nil {
				log.printf("PostgreSQL: private instance of %s on %s, ready in %v",
					filepath.Dir(b.postgres), loopback(ports[0]), time.Since(began).Round(10*time.Millisecond))
				return p, nil
			}
			return nil, errors.Join(&StartError{Component: "PostgreSQL", Err: err}, p.Stop())
		}
		if attempt == 3 || !portTaken(tail(server.log)) {
			return nil, err
		}
	}
}

// createCluster makes the directory of an empty cluster.
func createCluster(ctx context.Context, b *postgresBinaries, home, data string, env []string, who *account) error {
	if err := errors.Join(os.Mkdir(home, 0o700), who.own(home)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, postgresStartWithin)
	defer cancel()
	// --no-sync skips one flush of an empty cluster; the server itself runs with fsync on.
	_, err := run(ctx, &program{
		path: b.initdb, env: env, dir: home, user: who,
		args: []string{"-D", data, "-U", "handoff", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync"},
	})
	return err
}

// openDatabase finds the database that was kept, or creates an empty one.
func (p *Postgres) openDatabase(ctx context.Context, dir *workDir, was *kept, ports []int) (err error) {
	now := kept{Ports: ports}
	if was != nil {
		now.Name = was.Name
		p.URL, err = withDatabase(p.admin, was.Name)
	} else {
		var db *DB
		if db, err = p.CreateDatabase(ctx); err == nil {
			p.URL, now.Name = db.URL, db.Name
		}
	}
	if err != nil {
		return err
	}
	return dir.remember("postgres", now)
}

// postgresSettings are the settings in which every server started here differs from PostgreSQL's
// defaults.
func postgresSettings() []string {
	return []string{"-c", "max_connections=400", "-c", "log_line_prefix=%m [%p] %d "}
}

// serverEnv is the whole environment of servers and their commands: variables such as PGPORT or
// RABBITMQ_NODENAME, meant for other servers, must not reach them.
func serverEnv(home string, more ...string) []string {
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/local/bin:/usr/bin:/bin"
	}
	return append([]string{"PATH=" + path, "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8", "LC_ALL=C.UTF-8"}, more...)
}
