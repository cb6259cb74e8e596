package mutant

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// This file plants processes that send wrong hints, or act although they learned that something has ended.

func init() {
	registerMutants(
		Mutant{
			Name: "returned-hint-forgotten", Source: "D10", Expected: 26, Scenario: "queue-unbound",
			About: "a hint that the broker returned is not sent again",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &hintIgnoringSession{s, p} }}
			},
		},
		Mutant{
			Name: "hints-in-halves", Source: "D60", Expected: 26, Scenario: "cancelled-behind-an-alarm",
			About: "a message contains at most 50 changes, although 100 fit",
			Broker: changeHints(ofEverybody, func(p Process, ms []broker.Message) []broker.Message {
				const most = 50
				var cut []broker.Message
				for _, m := range ms {
					for part := 0; len(m.Envelope.Changes) > most; part++ {
						first := m
						first.Envelope.MessageID += "." + string(rune('a'+part))
						first.Envelope.Changes = m.Envelope.Changes[:most:most]
						m.Envelope.Changes = m.Envelope.Changes[most:]
						p.Acted("cut a message of hints in two", m.Envelope.Changes[0].Key.ID)
						cut = append(cut, first)
					}
					cut = append(cut, m)
				}
				return cut
			}),
		},
		Mutant{
			Name: "nameless-hints", Source: "D24", Expected: 26, Scenario: "two-executors",
			About: "the ids of a worker's hints begin with a number of its own, which does not identify the worker",
			Broker: changeHints(ofWorkers, func(p Process, ms []broker.Message) []broker.Message {
				for i := range ms {
					p.Acted("sent a hint that does not identify its sender", ms[i].Envelope.Changes[0].Key.ID)
					_, number, _ := strings.Cut(ms[i].Envelope.MessageID, "/")
					ms[i].Envelope.MessageID = p.Name[len(p.Name)-1:] + "/" + number
				}
				return ms
			}),
		},
		Mutant{
			Name: "stop-unheard", Source: "D36", Expected: 29, Scenario: "rolling-restart",
			About: "a part whose pause ends because its process stops treats that as the end of the pause, and goes on",
			Host:  func(p Process, h host.Host) host.Host { return &absorbedHost{Host: h, p: p} },
		},
		Mutant{
			Name: "stays-on-its-session", Source: "D32", Expected: 29, Scenario: "consumers-cancelled",
			About: "a process whose consumer the broker has cancelled consumes again over the same session, and declares nothing",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &clingingSession{Session: s, p: p} }}
			},
		},
		Mutant{
			Name: "fullness-untold", Source: "D20", Expected: 24, Scenario: "late-behind-short-runs",
			About: "a worker never reports that its slots were taken: dispatches that wait there count as ignored once a slot is free",
			Store: func(p Process, s store.Store) store.Store {
				if !p.Worker {
					return s
				}
				return &momentaryFullStore{s, p}
			},
		},
	)
}

// hintIgnoringSession is a session that treats hints which the broker refused as accepted.
type hintIgnoringSession struct {
	broker.Session
	p Process
}

// Publish implements broker.Session.
func (h *hintIgnoringSession) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	outcomes := h.Session.Publish(ctx, ms)
	for i := range ms {
		if len(ms[i].Envelope.Changes) > 0 && (outcomes[i] == broker.Returned || outcomes[i] == broker.Nacked) {
			h.p.Acted("did not repeat a hint that the broker did not accept", ms[i].Envelope.Changes[0].Key.ID)
			outcomes[i] = broker.Confirmed
		}
	}
	return outcomes
}

// absorbedHost is a machine whose pauses, and waits for signals, do not report that their context has
// ended.
type absorbedHost struct {
	host.Host
	p Process

	mu   sync.Mutex
	said int
}

// Sleep implements host.Host. It reports the end every third time, so that no loop runs for ever.
func (a *absorbedHost) Sleep(ctx context.Context, d time.Duration) error {
	err := a.Host.Sleep(ctx, d)
	if err == nil {
		return nil
	}
	a.mu.Lock()
	a.said++
	heard := a.said%3 == 0
	a.mu.Unlock()
	if heard {
		return err
	}
	a.p.Acted("went on after a pause that ended because its context did")
	return nil
}

// clingingSession is a session that stays open when the broker has cancelled one of its consumers.
type clingingSession struct {
	broker.Session
	p Process

	mu        sync.Mutex
	cancelled bool
}

// Consume implements broker.Session.
func (cs *clingingSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := cs.Session.Consume(ctx, queue, prefetch)
	if err != nil {
		return nil, err
	}
	return &clingingConsumer{c, cs}, nil
}

// Close implements broker.Session.
func (cs *clingingSession) Close() {
	cs.mu.Lock()
	cancelled := cs.cancelled
	cs.cancelled = false
	cs.mu.Unlock()
	if cancelled {
		cs.p.Acted("consumed again over a session whose consumer the broker had cancelled")
		return
	}
	cs.Session.Close()
}

type clingingConsumer struct {
	broker.Consumer
	s *clingingSession
}

// Receive implements broker.Consumer.
func (c *clingingConsumer) Receive(ctx context.Context) (broker.Delivery, error) {
	d, err := c.Consumer.Receive(ctx)
	if errors.Is(err, broker.ErrCancelled) {
		c.s.mu.Lock()
		c.s.cancelled = true
		c.s.mu.Unlock()
	}
	return d, err
}

// momentaryFullStore is a worker's store whose heartbeats report full slots only while they are full.
type momentaryFullStore struct {
	store.Store
	p Process
}

// Heartbeat implements store.Worker.
func (m *momentaryFullStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	if b.WasFull {
		m.p.Acted("did not report that every slot was taken", keysOf(b.Held)...)
		b.WasFull, b.FullAgo = false, 0
	}
	return m.Store.Heartbeat(ctx, b)
}

func keysOf(keys []execution.Key) []execution.ID {
	ids := make([]execution.ID, 0, len(keys))
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	return slices.Compact(ids)
}
