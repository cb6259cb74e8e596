package subprocess

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host/without"
	"handoff/core/worker"
)

// Real processes exit with every code of the table, and with others. Each code leads to the right reason.
func TestExitCodesGiveTheirReasons(t *testing.T) {
	want := map[int]execution.Reason{
		0: execution.NoReason, 64: execution.InvalidParameters, 65: execution.Validation, 68: execution.Connection, 69: execution.Connection,
		75: execution.Transient, 77: execution.Permission, 104: execution.Connection, 110: execution.Connection, 111: execution.Connection,
		113: execution.Connection, 124: execution.Transient,
		// Unassigned codes, and codes of curl, Rust and shells.
		1: execution.Unknown, 2: execution.Unknown, 7: execution.Unknown, 66: execution.Unknown, 78: execution.Unknown, 101: execution.Unknown,
		126: execution.Unknown, 127: execution.Unknown, 137: execution.Unknown, 255: execution.Unknown,
	}
	for _, c := range worker.ExitCodes() {
		if _, tested := want[c.Code]; !tested {
			t.Errorf("no process ends with %d (%s) here", c.Code, c.Name)
		}
	}
	b := newFixture(t, 0)
	for code, reason := range want {
		exit := b.wait(b.shell(fmt.Sprintf("echo why >&2; exit %d", code)))
		if exit.Killed || exit.Reason != reason {
			t.Errorf("exit code %d is %v, want %v", code, exit.Reason, reason)
		}
		if code != 0 && exit.Message != fmt.Sprintf("exit status %d: why", code) {
			t.Errorf("exit code %d leaves the message %q", code, exit.Message)
		}
	}
}

// A program that exits with the number of a connection error reports that error.
func TestConnectionErrorCodesAreRetried(t *testing.T) {
	b := newFixture(t, 0)
	var lack error
	if !slices.Contains(Runtimes(), config.RuntimePython) {
		lack = fmt.Errorf("no %s on this machine, so no program of that runtime meets a connection error", config.RuntimePython)
	}
	without.Need(t, without.Python, lack)
	const client = `import socket, sys
try:
    s = socket.create_connection(("127.0.0.1", %d), timeout=20)
    s.sendall(b"x")
    sys.exit(0 if s.recv(1) else 1)
except OSError as e:
    sys.exit(e.errno)
`
	resets, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resets.Close() }()
	go func() {
		if c, err := resets.Accept(); err == nil {
			_, _ = c.Read(make([]byte, 1))
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	for name, l := range map[string]net.Listener{"reset": resets, "refused": gone} {
		script := name + ".py"
		text := fmt.Sprintf(client, l.Addr().(*net.TCPAddr).Port)
		if err := os.WriteFile(filepath.Join(b.dir, script), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		exit := b.wait(b.start(execution.Action{Ref: "test", Runtime: config.RuntimePython, Entrypoint: script}, ""))
		if exit.Reason != execution.Connection || !exit.Reason.Retriable() {
			t.Errorf("%s: %+v", name, exit)
		}
	}
	if exit := b.wait(b.shell("timeout 0.05 sleep 9999")); exit.Reason != execution.Transient {
		t.Errorf("a command that timeout(1) ended: %+v", exit)
	}
}

// Exit codes that an action declares are retried, whatever they mean in other programs. An error object takes
// precedence, and a code that is retried in any case keeps its reason.
func TestDeclaredExitCodesAreRetried(t *testing.T) {
	b := newFixture(t, 0)
	for entrypoint, want := range map[string]execution.Reason{
		"exit 1":     execution.Transient,
		"exit 65":    execution.Transient,
		"exit 69":    execution.Connection,
		"exit 2":     execution.Unknown,
		"exit 0":     execution.NoReason,
		"kill -9 $$": execution.Unknown,
		`echo '{"error":{"type":"permission"}}'; exit 1`: execution.Permission,
	} {
		exit := b.wait(b.start(execution.Action{Ref: "test", Runtime: config.RuntimeShell, Entrypoint: entrypoint, RetriedExitCodes: execution.NewExitCodes(1, 65, 69)}, ""))
		if exit.Reason != want || exit.Killed {
			t.Errorf("%s: %+v, want %v", entrypoint, exit, want)
		}
	}
	if exit := b.wait(b.shell("exit 1")); exit.Code != 1 || exit.Reason != execution.Unknown {
		t.Errorf("an action that declares none: %+v", exit)
	}
}

// An error object of an action takes precedence over its exit code.
func TestReportedErrorOverridesExitCode(t *testing.T) {
	b := newFixture(t, 0)
	exit := b.wait(b.shell(`echo '{"error":{"type":"validation","message":"no such order"}}'; exit 69`))
	if exit.Reason != execution.Validation || exit.Message != "no such order" {
		t.Errorf("%+v", exit)
	}
}

func TestExitCodesGiveOnlyActionReasons(t *testing.T) {
	codes := worker.ExitCodes()
	if !slices.IsSortedFunc(codes, func(a, b worker.ExitCode) int { return a.Code - b.Code }) {
		t.Error("the table is not in order")
	}
	for _, c := range codes {
		if !c.Reason.OfAction() || c.Reason == execution.Unknown {
			t.Errorf("%d stands for %v, which is not an action's to give", c.Code, c.Reason)
		}
	}
	for _, name := range execution.Reasons() {
		r, err := execution.ParseReason(name)
		if err != nil {
			t.Fatal(err)
		}
		if said := ownReason(name); r.OfAction() != (said == r) {
			t.Errorf("an action that says %s fails as %v", name, said)
		}
	}
}
