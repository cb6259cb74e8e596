package flaw

import (
	"context"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/sim/simstore"
)

// heartless is a store in which no heartbeat arrives once the worker drains.
type heartless struct {
	store.Store
	draining bool
}

// SetLifecycle implements store.Store.
func (s *heartless) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	err := s.Store.SetLifecycle(ctx, w, to)
	s.draining = s.draining || err == nil && to == execution.Draining
	return err
}

// Heartbeat implements store.Store.
func (s *heartless) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	if s.draining {
		return store.BeatReply{}, store.ErrUnavailable
	}
	return s.Store.Heartbeat(ctx, b)
}

func heartbeatStopsFirst() *Flaw {
	return &Flaw{
		Name: "heartbeat-stops-first", Source: "D38", Killer: 10, Scenario: "worker-stops-gracefully",
		About: "a stopping worker ends its heartbeat before its running work, which then looks dead",
		Store: func(p Process, c *simstore.Client) store.Store {
			if !p.Worker {
				return c
			}
			return &heartless{Store: c}
		},
	}
}
