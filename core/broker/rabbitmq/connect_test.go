package rabbitmq

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"handoff/core/broker"
)

// silentListener accepts and never answers.
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

func TestConnectWithAWrongPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address, err := url.Parse(w.mq.URL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(address.User.Username(), "wrong-secret")
	_, err = New(Options{URL: address.String()}).Connect(t.Context())
	if !errors.Is(err, broker.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong password is %v", err)
	}
}

// TestHeartbeatOfTheOptionsRules: the URL must not turn the heartbeat off.
func TestHeartbeatOfTheOptionsRules(t *testing.T) {
	w := newWorld(t)
	for _, o := range []Options{{URL: w.mq.URL + "?heartbeat=0", Heartbeat: 7 * time.Second}, {URL: w.mq.URL, Heartbeat: time.Millisecond}} {
		s := w.connect(o)
		want := max(o.Heartbeat, time.Second)
		if got := s.publishing.amqp.Config.Heartbeat; got != want {
			t.Errorf("the heartbeat is %v, want %v", got, want)
		}
		if got := s.publishing.amqp.Config.Recovery; got != nil {
			t.Errorf("the library would recover by itself")
		}
	}
}

// TestSilentBrokerIsNoticed: nothing arrives any more, and no end of the connection either.
func TestSilentBrokerIsNoticed(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes three heartbeats")
	}
	w := newWorld(t)
	p := w.proxy()
	s := w.connect(Options{URL: p.url, Heartbeat: time.Second})
	queue := w.queue(s, broker.Queue{Name: w.name("q"), Type: typeClassic})
	c := w.consume(s, queue, 1)
	p.backing.set(true)
	start := time.Now()
	_, err := c.Receive(w.within(patience))
	if took := time.Since(start); !errors.Is(err, broker.ErrClosed) || took > 4*time.Second {
		t.Errorf("Receive returned %v after %v", err, took)
	}
	if !s.Closed() {
		t.Error("the session is open")
	}
}

// TestEitherConnectionEndsTheSession: half a session would be a deaf or a mute process.
func TestEitherConnectionEndsTheSession(t *testing.T) {
	w := newWorld(t)
	for name, cut := range map[string]func(*session){
		"publishing": func(s *session) { _ = s.publishing.raw.Close() },
		"consuming":  func(s *session) { _ = s.consuming.raw.Close() },
	} {
		s := w.connect(Options{})
		cut(s)
		w.eventually("session over after its "+name+" connection was cut", s.Closed)
		w.eventually("both connections closed", func() bool { return s.publishing.amqp.IsClosed() && s.consuming.amqp.IsClosed() })
	}
}

func TestCloseTwice(t *testing.T) {
	w := newWorld(t)
	s := w.connect(Options{})
	s.Close()
	s.Close()
	if !s.Closed() || s.Blocked() {
		t.Error("a closed session is open or blocked")
	}
	if err := s.Declare(t.Context(), broker.Topology{}); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Declare on a closed session: %v", err)
	}
	if _, err := s.Consume(t.Context(), "q", 1); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("Consume on a closed session: %v", err)
	}
}
