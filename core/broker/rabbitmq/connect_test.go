package rabbitmq

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"handoff/core/broker"
)

// silentListener accepts connections and never answers.
func silentListener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestConnectRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	_, err = New(Options{URL: "amqp://u:secret@" + address}).Connect(t.Context())
	if !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("a refused connection is %v", err)
	}
}

func TestConnectToSilence(t *testing.T) {
	address := "amqp://u:secret@" + silentListener(t)
	start := time.Now()
	_, err := New(Options{URL: address, DialTimeout: 200 * time.Millisecond}).Connect(t.Context())
	if took := time.Since(start); !errors.Is(err, broker.ErrUnavailable) || took > 2*time.Second {
		t.Errorf("a broker that does not answer is %v after %v", err, took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start = time.Now()
	_, err = New(Options{URL: address}).Connect(ctx)
	if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, broker.ErrUnavailable) || took > 2*time.Second {
		t.Errorf("a context that ends is %v after %v", err, took)
	}
}

func TestErrorsKeepThePassword(t *testing.T) {
	for _, address := range []string{
		"amqp://u:secret@%zz", "http://u:secret@localhost", "amqp://u:secret@127.0.0.1:1/%2f", "amqp://u:secret@local host:1",
	} {
		_, err := New(Options{URL: address}).Connect(t.Context())
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("the error for a wrong URL is %v", err)
		}
	}
}
