package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// possibleCalls are the possible calls of clients of a concurrent history, each with its name.
func (c *cell) possibleCalls(r *rand.Rand) []call {
	return slices.Concat(c.executorCalls(r), c.workerCalls(r), c.endingCalls(r), c.userCalls(r))
}

// drawCall draws one call with fixed arguments, so that the model can make the same call.
func (c *cell) drawCall(r *rand.Rand, only []string) call {
	all := c.possibleCalls(r)
	for {
		one := all[r.IntN(len(all))]
		if only == nil || slices.Contains(only, one.name) {
			return one
		}
	}
}

// maybeExpired returns, in one case of three, a duration that has already passed: the clock of a history
// stands still.
func maybeExpired(r *rand.Rand, otherwise time.Duration) time.Duration {
	if r.IntN(3) == 0 {
		return -time.Second
	}
	return otherwise
}

func (c *cell) executorCalls(r *rand.Rand) []call {
	keys, executor, runtime := c.chooseKeys(r), fmt.Sprint("e", r.IntN(2)), c.runtimeName(r.IntN(2))
	expiry, timeout, grace := maybeExpired(r, time.Minute), maybeExpired(r, DispatchTimeout), maybeExpired(r, time.Minute)
	unschedulable := r.IntN(2) == 0
	claim := singleStepCall("ClaimForScheduling", func(s store.Store) string {
		rows, err := s.ClaimForScheduling(c.ctx, store.SchedulingClaim{Executor: executor, Expiry: expiry, Demands: []store.Demand{{Runtime: runtime, Limit: 1}}})
		c.rememberRows(rows...)
		if err == nil && len(rows) == 0 {
			return nothing
		}
		var all []string
		for i := range rows {
			all = append(all, c.rowText(&rows[i]))
		}
		return c.answerText(err, all...)
	})
	direct := singleStepCall("DispatchDue", func(s store.Store) string {
		answer, err := s.DispatchDue(c.ctx, store.DueDispatch{
			Executor: executor, Expiry: expiry, Timeout: timeout, Offers: []store.Offer{newOffer([]string{runtime}, 0, c.worker)},
		})
		c.rememberRows(answer.Rows...)
		if err == nil && len(answer.Rows) == 0 {
			return nothing
		}
		var all []string
		for i := range answer.Rows {
			all = append(all, c.rowText(&answer.Rows[i]))
		}
		return c.answerText(err, all...)
	})
	dispatch := perRow(c, "Dispatch", requestsFor(keys, func(key execution.Key) store.Dispatch {
		return store.Dispatch{Key: key, Worker: c.worker, Timeout: timeout}
	}), func(s store.Store, ds []store.Dispatch) (all []string, err error) {
		results, err := s.Dispatch(c.ctx, executor, ds)
		for _, d := range results {
			all = append(all, fmt.Sprint(c.outcomeText(d.Outcome), " unfit ", d.WorkerUnfit))
		}
		return all, err
	})
	park := perRow(c, "Park", requestsFor(keys, func(key execution.Key) store.Park {
		return store.Park{Key: key, Unschedulable: unschedulable, Grace: grace}
	}), func(s store.Store, ps []store.Park) ([]string, error) {
		return c.outcomeTexts(s.Park(c.ctx, executor, ps))
	})
	return []call{claim, claim, direct, dispatch, dispatch, park, perRow(c, "MarkPublished", keys, func(s store.Store, keys []execution.Key) ([]string, error) {
		left, err := s.MarkPublished(c.ctx, keys)
		all := make([]string, len(keys))
		for i, key := range keys {
			if slices.Contains(left, key) {
				all[i] = nothing
			}
		}
		return all, err
	})}
}

// requestsFor makes a request for each key.
func requestsFor[K, R any](keys []K, request func(K) R) []R {
	all := make([]R, len(keys))
	for i, key := range keys {
		all[i] = request(key)
	}
	return all
}

func (c *cell) outcomeTexts(outcomes []store.Outcome, err error) ([]string, error) {
	var all []string
	for _, o := range outcomes {
		all = append(all, c.outcomeText(o))
	}
	return all, err
}

func (c *cell) workerCalls(r *rand.Rand) []call {
	keys, lease, lives := c.chooseKeys(r), maybeExpired(r, Lease), r.IntN(4) > 0
	beat, process := c.nextNumber(&c.beat), c.nextNumber(&c.process)+1
	to := []execution.Lifecycle{execution.Active, execution.Active, execution.Draining}[r.IntN(3)]
	var held []execution.Key
	if lives {
		held = c.currentKeys()
	}
	claim := perRow(c, "Claim", requestsFor(keys, func(key execution.Key) store.Claim {
		return store.Claim{Key: key, Beat: beat}
	}), func(s store.Store, cs []store.Claim) (all []string, err error) {
		results, err := s.Claim(c.ctx, c.worker, cs)
		for _, o := range results {
			all = append(all, fmt.Sprint(c.outcomeText(o.Outcome), " late ", o.DeadlinePassed))
		}
		return all, err
	})
	all := []call{claim, claim, claim, withReply("Heartbeat", func(s store.Store) (done, seen string) {
		reply, err := s.Heartbeat(c.ctx, store.Beat{WorkerKey: c.worker, Number: beat, Lease: lease, ConsumerAlive: lives, Held: held})
		return c.answerText(err), c.answerText(err, fmt.Sprint(reply.Lost))
	}), singleStepCall("SetLifecycle", func(s store.Store) string { return c.answerText(s.SetLifecycle(c.ctx, c.worker, to)) }), singleStepCall("Release", func(s store.Store) string {
		released, err := s.Release(c.ctx, c.worker)
		return c.answerText(err, fmt.Sprint(released))
	}), singleStepCall("Workers", c.workerText)}
	if r.IntN(4) > 0 {
		return all
	}
	return append(all, singleStepCall("Register", func(s store.Store) string {
		_, err := s.Register(c.ctx, store.Registration{Process: process, Attempt: 1, After: c.worker.Incarnation, Name: c.name, Capacity: 1, Lease: lease})
		return c.answerText(err)
	}))
}

func (c *cell) currentKeys() []execution.Key {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keys []execution.Key
	for _, id := range c.ids {
		keys = append(keys, execution.Key{ID: id, Epoch: c.seen[id].Epoch})
	}
	return keys
}

func (c *cell) userCalls(r *rand.Rand) []call {
	id, on := c.ids[r.IntN(len(c.ids))], r.IntN(3) == 0
	return []call{singleStepCall("Cancel", func(s store.Store) string {
		answers, err := s.Cancel(c.ctx, []execution.ID{id}, "ci")
		var all []string
		for _, a := range answers {
			if a.Row.ID != id {
				// In the model a retry has another number.
				all = append(all, fmt.Sprint(a.Applied, " ", a.Row.Status, " from ", a.From))
				continue
			}
			all = append(all, c.outcomeText(a.Outcome))
		}
		return c.answerText(err, all...)
	}), singleStepCall("Create", func(s store.Store) string {
		created, err := s.Create(c.ctx, []store.NewExecution{{ActionRef: c.keyedAction(), IdempotencyKey: c.keyedAction()}})
		var all []string
		for _, one := range created {
			all = append(all, fmt.Sprint("existed ", one.Existed))
		}
		return c.answerText(err, all...)
	}), singleStepCall(fmt.Sprint("SetCordon ", on), func(s store.Store) string {
		found, err := s.SetCordon(c.ctx, store.Cordon{Worker: c.worker.ID, On: on})
		return c.answerText(err, fmt.Sprint(found))
	})}
}

func (c *cell) endingCalls(r *rand.Rand) []call {
	keys, fail := c.chooseKeys(r), r.IntN(4) == 0
	c.mu.Lock()
	beat := c.beat
	read := slices.Clone(keys)
	for i := range read {
		read[i].Epoch = min(read[i].Epoch, c.seen[read[i].ID].Epoch)
	}
	c.mu.Unlock()
	cause := []store.ReclaimCause{store.DeadLettered, store.OwnerGone, store.ClaimExpired, store.Unclaimed}[r.IntN(4)]
	to := []execution.Status{execution.Completed, execution.Failed}[r.IntN(2)]
	retry := r.IntN(2) == 0
	finish := perRow(c, "Finish", requestsFor(keys, func(key execution.Key) store.Finish {
		return store.Finish{Key: key, To: to}
	}), func(s store.Store, fs []store.Finish) ([]string, error) {
		return c.outcomeTexts(s.Finish(c.ctx, c.worker, fs))
	})
	reclaim := perRow(c, "Reclaim", requestsFor(read, func(key execution.Key) store.Reclaim {
		return reclaimOf(key, cause, fail)
	}), func(s store.Store, rs []store.Reclaim) ([]string, error) {
		return c.outcomeTexts(s.Reclaim(c.ctx, rs))
	})
	orchestrate := perRow(c, "Orchestrate", requestsFor(keys, func(key execution.Key) store.Orchestration {
		o := store.Orchestration{ID: key.ID}
		if retry {
			// Never due, because its number depends on the other cells.
			o.Retry = &store.Retry{Count: 1, Reason: execution.Connection, Delay: time.Hour}
		}
		return o
	}), func(s store.Store, os []store.Orchestration) (all []string, err error) {
		done, err := s.Orchestrate(c.ctx, os)
		for _, o := range done {
			all = append(all, fmt.Sprint(o.Applied, o.Retry != 0))
		}
		return all, err
	})
	return []call{finish, finish, reclaim, reclaim, orchestrate, singleStepCall("Reap", func(s store.Store) string {
		marked, err := s.Reap(c.ctx, []store.Reap{{WorkerKey: c.worker, Beat: beat}})
		return c.answerText(err, fmt.Sprint(marked))
	}), perRow(c, "Executions", c.ids, func(s store.Store, ids []execution.ID) (all []string, err error) {
		rows, err := s.Executions(c.ctx, ids)
		c.rememberRows(rows...)
		for i := range rows {
			all = append(all, c.rowText(&rows[i]))
		}
		return all, err
	})}
}
