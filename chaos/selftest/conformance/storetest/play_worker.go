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
		if w := p.registerWorker(registration{g, it.twist == 9}); it.twist < 10 {
			p.activateWorker(w)
		}
	case opLifecycle:
		w := p.chooseIncarnation(c.a, store.WorkerKey{})
		to := pick(c.b, execution.Active, execution.Active, execution.Draining, execution.Starting, execution.Stopped, execution.Lost, execution.NoLifecycle)
		p.recordLine("SetLifecycle %s %v: %s", p.incarnationText(w.Incarnation), to, errorKind(p.Store.SetLifecycle(p.ctx, w, to)))
	case opHeartbeat:
		p.sendHeartbeat(c)
	case opClaim:
		var cs []store.Claim
		var w store.WorkerKey
		for _, it := range c.items {
			key, e := p.chooseRow(it, execution.Scheduled)
			if w.Incarnation == 0 {
				w = rowOwner(&e)
			}
			cs = append(cs, store.Claim{Key: key, Beat: uint64(it.a % 3)}) //nolint:gosec // small
		}
		if c.b == 15 {
			cs = nil
		}
		w = p.chooseIncarnation(c.a, w)
		results, err := p.Store.Claim(p.ctx, w, cs)
		p.recordLine("Claim by %s: %s", p.incarnationText(w.Incarnation), errorKind(err))
		for i, r := range results {
			p.recordLine("  %s deadline passed %v %s", p.keyText(cs[i].Key), r.DeadlinePassed, p.outcomeText(r.Outcome))
		}
	case opFinish:
		p.finishRows(c)
	case opRelease:
		_, e := p.chooseRow(it, execution.Scheduled)
		w := p.chooseIncarnation(c.a, rowOwner(&e))
		if c.b < 10 {
			p.recordLine("draining: %s", errorKind(p.Store.SetLifecycle(p.ctx, w, execution.Draining)))
		}
		keys, err := p.Store.Release(p.ctx, w)
		p.recordLine("Release by %s: %s", p.incarnationText(w.Incarnation), errorKind(err))
		for _, key := range keys {
			p.recordLine("  %s", p.keyText(key))
		}
	case opKeepRefused:
		key, e := p.chooseRow(it, execution.Completed)
		err := p.Store.KeepRefusedResult(p.ctx, p.chooseIncarnation(c.a, rowOwner(&e)), store.Finish{
			Key: key, To: pick(c.b, execution.Completed, execution.Failed, execution.None), Reason: pickReason(it.a), Result: pickResult(it.b),
		})
		p.recordLine("KeepRefusedResult: %s", errorKind(err))
	}
}

func (p *player) sendHeartbeat(c command) {
	w := p.chooseIncarnation(c.a, store.WorkerKey{})
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
		key, _ := p.chooseRow(it, execution.Running, execution.Scheduled)
		b.Held = append(b.Held, key)
	}
	reply, err := p.Store.Heartbeat(p.ctx, b)
	p.recordLine("Heartbeat %d of %s, lease %v, consumes %v, full %v, %v ago: %s", b.Number, p.incarnationText(w.Incarnation), b.Lease, b.ConsumerAlive, b.WasFull, b.FullAgo, errorKind(err))
	for _, key := range b.Held {
		p.recordLine("  holds %s, lost %v, to be ended %v", p.keyText(key), slices.Contains(reply.Lost, key), slices.Contains(reply.Cancel, key))
	}
	p.recordLine("  to drain %v", reply.Drain)
	for _, key := range reply.Lost {
		p.recordLine("  lost %s", p.keyText(key))
	}
	for _, o := range reply.Ended {
		p.recordLine("  ended %s", p.outcomeText(o))
	}
}

func (p *player) finishRows(c command) {
	var fs []store.Finish
	var w store.WorkerKey
	for _, it := range c.items {
		key, e := p.chooseRow(it, execution.Running, execution.Canceling)
		if w.Incarnation == 0 {
			w = rowOwner(&e)
		}
		fs = append(fs, store.Finish{
			Key: key, To: pick(it.a, execution.Completed, execution.Failed, execution.Failed, execution.Timeout, execution.Cancelled, execution.Running, execution.Abandoned, execution.None),
			Reason: pickReason(it.b), Result: pickResult(it.worker),
		})
	}
	w = p.chooseIncarnation(c.a, w)
	outcomes, err := p.Store.Finish(p.ctx, w, fs)
	p.recordLine("Finish by %s: %s", p.incarnationText(w.Incarnation), errorKind(err))
	for i, o := range outcomes {
		p.recordLine("  %s to %v: %s", p.keyText(fs[i].Key), fs[i].To, p.outcomeText(o))
	}
}
