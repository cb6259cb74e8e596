package executor

import (
	"testing"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
)

// channel is a consumer that counts its acknowledgements.
type channel struct {
	broker.Consumer
	acked int
}

// Ack implements broker.Consumer.
func (c *channel) Ack(broker.Delivery) { c.acked++ }

// While the database is away, passes fail and their hints are kept; every reconnect of the broker delivers the
// same ones again. The number of held hints stays that of one consumer.
func TestHeldHintsDoNotPileUpOverReconnects(t *testing.T) {
	h := &hints{wake: new(set), latest: make(map[string]broker.Consumer)}
	requested := broker.Delivery{Envelope: broker.Envelope{Changes: []broker.Change{{Key: execution.Key{ID: 1}}}}}
	var last *channel
	for range 50 {
		last = new(channel)
		for range hintPrefetch {
			h.keep("q", last, requested)
			if len(h.held)%70 == 0 {
				h.settle(h.take(), false)
			}
		}
		other := new(channel)
		h.keep("other", other, requested)
	}
	if len(h.held) != hintPrefetch+1 {
		t.Errorf("%d hints are held after 50 reconnects, want those of the last two consumers: %d", len(h.held), hintPrefetch+1)
	}
	h.settle(h.take(), true)
	if last.acked != hintPrefetch {
		t.Errorf("the last consumer settled %d, want %d", last.acked, hintPrefetch)
	}
}

// A pass that began before a reconnect and fails after it gives back no hint that the broker delivers again.
func TestAFailedPassKeepsNothingOfAnOlderConnection(t *testing.T) {
	h := &hints{wake: new(set), latest: make(map[string]broker.Consumer)}
	h.keep("q", new(channel), broker.Delivery{})
	begun := h.take()
	h.keep("q", new(channel), broker.Delivery{})
	h.settle(begun, false)
	if len(h.held) != 1 {
		t.Errorf("%d hints are held, want 1", len(h.held))
	}
}

// set is a signal that has no waiter.
type set struct{ host.Signal }

// Set implements host.Signal.
func (*set) Set() {}
