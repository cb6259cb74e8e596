package executor

import (
	"context"
	"sync"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
)

// hintPrefetch bounds the hint messages that wait for a pass.
const hintPrefetch = 200

// hints collects what messages say has happened, until a pass has acted on it. A message is
// acknowledged after that and not before: a process that dies in between gets it again.
type hints struct {
	service *Service
	wake    host.Signal

	mu   sync.Mutex
	held []heldHint
	// spare is an empty list to hold the next ones in.
	spare []heldHint
}

type heldHint struct {
	consumer broker.Consumer
	delivery broker.Delivery
}

func newHints(s *Service) *hints { return &hints{service: s, wake: s.host.NewSignal()} }

// consume feeds the hints of one queue until ctx ends.
func (h *hints) consume(ctx context.Context, queue string) {
	h.service.client.Consume(ctx, broker.Subscription{Queue: queue, Prefetch: hintPrefetch, Handle: func(c broker.Consumer, d broker.Delivery) bool {
		if d.Malformed != nil {
			h.service.keepMalformed(ctx, c, d, queue)
			return true
		}
		h.mu.Lock()
		h.held = append(h.held, heldHint{c, d})
		h.mu.Unlock()
		h.wake.Set()
		return true
	}})
}

// take removes everything that is held.
func (h *hints) take() []heldHint {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.held
	h.held, h.spare = h.spare, nil
	return held
}

// settle acknowledges what a pass has acted on, or gives it back to be acted on again.
func (h *hints) settle(held []heldHint, done bool) {
	if !done {
		h.mu.Lock()
		h.held = append(held, h.held...)
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

// terminals are the executions that the hints call terminal, each once, in order of arrival.
func terminals(held []heldHint) []execution.ID {
	seen := make(map[execution.ID]bool, len(held))
	var ids []execution.ID
	for _, x := range held {
		for _, c := range x.delivery.Envelope.Changes {
			if c.To.Terminal() && !seen[c.Key.ID] {
				seen[c.Key.ID] = true
				ids = append(ids, c.Key.ID)
			}
		}
	}
	return ids
}
