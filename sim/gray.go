package sim

import (
	"context"
	"fmt"
	"time"

	"handoff/chaos/fault"
	"handoff/core/broker"
	"handoff/core/host"
	"handoff/core/store"
)

// grayFailures are partial failures of a worker process. Each field holds the name of the fault that caused
// the failure, empty for none. They survive restarts of the process.
type grayFailures struct {
	deaf, mute string
}

// muteStore is a client of the database through which a mute worker's heartbeats fail.
type muteStore struct {
	store.Worker
	p *process
}

// Heartbeat implements store.Worker.
func (m *muteStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	if name := m.p.gray.mute; name != "" {
		m.p.w.injector.Touch(name, fault.Touched{Process: m.p.name})
		return store.BeatReply{}, fmt.Errorf("%w: the worker is mute", store.ErrUnavailable)
	}
	return m.Worker.Heartbeat(ctx, b)
}

// deafBroker is a broker client whose deliveries arrive but stay unread while its worker is deaf.
type deafBroker struct {
	broker.Broker
	p *process
	h host.Host
}

// Connect implements broker.Broker.
func (d *deafBroker) Connect(ctx context.Context) (broker.Session, error) {
	s, err := d.Broker.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &deafSession{s, d}, nil
}

type deafSession struct {
	broker.Session
	d *deafBroker
}

// Consume implements broker.Session.
func (ds *deafSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := ds.Session.Consume(ctx, queue, prefetch)
	if err != nil {
		return nil, err
	}
	return &deafConsumer{c, ds.d}, nil
}

type deafConsumer struct {
	broker.Consumer
	d *deafBroker
}

// hungCheckInterval is how often a hung consumer checks whether it may continue.
const hungCheckInterval = time.Second

// Receive implements broker.Consumer.
func (dc *deafConsumer) Receive(ctx context.Context) (broker.Delivery, error) {
	d, err := dc.Consumer.Receive(ctx)
	for err == nil && dc.d.p.gray.deaf != "" {
		dc.d.p.w.injector.Touch(dc.d.p.gray.deaf, fault.Touched{Process: dc.d.p.name})
		err = dc.d.h.Sleep(ctx, hungCheckInterval)
	}
	return d, err
}
