package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// calls are what clients of a concurrent history do, each by its name.
func (c *cell) calls(r *rand.Rand) []call {
	return slices.Concat(c.executorCalls(r), c.workerCalls(r), c.endings(r))
}

// draw draws one call, its arguments fixed, so that the model can be asked the same.
func (c *cell) draw(r *rand.Rand, only []string) call {
	all := c.calls(r)
	for {
		one := all[r.IntN(len(all))]
		if only == nil || slices.Contains(only, one.name) {
			return one
		}
	}
}

// over is a duration that has passed already: the clock of a history stands still.
func over(r *rand.Rand, otherwise time.Duration) time.Duration {
	if r.IntN(3) == 0 {
		return -time.Second
	}
	return otherwise
}

func (c *cell) executorCalls(r *rand.Rand) []call {
	keys, executor, runtime := c.keys(r), fmt.Sprint("e", r.IntN(2)), c.runtime(r.IntN(2))
	expiry, timeout, grace := over(r, time.Minute), over(r, DispatchTimeout), over(r, time.Minute)
	unschedulable := r.IntN(2) == 0
	claim := call{"ClaimForScheduling", func(s store.Store) string {
		rows, err := s.ClaimForScheduling(c.ctx, store.SchedulingClaim{Executor: executor, Expiry: expiry, Demands: []store.Demand{{Runtime: runtime, Limit: 1}}})
		c.saw(rows...)
		if err == nil && len(rows) == 0 {
			return nothing
		}
		var all []string
		for i := range rows {
			all = append(all, c.row(&rows[i]))
		}
		return c.answer(err, all...)
	}}
	dispatch := call{"Dispatch", func(s store.Store) string {
		var ds []store.Dispatch
		for _, key := range keys {
			ds = append(ds, store.Dispatch{Key: key, Worker: c.worker, Timeout: timeout})
		}
		results, err := s.Dispatch(c.ctx, executor, ds)
		var all []string
		for _, d := range results {
			all = append(all, fmt.Sprint(c.outcome(d.Outcome), " unfit ", d.WorkerUnfit))
		}
		return c.answer(err, all...)
	}}
	return []call{claim, claim, dispatch, dispatch, {"Park", func(s store.Store) string {
		var ps []store.Park
		for _, key := range keys {
			ps = append(ps, store.Park{Key: key, Unschedulable: unschedulable, Grace: grace})
		}
		outcomes, err := s.Park(c.ctx, executor, ps)
		return c.outcomes(outcomes, err)
	}}, {"MarkPublished", func(s store.Store) string { return c.answer(s.MarkPublished(c.ctx, keys)) }}}
}

func (c *cell) outcomes(outcomes []store.Outcome, err error) string {
	var all []string
	for _, o := range outcomes {
		all = append(all, c.outcome(o))
	}
	return c.answer(err, all...)
}

func (c *cell) workerCalls(r *rand.Rand) []call {
	keys, lease, lives := c.keys(r), over(r, Lease), r.IntN(4) > 0
	beat, process := c.number(&c.beat), c.number(&c.process)+1
	to := []execution.Lifecycle{execution.Active, execution.Active, execution.Draining}[r.IntN(3)]
	// It holds both or none: what it answers about one and does to the other are two moments.
	var held []execution.Key
	if lives {
		held = c.current()
	}
	claim := call{"Claim", func(s store.Store) string {
		var cs []store.Claim
		for _, key := range keys {
			cs = append(cs, store.Claim{Key: key, Beat: beat})
		}
		results, err := s.Claim(c.ctx, c.worker, cs)
		var all []string
		for _, o := range results {
			all = append(all, fmt.Sprint(c.outcome(o.Outcome), " late ", o.DeadlinePassed))
		}
		return c.answer(err, all...)
	}}
	all := []call{claim, claim, claim, {"Heartbeat", func(s store.Store) string {
		reply, err := s.Heartbeat(c.ctx, store.Beat{WorkerKey: c.worker, Number: beat, Lease: lease, ConsumerAlive: lives, Held: held})
		return c.answer(err, fmt.Sprint(reply.Lost))
	}}, {"SetLifecycle", func(s store.Store) string { return c.answer(s.SetLifecycle(c.ctx, c.worker, to)) }}, {"Release", func(s store.Store) string {
		released, err := s.Release(c.ctx, c.worker)
		return c.answer(err, fmt.Sprint(released))
	}}, {"Workers", c.workers}}
	if r.IntN(4) > 0 {
		return all
	}
	return append(all, call{"Register", func(s store.Store) string {
		_, err := s.Register(c.ctx, store.Registration{Process: process, Attempt: 1, Name: c.name, Capacity: 1, Lease: lease})
		return c.answer(err)
	}})
}

func (c *cell) current() []execution.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []execution.Key
	for _, id := range c.ids {
		keys = append(keys, execution.Key{ID: id, Epoch: c.seen[id].Epoch})
	}
	return keys
}

func (c *cell) endings(r *rand.Rand) []call {
	keys, fail := c.keys(r), r.IntN(4) == 0
	c.mu.Lock()
	beat := c.beat
	c.mu.Unlock()
	ground := []store.Ground{store.DeadLettered, store.OwnerGone, store.ClaimExpired, store.Unclaimed}[r.IntN(4)]
	to := []execution.Status{execution.Completed, execution.Failed}[r.IntN(2)]
	retry := r.IntN(2) == 0
	finish := call{"Finish", func(s store.Store) string {
		var fs []store.Finish
		for _, key := range keys {
			fs = append(fs, store.Finish{Key: key, To: to})
		}
		outcomes, err := s.Finish(c.ctx, c.worker, fs)
		return c.outcomes(outcomes, err)
	}}
	reclaim := call{"Reclaim", func(s store.Store) string {
		var rs []store.Reclaim
		for _, key := range keys {
			rs = append(rs, takeBack(key, ground, fail))
		}
		outcomes, err := s.Reclaim(c.ctx, rs)
		return c.outcomes(outcomes, err)
	}}
	return []call{finish, finish, reclaim, reclaim, {"Reap", func(s store.Store) string {
		marked, err := s.Reap(c.ctx, []store.Reap{{WorkerKey: c.worker, Beat: beat}})
		return c.answer(err, fmt.Sprint(marked))
	}}, {"Orchestrate", func(s store.Store) string {
		var os []store.Orchestration
		for _, key := range keys {
			o := store.Orchestration{ID: key.ID}
			if retry {
				// Never due: which number it has depends on the other cells.
				o.Retry = &store.Retry{Count: 1, Reason: execution.Connection, Delay: time.Hour}
			}
			os = append(os, o)
		}
		done, err := s.Orchestrate(c.ctx, os)
		var all []string
		for _, o := range done {
			all = append(all, fmt.Sprint(o.Applied, o.Retry != 0))
		}
		return c.answer(err, all...)
	}}, {"Executions", func(s store.Store) string {
		rows, err := s.Executions(c.ctx, c.ids)
		c.saw(rows...)
		var all []string
		for i := range rows {
			all = append(all, c.row(&rows[i]))
		}
		return c.answer(err, all...)
	}}}
}
