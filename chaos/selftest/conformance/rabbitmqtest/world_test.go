package rabbitmqtest_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/chaos/servers"
	"handoff/core/broker"
	"handoff/core/broker/rabbitmq"
	"handoff/core/execution"
	"handoff/core/testenv"
)

// sideBySide is the number of concurrent tests: they mostly wait.
const sideBySide = "10"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", sideBySide); err != nil {
		panic(err)
	}
	servers.MainAlone(m)
}

// The types of queues.
const (
	classic = "classic"
	quorum  = "quorum"
)

// patience bounds every wait that is expected to end.
var patience = testenv.Patience()

// world is an empty virtual host on a real broker.
type world struct {
	t      testing.TB
	mq     *servers.MQ
	raw    *amqp.Channel
	number atomic.Int64
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return worldOf(t, servers.Broker(t))
}

// worldOf is a virtual host that the caller has made.
func worldOf(t testing.TB, mq *servers.MQ) *world {
	t.Helper()
	w := &world{t: t, mq: mq}
	conn, err := amqp.Dial(w.mq.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if w.raw, err = conn.Channel(); err != nil {
		t.Fatal(err)
	}
	return w
}

// objectName is a queue or exchange name of this world.
func (w *world) objectName(suffix string) string { return w.mq.Prefix + suffix }

// contextWithin is a context with this time limit.
func (w *world) contextWithin(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	w.t.Cleanup(cancel)
	return ctx
}

func (w *world) openSession(o rabbitmq.Options) broker.Session {
	w.t.Helper()
	if o.URL == "" {
		o.URL = w.mq.URL
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = patience
	}
	s, err := rabbitmq.New(o).Connect(w.contextWithin(patience))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	return s
}

// declareQueue declares a queue.
func (w *world) declareQueue(s broker.Session, q broker.Queue) string {
	w.t.Helper()
	if err := s.Declare(w.contextWithin(patience), broker.Topology{Queues: []broker.Queue{q}}); err != nil {
		w.t.Fatal(err)
	}
	return q.Name
}

// newMessage is a hint about one execution, for the default exchange.
func (w *world) newMessage(queue string) broker.Message {
	n := w.number.Add(1)
	return broker.Message{RoutingKey: queue, Envelope: broker.Envelope{
		MessageID: fmt.Sprintf("m%d", n), Type: broker.ExecutionCompleted, CorrelationID: "c",
		Timestamp: time.Unix(1_700_000_000, 123_456_789).UTC(), Version: 1,
		Changes: []broker.Change{{Key: execution.Key{ID: execution.ID(n), Epoch: 2}, From: execution.Running, To: execution.Failed}},
	}}
}

func (w *world) newMessages(queue string, n int) []broker.Message {
	ms := make([]broker.Message, n)
	for i := range ms {
		ms[i] = w.newMessage(queue)
	}
	return ms
}

// publishConfirmed expects every message to be confirmed.
func (w *world) publishConfirmed(s broker.Session, ms ...broker.Message) {
	w.t.Helper()
	for i, o := range s.Publish(w.contextWithin(patience), ms) {
		if o != broker.Confirmed {
			w.t.Fatalf("message %d of %d is %v", i, len(ms), o)
		}
	}
}

func (w *world) startConsumer(s broker.Session, queue string, prefetch int) broker.Consumer {
	w.t.Helper()
	c, err := s.Consume(w.contextWithin(patience), queue, prefetch)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) receiveDelivery(c broker.Consumer) broker.Delivery {
	w.t.Helper()
	d, err := c.Receive(w.contextWithin(patience))
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// expectSilence expects no delivery for a while.
func (w *world) expectSilence(c broker.Consumer, d time.Duration) {
	w.t.Helper()
	if got, err := c.Receive(w.contextWithin(d)); err != context.DeadlineExceeded { //nolint:errorlint // never wrapped
		w.t.Fatalf("received %+v, %v; want nothing", got, err)
	}
}

// queueDepth is the number of ready messages.
func (w *world) queueDepth(queue string) int {
	w.t.Helper()
	q, err := w.raw.QueueDeclarePassive(queue, true, false, false, false, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return q.Messages
}

// waitUntil waits until a condition holds.
func (w *world) waitUntil(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// proxy is a TCP proxy in front of the broker, whose connections can be cut and held.
type proxy struct {
	url      string
	listener net.Listener
	upstream string

	mu sync.Mutex
	// conns are the connections of clients and of the broker in turn, in the order in which clients
	// connected.
	conns   []net.Conn
	refuse  bool
	running int  // pipes, two for each connection
	toward  gate // client to broker
	backing gate // broker to client
}

func (w *world) startProxy() *proxy {
	w.t.Helper()
	u, err := url.Parse(w.mq.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	p := &proxy{listener: l, upstream: u.Host}
	u.Host = l.Addr().String()
	p.url = u.String()
	go p.acceptConnections()
	w.t.Cleanup(func() {
		l.Close()
		p.cutConnections()
		p.toward.setClosed(false)
		p.backing.setClosed(false)
	})
	return p
}

func (p *proxy) acceptConnections() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.upstream)
		p.mu.Lock()
		refuse := p.refuse || err != nil
		if !refuse {
			p.conns = append(p.conns, client, server)
			p.running += 2
		}
		p.mu.Unlock()
		if refuse {
			client.Close()
			if server != nil {
				server.Close()
			}
			continue
		}
		go p.pipeBytes(server, client, &p.toward)
		go p.pipeBytes(client, server, &p.backing)
	}
}

// pipeBytes copies bytes while its gate is open.
func (p *proxy) pipeBytes(to, from net.Conn, g *gate) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running--
	}()
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			g.waitOpen()
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// isIdle returns whether no connection is left.
func (p *proxy) isIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running == 0
}

// cutOne cuts the nth connection that was made, counted from 0.
func (p *proxy) cutOne(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[2*n].Close()
}

// gate holds up what passes while it is closed.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // nil while the gate is open; closed when it opens
}

func (g *gate) setClosed(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case closed && g.open == nil:
		g.open = make(chan struct{})
	case !closed && g.open != nil:
		close(g.open)
		g.open = nil
	}
}

// waitOpen waits until the gate is open.
func (g *gate) waitOpen() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if open != nil {
		<-open
	}
}

// cutConnections ends all connections.
func (p *proxy) cutConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

func (p *proxy) setRefuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}
