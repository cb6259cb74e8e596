package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"handoff/chaos/servers"
	"handoff/core/testenv"
)

// However `chaos up` ends, it leaves no process and no open port behind. Its directory is gone immediately
// or, if it could not clean up, after the next start. SIGQUIT ends a Go program like a panic.
func TestUpLeavesNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the whole system")
	}
	t.Parallel()
	bin := buildAll(t)
	actions := scriptFolder(t)
	left := ""
	type ending struct {
		how    string
		signal syscall.Signal
		cleans bool
	}
	ends := []ending{{"kill -9", syscall.SIGKILL, false}, {"Ctrl-C", syscall.SIGINT, true}}
	if testenv.All() {
		ends = []ending{{"kill -9", syscall.SIGKILL, false}, {"panic", syscall.SIGQUIT, false}, {"Ctrl-C", syscall.SIGINT, true}}
	}
	for _, end := range ends {
		up := startUp(t, bin, "--actions", actions, "--runtimes", "shell")
		if left != "" {
			if _, err := os.Stat(left); !os.IsNotExist(err) {
				t.Errorf("%s: the directory of the run before is still there: %v", end.how, err)
			}
		}
		if end.cleans {
			up.runScript(t)
			up.injectFaults(t, bin)
			if testenv.All() { // the test restarts both servers twice
				up.undoFaults(t, bin)
			}
		}
		if err := up.cmd.Process.Signal(end.signal); err != nil {
			t.Fatal(err)
		}
		_ = up.cmd.Wait() // the test asked for its end
		up.waitUntilGone(t, end.how)
		_, err := os.Stat(up.dir)
		if end.cleans && !os.IsNotExist(err) {
			t.Errorf("%s: %s is left behind: %v", end.how, up.dir, err)
		}
		left = up.dir
	}
}

// An action file and its script run directly from their directory, with the daemons' flags. A second `chaos
// up` finds the data of the first in a kept directory.
func TestUpKeepsExecutionsOfScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the whole system")
	}
	testenv.Nightly(t, "starts the whole system twice; TestUpLeavesNothingBehind runs the script, and stops the system")
	t.Parallel()
	bin := buildAll(t)
	actions := scriptFolder(t)
	keep, err := os.MkdirTemp("", "up-test-*") // not t.TempDir, which the servers' users can't read
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(keep) })
	if err := os.Chmod(keep, 0o711); err != nil {
		t.Fatal(err)
	}
	ports, err := servers.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	listen := fmt.Sprintf("127.0.0.1:%d", ports[0])
	args := []string{"--actions", actions, "--runtimes", "shell", "--profile", "documented", "--listen", listen, "--keep", keep}

	first := startUp(t, bin, args...)
	if first.api != "http://"+listen+"/api/v1" || first.dir != keep {
		t.Errorf("the API is at %s and the logs are in %s, want %s and %s", first.api, first.dir, listen, keep)
	}
	execution := first.runScript(t)
	first.endWithCtrlC(t)

	second := startUp(t, bin, args...)
	if again := getText(t, execution); !strings.Contains(again, "good day") {
		t.Errorf("the execution is missing: %s", again)
	}
	second.endWithCtrlC(t)
	second.waitUntilGone(t, "Ctrl-C with --keep")
	log, err := os.ReadFile(filepath.Join(keep, "executor-1.log"))
	if starts := strings.Count(string(log), `"profile":"documented"`); err != nil || starts < 2 {
		t.Errorf("the executor's log has %d starts under the profile documented (%v), want 2", starts, err)
	}
	if _, err := os.Stat(filepath.Join(keep, "env")); !os.IsNotExist(err) {
		t.Errorf("addresses of a stopped system are left: %v", err)
	}
}

// scriptFolder returns a folder with an action, its script, and a library that the script uses.
func scriptFolder(t *testing.T) string {
	t.Helper()
	actions := t.TempDir()
	for name, text := range map[string]string{
		"greet.yaml": "name: team.greet\nruntime: shell\nentrypoint: greet.sh\n",
		"greet.sh":   ". \"$HANDOFF_ACTIONS_DIR/lib.sh\"\ngreet\n",
		"lib.sh":     "greet() { echo '{\"greeting\": \"good day\"}'; }\n",
	} {
		if err := os.WriteFile(filepath.Join(actions, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return actions
}

// runScript runs the action of scriptFolder, and returns the address of its execution.
func (r *runningSystem) runScript(t *testing.T) string {
	t.Helper()
	answer := postText(t, r.api+"/executions", `{"action_ref": "team.greet"}`)
	id := regexp.MustCompile(`"id": ?(\d+)`).FindStringSubmatch(answer)
	if id == nil {
		t.Fatalf("no id in %s", answer)
	}
	execution := r.api + "/executions/" + id[1]
	deadline := time.Now().Add(testenv.Patience())
	for answer = getText(t, execution); !strings.Contains(answer, "good day"); answer = getText(t, execution) {
		if time.Now().After(deadline) {
			t.Fatalf("the script did not run: %s", answer)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if workers := getText(t, r.api+"/workers"); !strings.Contains(workers, `"shell"`) || strings.Contains(workers, `"noop"`) {
		t.Errorf("the worker offers other runtimes than shell: %s", workers)
	}
	return execution
}

// endWithCtrlC ends the system as Ctrl-C does.
func (r *runningSystem) endWithCtrlC(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func getText(t *testing.T, address string) string {
	t.Helper()
	return requestText(t, http.MethodGet, address, "")
}

func postText(t *testing.T, address, body string) string {
	t.Helper()
	return requestText(t, http.MethodPost, address, body)
}

func requestText(t *testing.T, method, address, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// buildAll builds all three binaries, if the machine has the prerequisites, and returns the folder with them.
func buildAll(t *testing.T) string {
	t.Helper()
	servers.Require(t, servers.EnsureInstalled(t.Context(), os.Stderr))
	servers.Require(t, servers.Available(t.Context(), servers.Options{Postgres: true, RabbitMQ: true}))
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "handoff-bin-*"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", built.dir+"/", "handoff/cmd/chaos", "handoff/cmd/executor", "handoff/cmd/worker").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

// runningSystem is a running `chaos up` or live run.
type runningSystem struct {
	cmd       *exec.Cmd
	dir       string
	control   string
	api       string
	addresses []string
}

func startUp(t *testing.T, bin string, args ...string) *runningSystem {
	t.Helper()
	r := &runningSystem{cmd: exec.Command(filepath.Join(bin, "chaos"), append([]string{"up", "--workers", "1"}, args...)...)}
	r.cmd.Stderr = os.Stderr
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case strings.HasPrefix(lines.Text(), "Ctrl-C"):
			slices.Sort(r.addresses)
			if r.addresses = slices.Compact(r.addresses); r.dir == "" || len(r.addresses) != 5 {
				t.Fatalf("it lacks the folder of its logs or five addresses: %+v", r)
			}
			return r
		case len(fields) == 2 && fields[0] == "logs":
			r.dir = fields[1]
		case len(fields) == 2 && strings.Contains(fields[1], "://"):
			u, err := url.Parse(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			r.addresses = append(r.addresses, u.Host)
			switch fields[0] {
			case "control":
				r.control = fields[1]
			case "API":
				r.api = fields[1]
			}
		}
	}
	t.Fatal("it ended before it was ready")
	return nil
}

// injectFaults injects every kind of fault that can be injected by hand.
func (r *runningSystem) injectFaults(t *testing.T, bin string) {
	t.Helper()
	faults := []struct {
		fault, says string
	}{
		{"crash: worker-1, restart_after: 100ms", "crash: worker-1\nit ends in 100ms, or with Ctrl-C\nit is over"},
		{"pause: any worker, for: 100ms", "pause: worker-1"},
		{"partition: {cut: worker-1, from: [broker, database, executors]}, for: 100ms", "partition: worker-1"},
		{"reset: {of: executor-1, to: [database], rate: 50%}, for: 100ms", "reset: executor-1"},
		{"latency: {of: executor-1, to: [broker], adds: [10ms, 20ms]}, for: 100ms", "latency: executor-1"},
		{"crash: worker-9", "worker-9"},
		{"broker: alarm, for: 1s", "can't be brought about by hand"},
		{"database: {slow: 50ms}, for: 100ms", "database_slow: database\nit ends in 100ms, or with Ctrl-C\nit is over"},
		{"database: hangs, for: 100ms", "it is over"},
		{"database: kill, for: 100ms", "database_kill: database\nit ends in 100ms, or with Ctrl-C\nit is over"},
		{"broker: restart, for: 100ms", "broker_restart: broker\nit ends in 100ms, or with Ctrl-C\nit is over"},
	}
	if !testenv.All() {
		faults = faults[:len(faults)-2] // all but those that end a server
	}
	for _, c := range faults {
		out, err := exec.Command(filepath.Join(bin, "chaos"), "inject", "--at", r.control, c.fault).CombinedOutput()
		if !strings.Contains(string(out), c.says) {
			t.Errorf("inject %q: %v, %s; want %q", c.fault, err, out, c.says)
		}
	}
}

// undoFaults leaves faults in effect, as a killed chaos inject does, and undoes them with --undo.
func (r *runningSystem) undoFaults(t *testing.T, bin string) {
	t.Helper()
	inject := func(args ...string) string {
		out, err := exec.Command(filepath.Join(bin, "chaos"), append([]string{"inject", "--at", r.control}, args...)...).CombinedOutput()
		return fmt.Sprintf("%v %s", err, out)
	}
	for _, fault := range []string{"database: kill, for: 1h", "broker: kill, for: 1h", "latency: {of: worker-1, to: [database], adds: 1ms}, for: 1h"} {
		c := exec.Command(filepath.Join(bin, "chaos"), "inject", "--at", r.control, fault)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if lines := bufio.NewScanner(out); !lines.Scan() {
			t.Errorf("%s said nothing", fault)
		}
		_ = c.Process.Kill()
		_ = c.Wait() // the test asked for its end
	}
	for fault, says := range map[string]string{
		"database: restart, for: 1s":                                  "the database does not run; chaos inject --undo starts what is down",
		"latency: {of: worker-1, to: [database], adds: 1ms}, for: 1s": "another fault by hand is in effect there",
	} {
		if said := inject(fault); !strings.Contains(said, says) {
			t.Errorf("%s: %s; want %q", fault, said, says)
		}
	}
	if said := inject("--undo"); !strings.HasPrefix(said, "<nil> what was down is started") {
		t.Errorf("undo: %s", said)
	}
	for _, fault := range []string{"database: restart, for: 10ms", "broker: kill, for: 10ms", "latency: {of: worker-1, to: [database], adds: 1ms}, for: 10ms"} {
		if said := inject(fault); !strings.HasPrefix(said, "<nil>") {
			t.Errorf("%s, after undo: %s", fault, said)
		}
	}
}

// waitUntilGone waits until no process mentions the directory and no program listens on the ports.
func (r *runningSystem) waitUntilGone(t *testing.T, how string) {
	t.Helper()
	deadline := time.Now().Add(testenv.Patience())
	for {
		left := r.leftProcesses()
		for _, address := range r.addresses {
			if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
				_ = conn.Close()
				left = append(left, address)
			}
		}
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: these are left: %q", how, left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// leftProcesses returns the processes whose arguments, environment or current directory mention the directory.
func (r *runningSystem) leftProcesses() (found []string) {
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		cwd, _ := os.Readlink(dir + "/cwd")
		arguments, _ := os.ReadFile(dir + "/cmdline")
		environment, _ := os.ReadFile(dir + "/environ")
		if strings.HasPrefix(cwd, r.dir) || strings.Contains(string(arguments)+string(environment), r.dir) {
			found = append(found, filepath.Base(dir)+" "+strings.ReplaceAll(string(arguments), "\x00", " "))
		}
	}
	return found
}
