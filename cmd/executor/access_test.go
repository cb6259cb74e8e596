package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The API takes commands that workers run, so an executor that other machines could give some without a token does not
// start, and says where that was set and what to do.
func TestAnExecutorThatOthersReachWithoutATokenDoesNotStart(t *testing.T) {
	file := write(t, "handoff.yaml", unreachable+"api:\n  listen: 0.0.0.0:0\n")
	command := exec.CommandContext(t.Context(), os.Args[0], "--config", file)
	command.Env = append(os.Environ(), asDaemon+"=1")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	err := command.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitBadConfig {
		t.Errorf("it ended with %v, want exit code %d", err, exitBadConfig)
	}
	for _, want := range []string{
		file + ":4:11: api.listen: is 0.0.0.0:0, which other machines can reach", "127.0.0.1:8080", "api.token or api.tokens", "api.insecure: true",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &stderr)
		}
	}
	if strings.Contains(stderr.String(), "API listening") {
		t.Errorf("it listened:\n%s", &stderr)
	}
}

func TestPrintConfigSaysThatTheAPIIsOpen(t *testing.T) {
	for _, c := range []struct {
		args, environ []string
		code          int
		says          string
	}{
		{[]string{"--listen", ":8080"}, nil, exitBadConfig, "flag --listen: api.listen: is :8080, which other machines can reach"},
		{nil, []string{"HANDOFF_API_LISTEN=0.0.0.0:8080"}, exitBadConfig, "environment variable HANDOFF_API_LISTEN: api.listen: is 0.0.0.0:8080"},
		{[]string{"--listen", ":8080"}, []string{"HANDOFF_API_TOKEN=t"}, exitStopped, ""},
		{[]string{"--listen", ":8080"}, []string{`HANDOFF_API_TOKENS=[{"name": "ci", "token": "0123456789abcdef", "rights": "read"}]`}, exitStopped, ""},
		{[]string{"--listen", ":8080"}, []string{"HANDOFF_API_INSECURE=true"}, exitStopped, ""},
		{[]string{"--listen", ""}, nil, exitStopped, ""},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"--print-config", "--config", write(t, "handoff.yaml", unreachable)}, c.args...)
		if code := run(t.Context(), args, c.environ, &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.says) || c.says == "" && stderr.Len() > 0 {
			t.Errorf("%v %v: exit %d\n%s", c.args, c.environ, code, &stderr)
		}
		if !strings.Contains(stdout.String(), "insecure:") || strings.Contains(stdout.String(), "0123456789abcdef") {
			t.Errorf("%v %v prints\n%s", c.args, c.environ, &stdout)
		}
	}
}

// An executor that can't be reached by others starts, and one that is open on purpose says so in its log.
func TestAnAPIThatIsOpenOnPurposeIsWarnedOf(t *testing.T) {
	ended, log := startedWith(t, "api: {listen: '0.0.0.0:0', insecure: true}\n", "API listening")
	if !strings.Contains(log, "the API is open to whoever reaches it") {
		t.Errorf("exit %d without a warning:\n%s", ended, log)
	}
	if _, log := startedWith(t, "api: {listen: '127.0.0.1:0'}\n", "API listening"); strings.Contains(log, "the API is open") {
		t.Errorf("a warning of an API that is not open:\n%s", log)
	}
}

// startedWith runs the executor without its servers until it logs a line, and returns its exit code and what it logged.
func startedWith(t *testing.T, settings, until string) (code int, log string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "--config", write(t, "handoff.yaml", unreachable+settings))
	command.Env = append(os.Environ(), asDaemon+"=1")
	out, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	buffer := make([]byte, 4096)
	for !strings.Contains(text.String(), until) {
		n, err := out.Read(buffer)
		text.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	_ = command.Process.Kill()
	rest, _ := io.ReadAll(out)
	text.Write(rest)
	_ = command.Wait()
	return command.ProcessState.ExitCode(), text.String()
}
