package rabbitmqtest_test

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/testenv"
)

func TestConnectWithWrongPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address, err := url.Parse(w.mq.URL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(address.User.Username(), "wrong-secret")
	_, err = rabbitmq.New(rabbitmq.Options{URL: address.String()}).Connect(t.Context())
	if !errors.Is(err, broker.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("a wrong password is %v", err)
	}
}

// TestOptionsSetHeartbeat: the URL must not turn the heartbeat off.
func TestOptionsSetHeartbeat(t *testing.T) {
	t.Parallel()
	for _, o := range []rabbitmq.Options{{Heartbeat: 7 * time.Second}, {Heartbeat: time.Millisecond}} {
		w := newWorld(t)
		if !w.mq.Server.Private() {
			t.Skip("asks the node")
		}
		o.URL, o.Name = w.mq.URL+"?heartbeat=0", "tested"
		s := w.openSession(o)
		seconds := strconv.Itoa(int(max(o.Heartbeat, time.Second).Seconds()))
		// The node lists connections some time after it has accepted them. The test's own
		// connection has no such name.
		w.waitUntil("two connections with a heartbeat of "+seconds+" s", func() bool {
			if s.Closed() { // a machine that stands still misses heartbeats of a second
				s = w.openSession(o)
			}
			out, err := w.mq.Server.Ctl(w.contextWithin(patience), "-q", "list_connections", "--no-table-headers", "vhost", "timeout", "client_properties")
			if err != nil {
				t.Fatal(err, out)
			}
			found := 0
			for line := range strings.Lines(out) {
				if f := strings.Fields(line); len(f) > 2 && f[0] == w.mq.Vhost && strings.Contains(line, "tested") && f[1] == seconds {
					found++
				}
			}
			return found == 2
		})
	}
}

// TestSilentBrokerIsDetected: nothing arrives any more, not even the end of the connection.
func TestSilentBrokerIsDetected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.startProxy()
	s := w.openSession(rabbitmq.Options{URL: p.url, Heartbeat: time.Second})
	queue := w.declareQueue(s, broker.Queue{Name: w.objectName("q"), Type: classic})
	c := w.startConsumer(s, queue, 1)
	p.backing.setClosed(true)
	start := time.Now()
	_, err := c.Receive(w.contextWithin(patience))
	if took := time.Since(start); !errors.Is(err, broker.ErrClosed) || testenv.All() && took > 4*time.Second {
		t.Errorf("Receive returned %v after %v", err, took)
	}
	if !s.Closed() {
		t.Error("the session is open")
	}
}

// TestSessionEndsWithEitherConnection: half a session would be a deaf or a mute process. Publishing and
// consuming have a connection each, and no new one replaces them.
func TestSessionEndsWithEitherConnection(t *testing.T) {
	w := newWorld(t)
	for n := range 2 {
		p := w.startProxy()
		s := w.openSession(rabbitmq.Options{URL: p.url})
		p.cutOne(n)
		w.waitUntil(fmt.Sprintf("session over after connection %d was cut", n), s.Closed)
		w.waitUntil("both connections closed", p.isIdle)
	}
}

func TestCloseTwice(t *testing.T) {
	w := newWorld(t)
	s := w.openSession(rabbitmq.Options{})
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
