package main

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"handoff/chaos/servers"
)

// However `chaos up` ends, it leaves no process and no port behind. Its directory is gone at once
// or, if it could not clean up, after the next start. SIGQUIT ends a Go program like a panic.
func TestUpLeavesNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the whole system three times")
	}
	bin := buildAll(t)
	left := ""
	for _, end := range []struct {
		how    string
		signal syscall.Signal
		cleans bool
	}{{"kill -9", syscall.SIGKILL, false}, {"panic", syscall.SIGQUIT, false}, {"Ctrl-C", syscall.SIGINT, true}} {
		up := startUp(t, bin)
		if left != "" {
			if _, err := os.Stat(left); !os.IsNotExist(err) {
				t.Errorf("%s: the directory of the run before is still there: %v", end.how, err)
			}
		}
		if end.cleans {
			up.breaks(t, bin)
			up.undoes(t, bin)
		}
		if err := up.cmd.Process.Signal(end.signal); err != nil {
			t.Fatal(err)
		}
		_ = up.cmd.Wait() // the test asked for its end
		up.gone(t, end.how)
		_, err := os.Stat(up.dir)
		if end.cleans && !os.IsNotExist(err) {
			t.Errorf("%s: %s is left behind: %v", end.how, up.dir, err)
		}
		left = up.dir
	}
}

// buildAll builds all three binaries, on a machine that has the prerequisites, and returns their
// folder.
func buildAll(t *testing.T) string {
	t.Helper()
	servers.Require(t, servers.EnsureInstalled(t.Context(), os.Stderr))
	servers.Require(t, servers.Available(t.Context(), servers.Options{Postgres: true, RabbitMQ: true}))
	bin := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", bin+"/", "handoff/cmd/...").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

// running is one `chaos up`, or one live run.
type running struct {
	cmd       *exec.Cmd
	dir       string
	control   string
	addresses []string
}

func startUp(t *testing.T, bin string) *running {
	t.Helper()
	r := &running{cmd: exec.Command(filepath.Join(bin, "chaos"), "up", "--workers", "1")}
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
				t.Fatalf("it says neither where its logs are nor five addresses: %+v", r)
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
			if fields[0] == "control" {
				r.control = fields[1]
			}
		}
	}
	t.Fatal("it ended before it was ready")
	return nil
}

// breaks injects by hand every fault that can be injected by hand.
func (r *running) breaks(t *testing.T, bin string) {
	t.Helper()
	for _, c := range []struct {
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
	} {
		out, err := exec.Command(filepath.Join(bin, "chaos"), "inject", "--at", r.control, c.fault).CombinedOutput()
		if !strings.Contains(string(out), c.says) {
			t.Errorf("inject %q: %v, %s; it should say %q", c.fault, err, out, c.says)
		}
	}
}

// undoes leaves faults behind, as a chaos inject that was killed does, and takes them back.
func (r *running) undoes(t *testing.T, bin string) {
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
		"latency: {of: worker-1, to: [database], adds: 1ms}, for: 1s": "another fault by hand lasts there",
	} {
		if said := inject(fault); !strings.Contains(said, says) {
			t.Errorf("%s: %s; it should say %q", fault, said, says)
		}
	}
	if said := inject("--undo"); !strings.HasPrefix(said, "<nil> every server and process was started or runs") {
		t.Errorf("undo: %s", said)
	}
	for _, fault := range []string{"database: restart, for: 10ms", "broker: kill, for: 10ms", "latency: {of: worker-1, to: [database], adds: 1ms}, for: 10ms"} {
		if said := inject(fault); !strings.HasPrefix(said, "<nil>") {
			t.Errorf("%s, after undo: %s", fault, said)
		}
	}
}

// gone waits until no process mentions the directory and nothing listens any more.
func (r *running) gone(t *testing.T, how string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		left := r.processes()
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

// processes returns the processes that have the directory in their arguments or environment, or as
// their current directory.
func (r *running) processes() (found []string) {
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
