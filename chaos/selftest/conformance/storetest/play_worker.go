package storetest

import (
	"slices"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func (p *player) asWorker(c command) {
	it := c.items[0]
	switch c.op {
	case opRegister:
		g := store.Registration{
			Process: pick(c.b, uint64(1), 2, 1), Name: pick(c.a, "w0", "w1", "w2"), Runtimes: pick(it.a, []string{"shell", "python"}, []string{"node"}, nil),
			Capacity: pick(it.b, 4, 1, 0, -1), Lease: pick(it.row, Lease, Lease, 30*time.Second, 0, -time.Second, 1500*time.Nanosecond),
		}
		if it.twist >= 12 {
			g.Attempt = p.attempt
		}
		if w := p.register(registration{g, it.twist == 9}); it.twist < 10 {
			p.ready(w)
		}
	case opLifecycle:
		w := p.incarnationOf(c.a, store.WorkerKey{})
		to := pick(c.b, execution.Active, execution.Active, execution.Draining, execution.Starting, execution.Stopped, execution.Lost, execution.NoLifecycle)
		p.saw("SetLifecycle %s %v: %s", p.incarnation(w.Incarnation), to, failed(p.Store.SetLifecycle(p.ctx, w, to)))
	case opHeartbeat:
		p.heartbeat(c)
	case opClaim:
		var cs []store.Claim
		var w store.WorkerKey
		for _, it := range c.items {
			key, e := p.about(it, execution.Scheduled)
			if w.Incarnation == 0 {
				w = owner(&e)
			}
			cs = append(cs, store.Claim{Key: key, Beat: uint64(it.a % 3)}) //nolint:gosec // small
		}
		if c.b == 15 {
			cs = nil
		}
		w = p.incarnationOf(c.a, w)
		results, err := p.Store.Claim(p.ctx, w, cs)
		p.saw("Claim by %s: %s", p.incarnation(w.Incarnation), failed(err))
		for i, r := range results {
			p.saw("  %s deadline passed %v %s", p.key(cs[i].Key), r.DeadlinePassed, p.outcome(r.Outcome))
		}
	case opFinish:
		p.finish(c)
	case opRelease:
		_, e := p.about(it, execution.Scheduled)
		w := p.incarnationOf(c.a, owner(&e))
		if c.b < 10 {
			p.saw("draining: %s", failed(p.Store.SetLifecycle(p.ctx, w, execution.Draining)))
		}
		keys, err := p.Store.Release(p.ctx, w)
		p.saw("Release by %s: %s", p.incarnation(w.Incarnation), failed(err))
		for _, key := range keys {
			p.saw("  %s", p.key(key))
		}
	case opKeepRefused:
		key, e := p.about(it, execution.Completed)
		err := p.Store.KeepRefusedResult(p.ctx, p.incarnationOf(c.a, owner(&e)), store.Finish{
			Key: key, To: pick(c.b, execution.Completed, execution.Failed, execution.None), Reason: reason(it.a), Result: result(it.b),
		})
		p.saw("KeepRefusedResult: %s", failed(err))
	}
}

func (p *player) heartbeat(c command) {
	w := p.incarnationOf(c.a, store.WorkerKey{})
	b := store.Beat{
		WorkerKey: w, Number: p.beatOf(w) + pick(c.b, uint64(1), 1, 1, 0, 2), ConsumerAlive: c.b < 12,
		Lease:   pick(c.items[0].a, Lease, Lease, 30*time.Second, -time.Second, 1500*time.Nanosecond),
		WasFull: c.items[0].b%3 == 0, FullAgo: pick(c.items[0].b, 0, 5*time.Second, time.Minute),
	}
	for i := range p.rows {
		if e := &p.rows[i]; e.Incarnation == w.Incarnation && e.Status.Claimed() && (c.items[0].row+i)%4 != 3 {
			b.Held = append(b.Held, e.Key())
		}
	}
	for _, it := range c.items[1:] {
		key, _ := p.about(it, execution.Running, execution.Scheduled)
		b.Held = append(b.Held, key)
	}
	reply, err := p.Store.Heartbeat(p.ctx, b)
	p.saw("Heartbeat %d of %s, lease %v, consumes %v, full %v, %v ago: %s", b.Number, p.incarnation(w.Incarnation), b.Lease, b.ConsumerAlive, b.WasFull, b.FullAgo, failed(err))
	for _, key := range b.Held {
		p.saw("  holds %s, lost %v, to be ended %v", p.key(key), slices.Contains(reply.Lost, key), slices.Contains(reply.Cancel, key))
	}
	p.saw("  to drain %v", reply.Drain)
	for _, key := range reply.Lost {
		p.saw("  lost %s", p.key(key))
	}
	for _, o := range reply.Ended {
		p.saw("  ended %s", p.outcome(o))
	}
}

func (p *player) finish(c command) {
	var fs []store.Finish
	var w store.WorkerKey
	for _, it := range c.items {
		key, e := p.about(it, execution.Running, execution.Canceling)
		if w.Incarnation == 0 {
			w = owner(&e)
		}
		fs = append(fs, store.Finish{
			Key: key, To: pick(it.a, execution.Completed, execution.Failed, execution.Failed, execution.Timeout, execution.Cancelled, execution.Running, execution.Abandoned, execution.None),
			Reason: reason(it.b), Result: result(it.worker),
		})
	}
	w = p.incarnationOf(c.a, w)
	outcomes, err := p.Store.Finish(p.ctx, w, fs)
	p.saw("Finish by %s: %s", p.incarnation(w.Incarnation), failed(err))
	for i, o := range outcomes {
		p.saw("  %s to %v: %s", p.key(fs[i].Key), fs[i].To, p.outcome(o))
	}
}
