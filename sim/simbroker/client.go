package simbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"handoff/core/broker"
	"handoff/sim/kernel"
	"handoff/sim/simnet"
)

// errMalformed is the error that a consumer gets for a corrupted body.
var errMalformed = errors.New("the body is not an envelope: invalid character '\\xff'")

// client is one process's client of the broker.
type client struct {
	b         *Broker
	p         *kernel.Process
	heartbeat time.Duration
}

// Client returns the broker client of one process. heartbeat is the interval of its sessions; 0 means none,
// and then a silent peer is never detected.
func (b *Broker) Client(p *kernel.Process, heartbeat time.Duration) broker.Broker {
	return &client{b: b, p: p, heartbeat: heartbeat}
}

// session is the client's end of one connection.
type session struct {
	b         *Broker
	p         *kernel.Process
	conn      *simnet.Conn // nil until the broker has accepted
	peer      *peer
	heartbeat time.Duration

	late      []*publish // publishes that are waiting for a hanging queue, oldest first
	batches   []*batch   // publishes without an outcome, oldest first
	requests  []*request // without a reply, oldest first
	subs      []*subscription
	watchers  []kernel.Wait
	sent      uint64 // publishes
	lastHeard time.Duration
	blocked   bool
	closed    bool
	limited   []string // see Limited
	// readOn reports whether the program still receives buffered deliveries after the end of the session, as
	// from a real client that read the last frames before it detected the end.
	readOn bool
}

// request is one request to the broker.
type request struct {
	wait kernel.Wait
	err  error
}

// Connects returns how often processes of this name have tried to connect, including failed attempts.
func (b *Broker) Connects(process string) uint64 { return b.connects[process] }

// Connect implements broker.Broker. If the client gives up, the broker that accepted the connection detects
// its end.
func (c *client) Connect(ctx context.Context) (broker.Session, error) {
	b := c.b
	within, cancel := b.k.WithTimeout(ctx, b.opts.ConnectTimeout)
	defer cancel()
	b.connects[c.p.Name()]++
	s := &session{b: b, p: c.p, heartbeat: c.heartbeat, lastHeard: b.k.Now()}
	err := b.net.Call(within, c.p, b.opts.Name, func() {
		if !s.closed && c.p.Alive() {
			b.acceptSession(s)
		}
	})
	if err == nil {
		return s, nil
	}
	s.closed = true
	if s.conn != nil {
		s.conn.CloseClient()
	}
	if ctxErr := ctx.Err(); ctxErr != nil {
		return nil, ctxErr
	}
	return nil, fmt.Errorf("%w: %w", broker.ErrUnavailable, err)
}

// Closed implements broker.Session.
func (s *session) Closed() bool { return s.closed }

// Wait implements broker.Session.
func (s *session) Wait(ctx context.Context) error {
	k := s.b.k
	k.CheckAlive()
	k.Point()
	if s.closed {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w := k.NewWait()
	s.watchers = append(s.watchers, w)
	err := w.Await(ctx)
	s.watchers = slices.DeleteFunc(s.watchers, func(other kernel.Wait) bool { return other == w })
	return err
}

// Blocked implements broker.Session.
func (s *session) Blocked() bool { return s.blocked && !s.closed }

// Close implements broker.Session.
func (s *session) Close() {
	s.b.k.CheckAlive()
	if s.closed {
		return
	}
	s.conn.CloseClient()
	s.closeAndWake()
}

// endRemotely ends the session when the client detects its end: by a frame from the broker, or by the
// broker's silence.
func (s *session) endRemotely() {
	if s.closed {
		return
	}
	s.readOn = s.b.late.Uint64N(2) == 1
	s.closeAndWake()
}

// closeAndWake closes the session and wakes all tasks that wait for it.
func (s *session) closeAndWake() {
	s.closed = true
	s.conn.CloseClient()
	for _, r := range s.requests {
		r.err = broker.ErrClosed
		r.wait.Done()
	}
	for _, p := range s.batches {
		p.wait.Done()
	}
	for _, sub := range s.subs {
		if !s.readOn {
			sub.buffer = nil
		}
		sub.wakeWaiters()
	}
	for _, w := range s.watchers {
		w.Done()
	}
	s.requests, s.batches, s.subs, s.watchers = nil, nil, nil, nil
}

// sendRequest makes one request to the broker: do runs at the broker, and its error is the reply.
func (s *session) sendRequest(ctx context.Context, do func() error) error {
	return s.sendDeferredRequest(ctx, func(answer func()) { answer() }, do, nil)
}

// sendDeferredRequest makes a request that the broker answers once the parameter when calls answer. then runs
// at the broker after the reply was sent; nil for none.
func (s *session) sendDeferredRequest(ctx context.Context, when func(answer func()), do func() error, then func()) error {
	k := s.b.k
	k.CheckAlive()
	k.Point()
	if s.closed {
		return broker.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &request{wait: k.NewWait()}
	s.requests = append(s.requests, r)
	s.conn.SendToServer(simnet.FrameFunc(func() {
		when(func() {
			err := do()
			s.conn.SendToClient(simnet.FrameFunc(func() {
				r.err = err
				r.wait.Done()
			}))
			if err == nil && then != nil {
				then()
			}
		})
	}))
	err := r.wait.Await(ctx)
	s.requests = slices.DeleteFunc(s.requests, func(other *request) bool { return other == r })
	if err != nil {
		return err
	}
	return r.err
}

// sendQueueRequest makes a request about queues. If one of them is a hanging classic queue, the reply waits
// for it.
func (s *session) sendQueueRequest(ctx context.Context, queues func(yield func(string) bool), do func() error) error {
	return s.sendDeferredRequest(ctx, func(answer func()) { s.b.stalledClassic(queues).runWhenResumed(answer, nil) }, do, nil)
}

// Declare implements broker.Session. A refusal leaves the session open, as if the declaration had its own
// channel.
func (s *session) Declare(ctx context.Context, t broker.Topology) error {
	within, cancel := s.b.k.WithTimeout(ctx, broker.DeclareWait)
	defer cancel()
	err := s.sendQueueRequest(within, func(yield func(string) bool) {
		for _, q := range t.Queues {
			if !yield(q.Name) {
				return
			}
		}
	}, func() error {
		err := s.b.declareTopology(t)
		s.noteLimits(t)
		if errors.Is(err, errInternal) {
			s.peer.close() // this error closes the connection, not just the channel
		}
		return err
	})
	switch {
	case errors.Is(err, errInternal):
		return broker.ErrClosed
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return broker.Unanswered(s.unansweringQueue(t))
	}
	return err
}

// unansweringQueue names the queue of a topology that delays the reply to its declaration.
func (s *session) unansweringQueue(t broker.Topology) string {
	for _, decl := range t.Queues {
		if q := s.b.queueNamed(decl.Name); q != nil && q.stall != nil && q.decl.Type == typeClassic {
			return "queue " + decl.Name
		}
	}
	return ""
}

// noteLimits records the queues that have a delivery limit although the topology declares them without one.
func (s *session) noteLimits(t broker.Topology) {
	for _, decl := range t.Queues {
		s.limited = slices.DeleteFunc(s.limited, func(name string) bool { return name == decl.Name })
		if q := s.b.queueNamed(decl.Name); q != nil && decl.KeepsReturned && q.deliveryLimit() > 0 {
			s.limited = append(s.limited, decl.Name)
		}
	}
	slices.Sort(s.limited)
}

// Limited implements broker.Session.
func (s *session) Limited() []string { return slices.Clone(s.limited) }

// QueueIdle reports whether a queue exists, is empty and has no consumer.
func (b *Broker) QueueIdle(name string) bool {
	q := b.queueNamed(name)
	return q != nil && q.readyCount() == 0 && len(q.consumers) == 0
}

// DeleteIdle implements broker.Session. It first checks whether the queue is idle, and then deletes it on
// the condition that it is still idle. A quorum queue ignores the condition, so it is deleted even if it is
// in use again.
func (s *session) DeleteIdle(ctx context.Context, decl broker.Queue) (fate broker.QueueFate, err error) {
	idle := func() bool {
		q := s.b.queueNamed(decl.Name)
		fate = broker.QueueInUse
		if q == nil {
			fate = broker.QueueAbsent
		}
		return q != nil && q.readyCount() == 0 && len(q.consumers) == 0
	}
	found := false
	// The check reads from the queue, so a hanging queue does not answer.
	when := func(answer func()) { s.b.queueNamed(decl.Name).runWhenResumed(answer, nil) }
	if err := s.sendDeferredRequest(ctx, when, func() error { found = idle(); return nil }, nil); err != nil || !found {
		return fate, err
	}
	err = s.sendRequest(ctx, func() error {
		if !idle() && (fate == broker.QueueAbsent || decl.Type == typeClassic) {
			return nil
		}
		fate = broker.QueueDeleted
		s.b.removeQueue(s.b.queueNamed(decl.Name), "")
		return nil
	})
	if err != nil {
		return broker.QueueInUse, err
	}
	return fate, nil
}

// QueueState implements broker.Session.
func (s *session) QueueState(ctx context.Context, queue string) (state broker.QueueState, err error) {
	err = s.sendQueueRequest(ctx, func(yield func(string) bool) { yield(queue) }, func() error {
		if q := s.b.queueNamed(queue); q != nil {
			state = q.reportedState()
		}
		return nil
	})
	if err != nil {
		return broker.QueueState{}, err
	}
	return state, nil
}

// batch is one call of Publish.
type batch struct {
	outcomes []broker.Outcome
	one      [1]broker.Outcome // the outcome of a single message
	over     bool              // the outcomes were returned to the caller, which owns them
	left     int32
	wait     kernel.Wait
	gaveUp   []bool // per message: whether the client gave up waiting and reported it as unknown; nil if it never did
}

// newBatch returns a batch of n messages, with their publishes.
func newBatch(n int) (*batch, []publish) {
	var t *batch
	var publishes []publish
	if n == 1 {
		// Most batches have one message, so both are one object.
		both := new(struct {
			batch   batch
			publish [1]publish
		})
		t, publishes = &both.batch, both.publish[:]
		t.outcomes = t.one[:]
	} else {
		t, publishes = new(batch), make([]publish, n)
		t.outcomes = make([]broker.Outcome, n)
	}
	t.left = int32(n) //nolint:gosec // a caller publishes a few hundred messages at once
	return t, publishes
}

// recordOutcome records the outcome of the i-th message.
func (b *batch) recordOutcome(i int, o broker.Outcome) {
	if b.over || len(b.gaveUp) > i && b.gaveUp[i] {
		return
	}
	if o == broker.Unknown {
		// The publish may still be answered after its caller has stopped waiting.
		if b.gaveUp == nil {
			b.gaveUp = make([]bool, len(b.outcomes))
		}
		b.gaveUp[i] = true
	}
	b.outcomes[i] = o
	b.left--
	if b.left == 0 {
		b.wait.Done()
	}
}

// Publish implements broker.Session. The process can crash between any two messages of a batch. A message
// that was not sent because the session or the context had ended is NotSent. A message that can't be
// encoded is Nacked and not sent.
func (s *session) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	k := s.b.k
	t, publishes := newBatch(len(ms))
	for i := range ms {
		k.CheckAlive()
		k.Point()
		if s.closed || ctx.Err() != nil {
			for ; i < len(ms); i++ {
				t.outcomes[i] = broker.NotSent
			}
			t.over = true
			return t.outcomes
		}
		if len(s.late) > 0 && s.isRouteShut(ms[i].Exchange, ms[i].RoutingKey) {
			t.outcomes[i] = broker.NotSent
			t.left--
			continue
		}
		p := &publishes[i]
		p.peer, p.batch, p.index = s.peer, t, int32(i) //nolint:gosec // as in newBatch
		p.exchange, p.key, p.envelope = ms[i].Exchange, ms[i].RoutingKey, ms[i].Envelope
		if !p.encodeIfDue() {
			t.outcomes[i] = broker.Nacked
			t.left--
			continue
		}
		s.sent++
		s.conn.SendToServer(p)
	}
	if t.left == 0 {
		t.over = true
		return t.outcomes
	}
	t.wait = k.NewWait()
	s.batches = append(s.batches, t)
	// However the wait has ended, outcomes that are missing stay unknown.
	_ = t.wait.Await(ctx)
	t.over = true
	s.batches = slices.DeleteFunc(s.batches, func(other *batch) bool { return other == t })
	return t.outcomes
}

// Consume implements broker.Session. If ctx ends before the broker has answered, it cancels the
// subscription, and its deliveries are requeued.
func (s *session) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	sub := &subscription{s: s, queue: queue}
	s.subs = append(s.subs, sub)
	when := func(answer func()) {
		s.b.subscribeWhenUnblocked(queue, func() {
			// The subscriber may be gone after a long wait.
			if !s.peer.closed && !sub.abandoned {
				answer()
			}
		})
	}
	err := s.sendDeferredRequest(ctx, when, func() error {
		c, err := s.peer.addConsumer(sub, prefetch)
		sub.consumer = c
		return err
	}, func() { sub.consumer.q.deliverReady() })
	if err == nil {
		return sub, nil
	}
	sub.abandoned = true
	s.subs = slices.DeleteFunc(s.subs, func(other *subscription) bool { return other == sub })
	if !s.closed {
		s.conn.SendToServer(simnet.FrameFunc(func() {
			if sub.consumer != nil {
				s.peer.removeConsumer(sub.consumer)
			}
		}))
		for _, d := range sub.buffer {
			sub.requeueDelivery(d)
		}
	}
	return nil, err
}
