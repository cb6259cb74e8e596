//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"handoff/core/testenv"
)

// obeys is the threshold in docs/attacks.md, which only make test-all enforces.
const obeys = time.Second

// A signal ends the judging of an endless history, and the wait for a pipe without a writer.
func TestCheckObeysSignals(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		signal     syscall.Signal
	}{
		{"in the middle of a history", "/dev/stdin", syscall.SIGTERM},
		{"in the middle of a history, from the keyboard", "/dev/stdin", syscall.SIGINT},
		{"before a history", fifo, syscall.SIGTERM},
	} {
		t.Run(c.name, func(t *testing.T) {
			tryInTime(t, func() (time.Duration, string) {
				cmd := chaosProcess(t, "check", c.path)
				var said bytes.Buffer
				cmd.Stderr = &said
				in, err := cmd.StdinPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if c.path == fifo {
					// Open the pipe for writing once the program waits in open, because its signal handlers
					// are installed by then.
					f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = f.Close() }()
				} else {
					writeEndlessly(t, in)
				}
				took := interruptProcess(t, cmd, c.signal)
				if cmd.ProcessState.ExitCode() != 4 || !strings.Contains(said.String(), "interrupted") {
					t.Errorf("it ended with exit %d\n%s", cmd.ProcessState.ExitCode(), &said)
				}
				return took, said.String()
			})
		})
	}
}

// interruptProcess sends a signal to a process and returns the time until its end.
func interruptProcess(t *testing.T, cmd *exec.Cmd, signal syscall.Signal) time.Duration {
	t.Helper()
	begin := time.Now()
	if err := cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(testenv.Patience(), func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	if !hangs.Stop() {
		t.Errorf("it did not end within %v of the signal", testenv.Patience())
	}
	return time.Since(begin)
}

// tryInTime tries up to three times, because on a busy machine other tests may delay a process that obeys.
func tryInTime(t *testing.T, try func() (took time.Duration, said string)) {
	t.Helper()
	for n := 1; ; n++ {
		took, said := try()
		switch {
		case took <= obeys || t.Failed() || !testenv.All():
			return
		case n == 3:
			t.Fatalf("it ended %v after the signal; at most %v are allowed\n%s", took, obeys, said)
		}
	}
}

// writeEndlessly writes an endless history. It returns after more than the capacity of a pipe has been read,
// so that the judgement is under way.
func writeEndlessly(t *testing.T, in io.WriteCloser) {
	t.Helper()
	text := header + numberedLines(1, 500, 0, registered)
	for i := range 20 {
		if _, err := io.WriteString(in, text); err != nil {
			t.Fatal(err)
		}
		text = numberedLines(i*200, i*200+199, time.Second, tick)
	}
	go func() {
		for err := error(nil); err == nil; {
			_, err = io.WriteString(in, text)
		}
	}()
}
