package api

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate writes a certificate for localhost and its key to files, and returns the certificate.
func certificate(t *testing.T, dir string, serial int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "tls.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), serial)
	put(t, filepath.Join(dir, "tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})), serial)
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// put writes a file and gives it a new modification time, as a renewal would.
func put(t *testing.T, path, text string, changed int64) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Unix(1e9+changed, 0)); err != nil {
		t.Fatal(err)
	}
}

func TestServerReloadsRenewedCertificates(t *testing.T) {
	dir := t.TempDir()
	first := certificate(t, dir, 1)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	c, err := LoadCertificate(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), logger)
	if err != nil {
		t.Fatal(err)
	}
	now := c.looked
	c.now = func() time.Time { return now }
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	var errors bytes.Buffer
	go func() {
		served <- Serve(ctx, tls.NewListener(l, c.Config()), setup(t, nil).Handler, slog.New(slog.NewTextHandler(&errors, nil)), time.Second)
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	// serial returns the serial number of the certificate that a new connection receives.
	serial := func(trusted *x509.Certificate, least uint16) int64 {
		t.Helper()
		pool := x509.NewCertPool()
		pool.AddCert(trusted)
		client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: least, MaxVersion: least}, DisableKeepAlives: true}}
		answer, err := client.Get("https://localhost:" + port + executionsPath) //nolint:noctx // the test ends with the server
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK || answer.Proto != "HTTP/1.1" {
			t.Errorf("answered with %s %s", answer.Proto, answer.Status)
		}
		return answer.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	expect := func(what string, got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("%s the certificate is number %d, want %d\n%s", what, got, want, &log)
		}
	}
	expect("at first", serial(first, tls.VersionTLS13), 1)
	second := certificate(t, dir, 2)
	now = now.Add(certificateCheck - 1)
	expect("before the files are checked again", serial(first, tls.VersionTLS12), 1)
	now = now.Add(1)
	expect("after a renewal", serial(second, tls.VersionTLS12), 2)

	// After a broken renewal the server keeps its certificate: the key belongs to another certificate, a file
	// is not a certificate, or a file is missing.
	for what, broken := range map[string]func(){
		"with half a renewal": func() {
			other := t.TempDir()
			certificate(t, other, 4)
			key, _ := os.ReadFile(filepath.Join(other, "tls.key"))
			put(t, filepath.Join(dir, "tls.key"), string(key), 4)
		},
		"with a file that is not a certificate": func() { put(t, filepath.Join(dir, "tls.crt"), "nonsense", 5) },
		"without a file":                        func() { _ = os.Remove(filepath.Join(dir, "tls.key")) },
	} {
		broken()
		log.Reset()
		now = now.Add(certificateCheck)
		expect(what, serial(second, tls.VersionTLS13), 2)
		now = now.Add(certificateCheck)
		expect(what+", later", serial(second, tls.VersionTLS13), 2)
		if strings.Count(log.String(), "stays in force") != 1 || !strings.Contains(log.String(), "api.tls.") {
			t.Errorf("%s the log says:\n%s", what, &log)
		}
	}
	third := certificate(t, dir, 6)
	now = now.Add(certificateCheck)
	expect("after the repair", serial(third, tls.VersionTLS13), 6)

	// Connections with older TLS versions fail, and a plain HTTP request gets a plain response.
	pool := x509.NewCertPool()
	pool.AddCert(third)
	old := tls.Dialer{Config: &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}}
	if conn, err := old.DialContext(t.Context(), "tcp", l.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 is accepted")
	}
	answer, err := http.Get("http://" + l.Addr().String() + executionsPath) //nolint:noctx // the test ends with the server
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "HTTPS server") {
		t.Errorf("plain HTTP is answered with %s %q", answer.Status, text)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestUnreadableCertificateErrorNamesFile(t *testing.T) {
	dir := t.TempDir()
	certificate(t, dir, 1)
	cert, key, missing, empty := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "missing.pem"), filepath.Join(dir, "empty.pem")
	put(t, empty, "", 1)
	other := t.TempDir()
	certificate(t, other, 2)
	for _, c := range []struct{ cert, key, want string }{
		{missing, key, "api.tls.cert_file: stat " + missing},
		{cert, missing, "api.tls.key_file: stat " + missing},
		{dir, key, "api.tls.cert_file: read " + dir},
		{empty, key, "api.tls.cert_file " + empty},
		{cert, empty, "api.tls.key_file " + empty},
		{cert, filepath.Join(other, "tls.key"), "the key must belong to the first certificate"},
	} {
		if _, err := LoadCertificate(c.cert, c.key, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s and %s: %v, want %s", c.cert, c.key, err, c.want)
		}
	}
}
