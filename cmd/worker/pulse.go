package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"handoff/core/api"
	"handoff/core/host"
	"handoff/core/store"
)

// pulse watches the heartbeats that the worker sends: what they say is what executors go by, so it
// is what the health endpoint says too.
type pulse struct {
	host  host.Host
	lease time.Duration

	mu sync.Mutex
	// renewed is when the last successful heartbeat was sent, if there was one.
	renewed  time.Duration
	beating  bool
	consumer bool
}

// watch puts the pulse between a worker and its database.
func (p *pulse) watch(s store.Worker) store.Worker { return watched{s, p} }

type watched struct {
	store.Worker
	pulse *pulse
}

// Heartbeat implements store.Worker.
func (w watched) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	sent := w.pulse.host.Monotonic()
	reply, err := w.Worker.Heartbeat(ctx, b)
	if err == nil {
		w.pulse.mu.Lock()
		w.pulse.renewed, w.pulse.beating, w.pulse.consumer = sent, true, b.ConsumerAlive
		w.pulse.mu.Unlock()
	}
	return reply, err
}

// checks are what /readyz asks. A deaf worker that heartbeats is the worst kind (flaw D32), so the
// consumer is one of them.
func (p *pulse) checks() []api.Check {
	return []api.Check{
		{Name: "lease", Run: func(context.Context) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			switch {
			case !p.beating:
				return errors.New("not registered yet")
			case p.host.Monotonic()-p.renewed > p.lease:
				return errors.New("over: the database has not taken a heartbeat for longer than the lease")
			}
			return nil
		}},
		{Name: "consumer", Run: func(context.Context) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.consumer {
				return errors.New("does not receive dispatches")
			}
			return nil
		}},
	}
}
