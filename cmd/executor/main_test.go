package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"handoff/chaos/servers"
	"handoff/core/testenv"
)

// asDaemon is the variable that makes the test binary the executor, so that a real process gets signals.
const asDaemon = "TEST_RUNS_THE_EXECUTOR"

func TestMain(m *testing.M) {
	if os.Getenv(asDaemon) != "" {
		main()
	}
	servers.Main(m)
}

// unreachable is a configuration whose database and broker refuse connections.
const unreachable = "database: {url: \"postgres://handoff:s3cr3t@127.0.0.1:1/handoff\"}\nmessage_queue: {rabbitmq: {url: \"amqp://guest:s3cr3t@127.0.0.1:1/\"}}\n"

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBadConfigurationExitsTwoAndListsEverything(t *testing.T) {
	action := write(t, "echo.yaml", "name: core.echo\nruntime: shel\n")
	file := write(t, "handoff.yaml", "executor: {dispatch_timeout: 30}\nworkers: {}\n")
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"--config", file, "--actions", filepath.Dir(action), "--listen", "x"},
		[]string{"HANDOFF_EXECUTOR_BATCH_SIZE=0"}, &stdout, &stderr)
	if code != exitBadConfig || stdout.Len() > 0 {
		t.Errorf("exit %d, %s", code, &stdout)
	}
	for _, want := range []string{
		"executor: the configuration has 7 problems:\n",
		file + ":1:30: executor.dispatch_timeout is 30 without a unit",
		file + `:2:1: unknown key "workers"`,
		"environment variable HANDOFF_EXECUTOR_BATCH_SIZE: executor.batch_size: is 0",
		"default: database.url: is not set",
		"default: message_queue.rabbitmq.url: is not set",
		`flag --listen: api.listen: "x" is not an address`,
		action + `:2:10: runtime "shel" is not a runtime`,
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &stderr)
		}
	}
}

func TestPrintConfigShowsOriginsAndHidesPasswords(t *testing.T) {
	file := write(t, "handoff.yaml", unreachable)
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--print-config", "--config", file, "--name", "e1"}, nil, &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Fatalf("exit %d, %s", code, &stderr)
	}
	for _, want := range []string{`name: "e1"`, "# flag --name", "handoff:***@127.0.0.1", "# " + file + ":1:17", "# default of profile hardened"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &stdout)
		}
	}
	if strings.Contains(stdout.String(), "s3cr3t") {
		t.Errorf("a password is printed:\n%s", &stdout)
	}
}

func TestTakenPortFailsAtOnce(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var stderr bytes.Buffer
	code := run(t.Context(), []string{"--config", write(t, "handoff.yaml", unreachable), "--listen", l.Addr().String()}, nil, io.Discard, &stderr)
	if code != exitFailed || !strings.Contains(stderr.String(), "can't listen on") {
		t.Errorf("exit %d\n%s", code, &stderr)
	}
}

// The process ends if the database can never accept this configuration, but not if the database is away.
func TestStopWhileDatabaseIsAway(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	logs, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"--config", write(t, "handoff.yaml", unreachable), "--listen", "127.0.0.1:0"}, nil, io.Discard, stderr)
		_ = stderr.Close()
	}()
	lines := bufio.NewScanner(logs)
	address := ""
	for lines.Scan() {
		if m := regexp.MustCompile(`"API listening","address":"([^"]+)"`).FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
		if strings.Contains(lines.Text(), "s3cr3t") {
			t.Errorf("a password is logged: %s", lines.Text())
		}
		if strings.Contains(lines.Text(), "connecting to the database failed, trying again") {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/api/v1/executions/1": 503} {
		r, err := http.Get("http://" + address + path) //nolint:noctx // the test ends with the server
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s while starting: %d, want %d", path, r.StatusCode, want)
		}
	}
	stop()
	select {
	case code := <-ended:
		if code != exitStopped {
			t.Errorf("exit %d", code)
		}
	case <-time.After(testenv.Patience()):
		t.Fatal("a stop during start-up hangs")
	}
}

// The worst case for a stop is a database that accepts the connection and never answers.
func TestSIGTERMWhileConnecting(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file := write(t, "handoff.yaml", strings.ReplaceAll(unreachable, "127.0.0.1:1/handoff", l.Addr().String()+"/handoff"))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "--config", file, "--listen", "127.0.0.1:0")
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
	if log := stderr.String(); !strings.Contains(log, "received SIGTERM") {
		t.Errorf("the log should tell of the signal:\n%s", log)
	}
}

// accept waits for a daemon to connect, and fails if the daemon has ended.
func accept(l net.Listener) (net.Conn, error) {
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(testenv.Patience())); err != nil {
		return nil, err
	}
	return l.Accept()
}

func TestHelpExplainsDeadLetterTTL(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"--help"}, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("--help exits with %d: %s", code, &stderr)
	}
	for _, part := range []string{"dead_letter.ttl_ms is how long a stored dead letter is kept", "dead letter queue has no TTL", "\nExit codes: 0 stopped"} {
		if !strings.Contains(stdout.String(), part) {
			t.Errorf("the help does not say %q:\n%s", part, &stdout)
		}
	}
}
