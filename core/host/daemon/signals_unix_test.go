//go:build unix

package daemon_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"handoff/core/host/daemon"
)

// asListener is the variable that makes the test binary wait for real signals.
const asListener = "TEST_WAITS_FOR_SIGNALS"

func TestMain(m *testing.M) {
	if os.Getenv(asListener) != "" {
		listen()
	}
	os.Exit(m.Run())
}

// listen stops slowly, like a busy daemon: once it is stopping, only SIGINT ends it.
func listen() {
	ctx := daemon.Signals(context.Background())
	late := os.Getenv(asListener) == "late"
	if late {
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-ctx.Done()
	}
	daemon.LogSignals(ctx, slog.New(slog.NewTextHandler(os.Stdout, nil)))
	if late {
		os.Exit(0)
	}
	_, _ = os.Stdout.WriteString("waiting\n")
	<-ctx.Done()
	_, _ = os.Stdout.WriteString("stopping\n")
	select {}
}

// The second signal is SIGTERM, which has no effect. The third is SIGINT.
func TestSecondInterruptEndsStoppingProcess(t *testing.T) {
	const again = `msg="received SIGTERM while stopping: it changes nothing; SIGINT ends the process at once"`
	for _, c := range []struct {
		first syscall.Signal
		lines []string
	}{
		{syscall.SIGTERM, []string{`msg="received SIGTERM"`, again, `msg="received SIGINT while stopping: ending at once"`}},
		{syscall.SIGINT, []string{`msg="received SIGINT"`, again, `msg="received SIGINT while stopping: ending at once"`}},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), asListener+"=1")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		said := ""
		await := func(line string) {
			t.Helper()
			for !strings.HasSuffix(said, line+"\n") {
				text, err := lines.ReadString('\n')
				if said += text; err != nil {
					t.Fatalf("%v: the process ended before it logged %q:\n%s", c.first, line, said)
				}
			}
		}
		await("waiting")
		_ = cmd.Process.Signal(c.first)
		await("stopping")
		_ = cmd.Process.Signal(syscall.SIGTERM)
		await("level=INFO " + again)
		_ = cmd.Process.Signal(syscall.SIGINT)
		rest, _ := io.ReadAll(lines)
		said += string(rest)
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
			t.Errorf("%v: %v", c.first, err)
		}
		for _, line := range c.lines {
			if strings.Count(said, "level=INFO "+line+"\n") != 1 {
				t.Errorf("%v: the line %s is missing in\n%s", c.first, line, said)
			}
		}
	}
}

func TestEarlySignalIsLoggedLater(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), asListener+"=late")
	said, err := cmd.Output()
	if err != nil || !strings.Contains(string(said), `msg="received SIGTERM"`) {
		t.Errorf("%v: %q", err, said)
	}
}
