package sim

import (
	"context"
	"fmt"
	"time"

	"handoff/core/broker"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/sim/simnet"
)

// grayFailures are half deaths of a worker process: each holds the name of the fault that brought it about,
// or nothing. They stay with the process over its restarts.
type grayFailures struct {
	deaf, mute string
}

// injectGrayFailure lets a half death begin and end.
func injectGrayFailure(set func(a *grayFailures, fault string)) injectFunc {
	return func(x *injection) func() {
		for _, p := range x.targets {
			set(&p.gray, x.fault.Name)
		}
		return func() {
			for _, p := range x.targets {
				set(&p.gray, "")
			}
		}
	}
}

// injectSick takes the means to start actions from a machine.
func injectSick(x *injection) func() {
	for _, p := range x.targets {
		p.machine.Sick, p.machine.Asked = true, func() { x.touch(simnet.Touched{Process: p.name}) }
	}
	return func() {
		for _, p := range x.targets {
			p.machine.Sick = false
		}
	}
}

// injectCordon is an operator's cordon. A worker that has never registered can't be cordoned.
func injectCordon(x *injection) func() {
	for _, p := range x.targets {
		if x.w.db.Operate(store.Cordon{Worker: x.w.db.WorkerID(p.worker.Name), On: true, Reason: x.fault.Name}) {
			x.touch(simnet.Touched{Process: p.name})
		}
	}
	return x.uncordon
}

func (x *injection) uncordon() {
	for _, p := range x.targets {
		x.w.db.Operate(store.Cordon{Worker: x.w.db.WorkerID(p.worker.Name)})
	}
}

// injectDrain is an operator's drain. What supervises the process starts it again, and the operator
// lifts the cordon then.
func injectDrain(x *injection) func() {
	for _, p := range x.targets {
		if p.alive() && x.w.db.Operate(store.Cordon{Worker: x.w.db.WorkerID(p.worker.Name), On: true, Reason: x.fault.Name, Drain: true}) {
			x.touch(simnet.Touched{Process: p.name})
		}
	}
	if x.fault.RestartAfter > 0 {
		x.w.k.After(x.fault.RestartAfter, x.uncordon)
	}
	x.restartLater()
	return nil
}

// muted is a database to which a mute worker's heartbeats don't get through.
type muted struct {
	store.Worker
	p *process
}

// Heartbeat implements store.Worker.
func (m *muted) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	if fault := m.p.gray.mute; fault != "" {
		m.p.w.injector.touch(simnet.Touched{Fault: fault, Process: m.p.name})
		return store.BeatReply{}, fmt.Errorf("%w: the worker is mute", store.ErrUnavailable)
	}
	return m.Worker.Heartbeat(ctx, b)
}

// deafened is a broker whose deliveries a deaf worker does not take: they have arrived, and lie there.
type deafened struct {
	broker.Broker
	p *process
	h host.Host
}

// Connect implements broker.Broker.
func (d *deafened) Connect(ctx context.Context) (broker.Session, error) {
	s, err := d.Broker.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &deafSession{s, d}, nil
}

type deafSession struct {
	broker.Session
	d *deafened
}

// Consume implements broker.Session.
func (s *deafSession) Consume(ctx context.Context, queue string, prefetch int) (broker.Consumer, error) {
	c, err := s.Session.Consume(ctx, queue, prefetch)
	if err != nil {
		return nil, err
	}
	return &deafConsumer{c, s.d}, nil
}

type deafConsumer struct {
	broker.Consumer
	d *deafened
}

// stirs is how often a hung consumer is looked at.
const stirs = time.Second

// Receive implements broker.Consumer.
func (c *deafConsumer) Receive(ctx context.Context) (broker.Delivery, error) {
	d, err := c.Consumer.Receive(ctx)
	for err == nil && c.d.p.gray.deaf != "" {
		c.d.p.w.injector.touch(simnet.Touched{Fault: c.d.p.gray.deaf, Process: c.d.p.name})
		err = c.d.h.Sleep(ctx, stirs)
	}
	return d, err
}
