package executor

import (
	"context"
	"slices"
	"sync"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
)

// hintPrefetch is the maximum number of hint messages that wait for a pass.
const hintPrefetch = 200

// hints collects the hints of messages until a pass has acted on them. A message is acknowledged
// only after that: if the process dies before, the message is delivered again.
type hints struct {
	service *Service
	wake    host.Signal

	mu   sync.Mutex
	held []heldHint
	// latest is the consumer through which each queue delivered most recently.
	latest map[string]broker.Consumer
	// spare is an empty list whose memory the next hints reuse.
	spare []heldHint
}

type heldHint struct {
	queue    string
	consumer broker.Consumer
	delivery broker.Delivery
	// again reports whether an earlier pass tried to act on the hint and failed.
	again bool
}

func newHints(s *Service) *hints {
	return &hints{service: s, wake: s.host.NewSignal(), latest: make(map[string]broker.Consumer)}
}

// consumeQueue feeds the hints of one queue until ctx ends.
func (h *hints) consumeQueue(ctx context.Context, queue string) {
	h.service.client.Consume(ctx, broker.Subscription{Queue: queue, Prefetch: hintPrefetch, Handle: func(c broker.Consumer, d broker.Delivery) bool {
		if d.Malformed != nil {
			h.service.unread.Keep(c, d, queue, d.Malformed.Error())
			return true
		}
		h.holdHint(queue, c, d)
		return true
	}})
}

// holdHint holds a hint for the next pass.
func (h *hints) holdHint(queue string, c broker.Consumer, d broker.Delivery) {
	h.mu.Lock()
	if h.latest[queue] != c {
		h.latest[queue] = c
		h.held = slices.DeleteFunc(h.held, h.isReturned)
	}
	h.held = append(h.held, heldHint{queue: queue, consumer: c, delivery: d})
	h.mu.Unlock()
	h.wake.Set()
}

// isReturned reports whether the broker redelivers a hint because its connection has ended. If such hints
// were kept, every reconnect while the database is away would add one prefetch to the held hints. The caller
// holds the lock.
func (h *hints) isReturned(x heldHint) bool { return x.consumer != h.latest[x.queue] }

// takeHeld removes all held hints.
func (h *hints) takeHeld() []heldHint {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.held
	h.held, h.spare = h.spare, nil
	return held
}

// settleHeld acknowledges hints that a pass has acted on, or keeps them for another pass.
func (h *hints) settleHeld(held []heldHint, done bool) {
	if !done {
		for i := range held {
			held[i].again = true
		}
		h.mu.Lock()
		h.held = append(slices.DeleteFunc(held, h.isReturned), h.held...)
		h.mu.Unlock()
		return
	}
	for _, x := range held {
		x.consumer.Ack(x.delivery)
	}
	clear(held)
	h.mu.Lock()
	h.spare = held[:0]
	h.mu.Unlock()
}

// terminalExecutions returns the executions that hints report as terminal, each once, in order of arrival.
// handled lists those whose ends were handled already. It omits ends that an earlier pass saw, because that
// pass has woken the scheduler.
func terminalExecutions(held []heldHint) (ids, handled []execution.ID) {
	seen := make(map[execution.ID]bool, len(held))
	for _, x := range held {
		for _, c := range x.delivery.Envelope.Changes {
			switch {
			case !c.To.Terminal(), seen[c.Key.ID], c.Handled && x.again:
				continue
			case c.Handled:
				handled = append(handled, c.Key.ID)
			default:
				ids = append(ids, c.Key.ID)
			}
			seen[c.Key.ID] = true
		}
	}
	return ids, handled
}

// hintPairs recognises the second of the two hints about each end (broker.Notifier.Changed): one reports the
// change of status, one the completion. The second hint needs no action. They may arrive in any order, and
// one may be lost. The memory is bounded; a forgotten end counts as new.
type hintPairs struct {
	// young holds the ends announced once. When it is full, it replaces old.
	young, old map[execution.ID]bool
}

// mostHintPairs bounds each of the two lists.
const mostHintPairs = 10_000

// recordEnds records ends, and reports whether any of them is new.
func (h *hintPairs) recordEnds(ids []execution.ID) (any bool) {
	for _, id := range ids {
		if h.young[id] || h.old[id] {
			delete(h.young, id)
			delete(h.old, id)
			continue
		}
		any = true
		if h.young == nil || len(h.young) >= mostHintPairs {
			h.young, h.old = make(map[execution.ID]bool), h.young
		}
		h.young[id] = true
	}
	return any
}
