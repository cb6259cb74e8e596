package executor

import (
	"slices"
	"testing"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
)

// ackCounter is a consumer that counts its acknowledgements.
type ackCounter struct {
	broker.Consumer
	acked int
}

// Ack implements broker.Consumer.
func (a *ackCounter) Ack(broker.Delivery) { a.acked++ }

// While the database is away, passes fail and their hints are held; after every reconnect the broker
// redelivers them. The number of held hints stays at one consumer's prefetch.
func TestReconnectsDoNotAccumulateHints(t *testing.T) {
	h := &hints{wake: new(idleSignal), latest: make(map[string]broker.Consumer)}
	requested := broker.Delivery{Envelope: broker.Envelope{Changes: []broker.Change{{Key: execution.Key{ID: 1}}}}}
	var last *ackCounter
	for range 50 {
		last = new(ackCounter)
		for range hintPrefetch {
			h.holdHint("q", last, requested)
			if len(h.held)%70 == 0 {
				h.settleHeld(h.takeHeld(), false)
			}
		}
		other := new(ackCounter)
		h.holdHint("other", other, requested)
	}
	if len(h.held) != hintPrefetch+1 {
		t.Errorf("%d hints are held after 50 reconnects, want those of the last two consumers: %d", len(h.held), hintPrefetch+1)
	}
	h.settleHeld(h.takeHeld(), true)
	if last.acked != hintPrefetch {
		t.Errorf("the last consumer settled %d, want %d", last.acked, hintPrefetch)
	}
}

// A pass that began before a reconnect and fails after it does not keep hints that the broker redelivers.
func TestFailedPassDropsHintsOfOldConnection(t *testing.T) {
	h := &hints{wake: new(idleSignal), latest: make(map[string]broker.Consumer)}
	h.holdHint("q", new(ackCounter), broker.Delivery{})
	begun := h.takeHeld()
	h.holdHint("q", new(ackCounter), broker.Delivery{})
	h.settleHeld(begun, false)
	if len(h.held) != 1 {
		t.Errorf("%d hints are held, want 1", len(h.held))
	}
}

// If a hint reports an end as handled, its row is not read.
func TestHintsNameHandledEnds(t *testing.T) {
	change := func(id execution.ID, to execution.Status, handled bool) broker.Change {
		return broker.Change{Key: execution.Key{ID: id, Epoch: 1}, From: execution.Running, To: to, Handled: handled}
	}
	hint := func(changes ...broker.Change) heldHint {
		return heldHint{delivery: broker.Delivery{Envelope: broker.Envelope{Changes: changes}}}
	}
	ids, handled := terminalExecutions([]heldHint{
		hint(change(1, execution.Completed, true), change(2, execution.Failed, false), change(3, execution.Running, false)),
		hint(change(2, execution.Failed, false), change(1, execution.Completed, true), change(4, execution.Completed, false)),
	})
	if !slices.Equal(ids, []execution.ID{2, 4}) || !slices.Equal(handled, []execution.ID{1}) {
		t.Errorf("to be handled %v, handled %v", ids, handled)
	}
}

// A failed pass has already woken the scheduler. So the next pass ignores the ends that its hints report as
// handled, however often passes fail, and retries the others.
func TestHeldHintWakesSchedulerOnce(t *testing.T) {
	h := &hints{wake: new(idleSignal), latest: make(map[string]broker.Consumer)}
	c, ended := new(ackCounter), func(id execution.ID, handled bool) broker.Delivery {
		return broker.Delivery{Envelope: broker.Envelope{Changes: []broker.Change{{Key: execution.Key{ID: id, Epoch: 1}, To: execution.Completed, Handled: handled}}}}
	}
	h.holdHint("q", c, ended(1, true))
	h.holdHint("q", c, ended(2, false))
	var known hintPairs
	for pass := range 5 {
		held := h.takeHeld()
		ids, handled := terminalExecutions(held)
		if anew := known.recordEnds(handled); anew != (pass == 0) || !slices.Equal(ids, []execution.ID{2}) {
			t.Errorf("pass %d: the scheduler is woken: %v; to be handled %v, want 2", pass, anew, ids)
		}
		h.settleHeld(held, false)
	}
	h.holdHint("q", c, ended(1, true))
	if _, handled := terminalExecutions(h.takeHeld()); known.recordEnds(handled) {
		t.Error("the second hint of an end is no news, although the first one was held again")
	}
}

// Only the first of the two hints about an end counts as new. The number of remembered ends is bounded.
func TestSecondHintOfEndIsIgnored(t *testing.T) {
	var known hintPairs
	if known.recordEnds(nil) || !known.recordEnds([]execution.ID{1, 2}) || known.recordEnds([]execution.ID{2, 1}) {
		t.Error("1 and 2 are news once")
	}
	if !known.recordEnds([]execution.ID{3}) || !known.recordEnds([]execution.ID{3, 4}) || known.recordEnds([]execution.ID{4}) {
		t.Error("3 and 4 are news once")
	}
	for id := range execution.ID(5 * mostHintPairs) {
		known.recordEnds([]execution.ID{id + 10})
	}
	if len(known.young) > mostHintPairs || len(known.old) > mostHintPairs {
		t.Errorf("%d and %d are remembered", len(known.young), len(known.old))
	}
	if known.recordEnds([]execution.ID{5*mostHintPairs + 9}) || !known.recordEnds([]execution.ID{10}) {
		t.Error("the last one is remembered, the first one is not")
	}
}

// idleSignal is a signal without waiters.
type idleSignal struct{ host.Signal }

// Set implements host.Signal.
func (*idleSignal) Set() {}
