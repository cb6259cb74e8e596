package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"handoff/core/host"
	"handoff/core/store"
)

// Pulse observes the heartbeats that a worker sends. Executors rely on the content of heartbeats, so the
// worker's health endpoint does too, both in simulation and in real daemons. It is safe for concurrent use.
type Pulse struct {
	host  host.Host
	lease time.Duration

	mu sync.Mutex
	// renewed is when the last successful heartbeat was sent; it is valid only if beating is true.
	renewed  time.Duration
	beating  bool
	consumer bool
}

// NewPulse returns a pulse without heartbeats. lease is how long one heartbeat keeps the worker alive.
func NewPulse(h host.Host, lease time.Duration) *Pulse { return &Pulse{host: h, lease: lease} }

// Watch wraps a worker's database, so that the pulse observes its heartbeats.
func (p *Pulse) Watch(s store.Worker) store.Worker { return pulseStore{s, p} }

type pulseStore struct {
	store.Worker
	pulse *Pulse
}

func (p pulseStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	sent := p.pulse.host.Monotonic()
	reply, err := p.Worker.Heartbeat(ctx, b)
	if err == nil {
		p.pulse.mu.Lock()
		p.pulse.renewed, p.pulse.beating, p.pulse.consumer = sent, true, b.ConsumerAlive
		p.pulse.mu.Unlock()
	}
	return reply, err
}

// Lease returns an error if, as far as the worker knows, it has no lease.
func (p *Pulse) Lease() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.beating:
		return errors.New("not registered yet")
	case p.host.Monotonic()-p.renewed > p.lease:
		return errors.New("over: the database has not taken a heartbeat for longer than the lease")
	}
	return nil
}

// Consumer returns an error while the worker receives no dispatches, although it may still send heartbeats
// (defect D32).
func (p *Pulse) Consumer() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.consumer {
		return errors.New("does not receive dispatches")
	}
	return nil
}

// Ready returns an error unless the worker can receive work now.
func (p *Pulse) Ready() error { return errors.Join(p.Lease(), p.Consumer()) }
