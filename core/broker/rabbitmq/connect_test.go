package rabbitmq

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/testenv"
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

func TestRefusedConnectionIsUnavailable(t *testing.T) {
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

func TestConnectTimesOutOnSilence(t *testing.T) {
	address := "amqp://u:secret@" + silentListener(t)
	// Without the timeouts under test, neither call would return.
	_, err := New(Options{URL: address, DialTimeout: 200 * time.Millisecond}).Connect(t.Context())
	if !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("a broker that does not answer is %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = New(Options{URL: address, DialTimeout: testenv.Patience()}).Connect(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("a context that ends is %v", err)
	}
}

func TestErrorsHidePassword(t *testing.T) {
	for _, address := range []string{
		"amqp://u:secret@%zz", "http://u:secret@localhost", "amqp://u:secret@127.0.0.1:1/%2f", "amqp://u:secret@local host:1",
	} {
		_, err := New(Options{URL: address}).Connect(t.Context())
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("the error for a wrong URL is %v", err)
		}
	}
}
