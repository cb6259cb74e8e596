package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	hostdaemon "handoff/core/host/daemon"
	"handoff/core/store"
	"handoff/core/testenv"
	"handoff/core/worker"
	"handoff/core/worker/subprocess"
)

// asDaemon is the variable that makes the test binary the worker, so that a real process gets signals.
const asDaemon = "TEST_RUNS_THE_WORKER"

func TestMain(m *testing.M) {
	// The shim is this binary, too, and does not get the variable asDaemon.
	subprocess.ShimMain()
	if os.Getenv(asDaemon) != "" {
		main()
	}
	os.Exit(m.Run())
}

const unreachable = "database: {url: \"postgres://handoff:s3cr3t@127.0.0.1:1/handoff\"}\nmessage_queue: {rabbitmq: {url: \"amqp://guest:s3cr3t@127.0.0.1:1/\"}}\n"

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "handoff.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBadConfigurationExitsTwoAndListsEverything(t *testing.T) {
	file := write(t, unreachable+"worker: {fence_margin: 1s, actions_dir: /nowhere/at/all, heartbeat_staleness_multiplier: 2}\n")
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--config", file, "--runtimes", "shell,ruby", "--concurrency", "0"}, nil, &stdout, &stderr)
	if code != exitBadConfig || stdout.Len() > 0 {
		t.Errorf("exit %d, %s", code, &stdout)
	}
	for _, want := range []string{
		"worker: the configuration has 5 problems:\n",
		file + ":3:24: worker.fence_margin: is 1s, must be at least 4.202s",
		file + ":3:90: worker.heartbeat_staleness_multiplier: is 2, must be at least 3",
		`--runtimes: unknown name "ruby" in worker.runtimes, a list with commas; allowed: shell, python, node, noop`,
		"flag --concurrency: worker.concurrency: is 0",
		file + `:3:41: worker.actions_dir: "/nowhere/at/all" is not a directory`,
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &stderr)
		}
	}
}

func TestMachineFactsCompleteConfiguration(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--config", write(t, unreachable), "--print-config"}, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("exit %d, %s", code, &stderr)
	}
	for _, want := range []string{"# the machine's name", "noop]", "# found on this machine"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &stdout)
		}
	}
}

func TestSIGTERMWhileConnecting(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file := write(t, strings.ReplaceAll(unreachable, "127.0.0.1:1/handoff", l.Addr().String()+"/handoff"))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "--config", file)
	cmd.Env = append(os.Environ(), asDaemon+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := accept(l)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the daemon did not connect: %v\n%s", err, &stderr)
	}
	defer conn.Close()
	// A daemon that ignored the signal would wait for the database until this test closes the connection.
	began := time.Now()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	hangs := time.AfterFunc(testenv.Patience(), func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	if took := time.Since(began); err != nil || !hangs.Stop() || testenv.All() && took > 4*time.Second {
		t.Errorf("%v after %v\n%s", err, took, &stderr)
	}
	if log := stderr.String(); !strings.Contains(log, "stop_grace_period") || !strings.Contains(log, "received SIGTERM") || strings.Contains(log, "s3cr3t") {
		t.Errorf("the log should tell of stop_grace_period, of the signal and of no password:\n%s", log)
	}
}

// fakeStore answers heartbeats.
type fakeStore struct {
	store.Worker
	err error
}

func (f *fakeStore) Heartbeat(context.Context, store.Beat) (store.BeatReply, error) {
	return store.BeatReply{}, f.err
}

func TestHealthFollowsHeartbeats(t *testing.T) {
	synctest.Test(t, healthFollowsHeartbeats)
}

func healthFollowsHeartbeats(t *testing.T) {
	p := worker.NewPulse(hostdaemon.New(hostdaemon.Options{}), 50*time.Millisecond)
	db := &fakeStore{}
	w := p.Watch(db)
	state := func() (bad []string) {
		for _, c := range healthChecks(p) {
			if c.Run(t.Context()) != nil {
				bad = append(bad, c.Name)
			}
		}
		return bad
	}
	expect := func(when, want string) {
		t.Helper()
		if got := strings.Join(state(), " "); got != want {
			t.Errorf("%s: %q is wrong, want %q", when, got, want)
		}
	}
	expect("before the first heartbeat", "lease consumer")
	_, _ = w.Heartbeat(t.Context(), store.Beat{ConsumerAlive: true})
	expect("after it", "")
	_, _ = w.Heartbeat(t.Context(), store.Beat{})
	expect("deaf", "consumer")
	_, _ = w.Heartbeat(t.Context(), store.Beat{ConsumerAlive: true})
	db.err = store.ErrUnavailable
	time.Sleep(60 * time.Millisecond) // the real lease must expire
	_, _ = w.Heartbeat(t.Context(), store.Beat{ConsumerAlive: true})
	expect("a lease without a heartbeat", "lease")
}

// accept waits for a daemon to connect, and fails if the daemon has ended.
func accept(l net.Listener) (net.Conn, error) {
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(testenv.Patience())); err != nil {
		return nil, err
	}
	return l.Accept()
}
