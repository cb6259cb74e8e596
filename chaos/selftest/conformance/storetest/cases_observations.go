package storetest

import (
	"fmt"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// observedReclaim returns a reclaim of the timeout monitor that is only to be observed.
func observedReclaim(key execution.Key, cause store.ReclaimCause, age time.Duration) store.Reclaim {
	return store.Reclaim{
		Key: key, Cause: cause, Age: age, By: execution.TimeoutMonitor, Reason: execution.DispatchTimeout,
		Policy: config.Reschedule, MaxDispatches: 2, Counts: true, To: execution.Timeout,
	}
}

func (fi *fixture) observeReclaim(r store.Reclaim) store.Observed {
	fi.t.Helper()
	all, err := fi.Store.ObserveReclaims(fi.ctx, []store.Reclaim{r})
	fi.must(err)
	return all[0]
}

// recordProbe records a prober's finding about one worker.
func (fi *fixture) recordProbe(w store.WorkerKey, ready bool, reason string) bool {
	fi.t.Helper()
	all, err := fi.Store.ObserveWorkers(fi.ctx, []store.ProbedWorker{{WorkerKey: w, Ready: ready, Reason: reason}})
	fi.must(err)
	return all[0]
}

// observationPage shows a page, newest first.
func (fi *fixture) observationPage(q store.ObservationQuery) (shown string) {
	fi.t.Helper()
	if q.Limit == 0 {
		q.Limit = 10
	}
	page, err := fi.Store.Observations(fi.ctx, q)
	fi.must(err)
	for i, o := range page {
		if i > 0 {
			shown += ", "
		}
		shown += o.Would
		if o.Part == store.PartProber && o.EndedAt.IsZero() {
			shown += " lasts"
		}
	}
	return shown
}

func observationCases() []Case {
	return []Case{
		{"what a reclaim would do is recorded once for each dispatch, and nothing is done", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.scheduledExecution(w)
			const age = 30 * time.Second
			b.Advance(age - tick)
			b.expect("before its age", b.observeReclaim(observedReclaim(key, store.Unclaimed, age)), store.Observed{})
			b.Advance(tick)
			before := b.readRow(key.ID)
			b.expect("at its age", b.observeReclaim(observedReclaim(key, store.Unclaimed, age)), store.Observed{New: true, Would: execution.Requested})
			b.expect("again", b.observeReclaim(observedReclaim(key, store.Unclaimed, age)), store.Observed{})
			b.expect("the row", fmt.Sprint(b.readRow(key.ID)), fmt.Sprint(before))
			b.expect("expiries held against the worker", len(b.readWorker(w).Expired), 0)
			page, err := b.Store.Observations(b.ctx, store.ObservationQuery{Limit: 10})
			b.must(err)
			b.expect("how many", len(page), 1)
			o := page[0]
			b.expect("the observation", fmt.Sprint(o.Part, " ", o.Key == key, o.Worker == w, " ", o.Would, " ", o.Reason, " ", o.EndedAt.IsZero()),
				"execution_timeout_monitor true true requested dispatch_timeout true")
			b.expect("the reclaim is still lawful", b.reclaimRow(unclaimedReclaim(key, store.Unclaimed, age)).Applied, true)
		}},
		{"the recorded effect is the effect of the reclaim", func(b *fixture) {
			w := b.activeWorker("w")
			last := b.scheduledExecution(w)
			failing, runs, canceling := b.scheduledExecution(w), b.runningExecution(w), b.runningExecution(w)
			b.cancelExecution(canceling.ID)
			b.Advance(RunTimeout + time.Minute)
			r := observedReclaim(last, store.Unclaimed, time.Minute)
			r.MaxDispatches = 1
			b.expect("its last dispatch", b.observeReclaim(r).Would, execution.Failed)
			b.expect("what became of it", b.reclaimRow(r).Row.Status, execution.Failed)
			r = observedReclaim(failing, store.Unclaimed, time.Minute)
			r.Policy = config.Fail
			b.expect("under the policy fail", b.observeReclaim(r).Would, execution.Failed)
			b.expect("a run past its deadline", b.observeReclaim(observedReclaim(runs, store.Overrun, time.Minute)).Would, execution.Timeout)
			b.expect("one that was asked to end", b.observeReclaim(observedReclaim(canceling, store.Overrun, time.Minute)).Would, execution.Cancelled)
			b.expect("how many", b.observationPage(store.ObservationQuery{}), "cancelled, timeout, failed, failed")
			b.expect("of one execution", b.observationPage(store.ObservationQuery{Execution: runs.ID}), "timeout")
			b.expect("of the prober", b.observationPage(store.ObservationQuery{Part: store.PartProber}), "")
			b.expect("of the worker", b.observationPage(store.ObservationQuery{Worker: w.ID, Limit: 2}), "cancelled, timeout")
			b.expect("of another worker", b.observationPage(store.ObservationQuery{Worker: w.ID + 1}), "")
			page, err := b.Store.Observations(b.ctx, store.ObservationQuery{Limit: 2})
			b.must(err)
			b.expect("the page before", b.observationPage(store.ObservationQuery{Before: page[1].ID}), "failed, failed")
		}},
		{"a reclaim that would be refused is not recorded", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			b.Advance(RunTimeout)
			b.expect("unclaimed, and it runs", b.observeReclaim(observedReclaim(key, store.Unclaimed, time.Second)), store.Observed{})
			b.expect("of another epoch", b.observeReclaim(observedReclaim(execution.Key{ID: key.ID, Epoch: key.Epoch + 1}, store.Overrun, 0)), store.Observed{})
			b.expect("of no execution", b.observeReclaim(observedReclaim(execution.Key{ID: 999, Epoch: 1}, store.Overrun, 0)), store.Observed{})
			b.expect("recorded", b.observationPage(store.ObservationQuery{}), "")
		}},
		{"an outage of a health endpoint is recorded once, and ends once", func(b *fixture) {
			w, other := b.activeWorker("w"), b.activeWorker("other")
			b.expect("ready at first", b.recordProbe(w, true, ""), false)
			b.expect("not ready", b.recordProbe(w, false, "refused"), true)
			b.expect("seen by another executor", b.recordProbe(w, false, "timed out"), false)
			b.expect("recorded", b.observationPage(store.ObservationQuery{Part: store.PartProber}), "unreachable lasts")
			b.expect("another worker", b.recordProbe(other, false, "503"), true)
			b.Advance(time.Second)
			b.expect("ready", b.recordProbe(w, true, ""), true)
			b.expect("ready again", b.recordProbe(w, true, ""), false)
			page, err := b.Store.Observations(b.ctx, store.ObservationQuery{Worker: w.ID, Limit: 10})
			b.must(err)
			b.expect("the outage", fmt.Sprint(len(page), page[0].Worker == w, page[0].Reason, page[0].EndedAt.Sub(page[0].At)), "1 truerefused1s")
			b.expect("the next outage", b.recordProbe(w, false, "refused"), true)
			b.expect("recorded then", b.observationPage(store.ObservationQuery{Worker: w.ID}), "unreachable lasts, unreachable")
		}},
		{"no outage begins of a worker that drains, or of an incarnation that is not the newest", func(b *fixture) {
			drains, old := b.activeWorker("drains"), b.activeWorker("w")
			b.must(b.Store.SetLifecycle(b.ctx, drains, execution.Draining))
			b.Advance(Lease + tick)
			b.activeWorker("w")
			b.expect("drains", b.recordProbe(drains, false, "refused"), false)
			b.expect("superseded", b.recordProbe(old, false, "refused"), false)
			b.expect("unknown", b.recordProbe(store.WorkerKey{ID: 99, Incarnation: 99}, false, "refused"), false)
			b.expect("recorded", b.observationPage(store.ObservationQuery{}), "")
		}},
		{"observations are purged from their age on, the oldest first, in batches", func(b *fixture) {
			for _, name := range []string{"a", "b", "c"} {
				b.recordProbe(b.activeWorker(name), false, name)
				b.Advance(time.Second)
			}
			b.Advance(7*time.Second - tick)
			purge := func() int {
				n, err := b.Store.PurgeObservations(b.ctx, 10*time.Second, 1)
				b.must(err)
				return n
			}
			b.expect("purged before", purge(), 0)
			b.Advance(tick)
			b.expect("purged", fmt.Sprint(purge(), purge()), "1 0")
			b.Advance(time.Second)
			b.expect("purged later", purge(), 1)
			page, err := b.Store.Observations(b.ctx, store.ObservationQuery{Limit: 10})
			b.must(err)
			b.expect("left", fmt.Sprint(len(page), page[0].Reason), "1c")
		}},
	}
}
