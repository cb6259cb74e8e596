package api

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateCheck is the interval at which a certificate's files are checked. A renewal takes effect within
// this time, and handshakes cause at most one check in it.
const certificateCheck = 10 * time.Second

// Certificate is a certificate with its key, from files that may be renewed while the server runs.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	// now is the clock. every is the interval of checks.
	now   func() time.Time
	every time.Duration

	mu      sync.Mutex
	current *tls.Certificate
	// seen is the state of the files at the last attempt to read them. looked is the time of the last check.
	seen   [2]fileState
	looked time.Time
}

// fileState identifies a version of a file: a renewed file differs in time or size.
type fileState struct {
	changed time.Time
	size    int64
}

// LoadCertificate reads a certificate, with its chain, and its key from PEM files. An error names the file at
// fault.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log, now: time.Now, every: certificateCheck}
	seen, err := c.fileStates()
	if err != nil {
		return nil, err
	}
	if c.current, err = c.readFiles(); err != nil {
		return nil, err
	}
	c.seen, c.looked = seen, c.now()
	return c, nil
}

// Config returns the TLS configuration of a listener: version 1.2 or later, and only HTTP/1.1, for which the
// server's limits are made.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: c.currentCertificate}
}

// currentCertificate returns the certificate for a handshake. If a renewed one can't be read, it logs that
// and keeps the previous one.
func (c *Certificate) currentCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if now.Sub(c.looked) < c.every {
		return c.current, nil
	}
	c.looked = now
	seen, err := c.fileStates()
	if err == nil && seen == c.seen {
		return c.current, nil
	}
	var renewed *tls.Certificate
	if err == nil {
		renewed, err = c.readFiles()
	}
	if err != nil {
		if seen != c.seen { // log once for each state of the files
			c.log.Error("the renewed certificate can't be used, the one before stays in force", slog.Any("error", err))
		}
		c.seen = seen
		return c.current, nil
	}
	c.seen, c.current = seen, renewed
	c.log.Info("the certificate was renewed", slog.String("file", c.certFile), slog.Time("expires", renewed.Leaf.NotAfter))
	return c.current, nil
}

// fileStates returns the states of the files; a missing file has the zero state.
func (c *Certificate) fileStates() (seen [2]fileState, err error) {
	for i, file := range []struct{ key, name string }{{"api.tls.cert_file", c.certFile}, {"api.tls.key_file", c.keyFile}} {
		info, failed := os.Stat(file.name)
		if failed != nil {
			err = fmt.Errorf("%s: %w", file.key, failed)
			continue
		}
		seen[i] = fileState{info.ModTime(), info.Size()}
	}
	return seen, err
}

func (c *Certificate) readFiles() (*tls.Certificate, error) {
	cert, err := os.ReadFile(c.certFile)
	if err != nil {
		return nil, fmt.Errorf("api.tls.cert_file: %w", err)
	}
	key, err := os.ReadFile(c.keyFile)
	if err != nil {
		return nil, fmt.Errorf("api.tls.key_file: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("api.tls.cert_file %s with api.tls.key_file %s: %w; both must be PEM, and the key must belong to the first certificate of the file", c.certFile, c.keyFile, err)
	}
	return &pair, nil
}
