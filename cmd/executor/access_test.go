package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Workers run the commands that the API accepts. So an executor does not start if other machines could
// command it without a token. Its error names the setting and the remedies.
func TestReachableAPINeedsToken(t *testing.T) {
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
	closed := write(t, "handoff.yaml", unreachable)
	for _, address := range []string{"0.0.0.0:0", "[::]:0", ":0", "[::ffff:0.0.0.0]:0", "192.0.2.1:0"} {
		command := exec.CommandContext(t.Context(), os.Args[0], "--config", closed, "--listen", address)
		command.Env = append(os.Environ(), asDaemon+"=1")
		said, _ := command.CombinedOutput() // the exit code is checked below
		if command.ProcessState.ExitCode() != exitBadConfig || !strings.Contains(string(said), "api.insecure: true") || strings.Contains(string(said), "API listening") {
			t.Errorf("--listen %s: exit code %d\n%s", address, command.ProcessState.ExitCode(), said)
		}
	}
}

func TestPrintConfigShowsInsecureWarning(t *testing.T) {
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

// An executor that only this machine can reach logs no warning. One that is deliberately open logs one.
func TestInsecureAPIIsLogged(t *testing.T) {
	ended, log := startedWith(t, "api: {listen: '0.0.0.0:0', insecure: true}\n", "API listening")
	if !strings.Contains(log, "the API is open to whoever reaches it") {
		t.Errorf("exit %d without a warning:\n%s", ended, log)
	}
	if _, log := startedWith(t, "api: {listen: '127.0.0.1:0'}\n", "API listening"); strings.Contains(log, "the API is open") {
		t.Errorf("a warning of an API that is not open:\n%s", log)
	}
}

// startedWith runs the executor, without a database and a broker, until it logs a certain line. It returns
// the exit code and the log.
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

// testCertificate writes a certificate for 127.0.0.1 and its key, and returns a client that trusts it.
func testCertificate(t *testing.T) (cert, key string, client *http.Client) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	pair := server.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	cert = write(t, "tls.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
	key = write(t, "tls.key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	return cert, key, server.Client()
}

func TestExecutorServesTLSFromFiles(t *testing.T) {
	cert, key, client := testCertificate(t)
	ctx, stop := context.WithCancel(t.Context())
	logs, stderr := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		file := write(t, "handoff.yaml", unreachable+fmt.Sprintf("api: {listen: '127.0.0.1:0', tls: {cert_file: %s, key_file: %s}}\n", cert, key))
		ended <- run(ctx, []string{"--config", file}, nil, io.Discard, stderr)
		_ = stderr.Close()
	}()
	address := ""
	for lines := bufio.NewScanner(logs); address == "" && lines.Scan(); {
		if m := regexp.MustCompile(`"API listening","address":"([^"]+)","tls":true`).FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
		}
	}
	go func() { _, _ = io.Copy(io.Discard, logs) }()
	answer, err := client.Get("https://" + address + "/healthz") //nolint:noctx // the test ends with the server
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("/healthz over TLS: %s", answer.Status)
	}
	stop()
	if code := <-ended; code != exitStopped {
		t.Errorf("exit %d", code)
	}
}

func TestExecutorWithoutCertificateDoesNotStart(t *testing.T) {
	cert, _, _ := testCertificate(t)
	for settings, want := range map[string]string{
		fmt.Sprintf("api: {listen: '127.0.0.1:0', tls: {cert_file: %s, key_file: /missing.key}}\n", cert): "the API can't serve TLS: api.tls.key_file: stat /missing.key",
		fmt.Sprintf("api: {listen: '127.0.0.1:0', tls: {cert_file: %s}}\n", cert):                         "api.tls.cert_file: is set and api.tls.key_file is not; TLS needs both",
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), []string{"--config", write(t, "handoff.yaml", unreachable+settings)}, nil, io.Discard, &stderr); code == exitStopped || !strings.Contains(stderr.String(), want) {
			t.Errorf("exit %d, %s, want %s", code, &stderr, want)
		}
	}
}
