package storetest

import (
	"fmt"
	"slices"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// fleetCases are about the workers that may get work: their reports, the orders of operators, and pins.
func fleetCases() []Case {
	return []Case{
		{"a dispatch fills a worker up to its limit and not beyond", func(b *fixture) {
			w := b.activeWorker("w")
			ids := b.createExecutions("shell.echo", 4)
			var ds []store.Dispatch
			for range ids {
				row := b.claimDueRow("e")
				ds = append(ds, store.Dispatch{Key: row.Key(), Worker: w, Timeout: DispatchTimeout, Limit: 2})
			}
			results, err := b.Store.Dispatch(b.ctx, "e", ds[:3])
			b.must(err)
			for i, want := range []string{"true false", "true false", "false true"} {
				b.expect(fmt.Sprintf("dispatch %d of 3: applied, unfit", i+1), fmt.Sprint(results[i].Applied, results[i].WorkerUnfit), want)
			}
			b.expect("load and queue", fmt.Sprint(b.readWorker(w).Load, b.readWorker(w).Queued), "2 2")
			ds[3].Limit = 0
			results, err = b.Store.Dispatch(b.ctx, "e", ds[3:])
			b.must(err)
			b.expect("a dispatch without a limit", results[0].Applied, true)
			b.claimDispatch(w, execution.Key{ID: ids[0], Epoch: 1})
			b.expect("load and queue after a claim", fmt.Sprint(b.readWorker(w).Load, b.readWorker(w).Queued), "3 2")
		}},
		{"a row that the caller does not hold takes no place", func(b *fixture) {
			w := b.activeWorker("w")
			b.createExecutions("shell.echo", 1)
			row := b.claimDueRow("e")
			results, err := b.Store.Dispatch(b.ctx, "e", []store.Dispatch{
				{Key: execution.Key{ID: 999}, Worker: w, Timeout: DispatchTimeout, Limit: 1},
				{Key: row.Key(), Worker: w, Timeout: DispatchTimeout, Limit: 1},
			})
			b.must(err)
			b.expect("the second one", results[1].Applied, true)
		}},
		{"a cordoned worker gets no new work, keeps its executions, and stays cordoned when it registers anew", func(b *fixture) {
			w := b.activeWorker("w")
			held := b.scheduledExecution(w)
			b.setCordon(store.Cordon{Worker: w.ID, On: true, Reason: "disk"})
			row := b.readWorker(w)
			b.expect("cordoned, why", fmt.Sprint(row.Cordoned, " ", row.CordonReason), "true disk")
			b.expect("a claim of what it has", b.claimDispatch(w, held).Applied, true)
			b.createExecutions("shell.echo", 1)
			next := b.claimDueRow("e")
			dispatch := func(w store.WorkerKey) store.DispatchResult {
				results, err := b.Store.Dispatch(b.ctx, "e", []store.Dispatch{{Key: next.Key(), Worker: w, Timeout: time.Minute}})
				b.must(err)
				return results[0]
			}
			r := dispatch(w)
			b.expect("a dispatch: applied, unfit", fmt.Sprint(r.Applied, r.WorkerUnfit), "false true")
			w = b.activeWorker("w")
			b.expect("the next incarnation is cordoned", b.readWorker(w).Cordoned, true)
			b.expect("a dispatch to it", dispatch(w).WorkerUnfit, true)
			b.setCordon(store.Cordon{Worker: w.ID})
			b.expect("cordoned, why, after it was lifted", fmt.Sprint(b.readWorker(w).Cordoned, b.readWorker(w).CordonReason == ""), "false true")
			b.expect("a dispatch after that", dispatch(w).Applied, true)
		}},
		{"an unknown worker can't be cordoned", func(b *fixture) {
			found, err := b.Store.SetCordon(b.ctx, store.Cordon{Worker: 99, On: true, Drain: true})
			b.must(err)
			b.expect("found", found, false)
		}},
		{"the heartbeat reports whether the worker is still starting", func(b *fixture) {
			w := b.registerWorker("w")
			told := func(number uint64) bool {
				reply, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: number, Lease: Lease, ConsumerAlive: true})
				b.must(err)
				return reply.Starting
			}
			b.expect("before it is active", told(1), true)
			b.must(b.Store.SetLifecycle(b.ctx, w, execution.Active))
			b.expect("once it is active", told(2), false)
			b.must(b.Store.SetLifecycle(b.ctx, w, execution.Draining))
			b.expect("while it drains", told(3), false)
		}},
		{"a drain is reported by the heartbeat, to that incarnation, until it drains", func(b *fixture) {
			w := b.activeWorker("w")
			number := uint64(1)
			told := func(w store.WorkerKey) bool {
				number++
				reply, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: number, Lease: Lease, ConsumerAlive: true})
				b.must(err)
				return reply.Drain
			}
			b.expect("told before", told(w), false)
			b.setCordon(store.Cordon{Worker: w.ID, On: true, Drain: true})
			b.expect("told, cordoned", fmt.Sprint(told(w), b.readWorker(w).Cordoned), "true true")
			b.expect("told again", told(w), true)
			b.must(b.Store.SetLifecycle(b.ctx, w, execution.Draining))
			b.expect("told while draining", told(w), false)
			b.expect("the next process is told", told(b.activeWorker("w")), false)
		}},
		{"a drain holds for the requested process, however often it registers anew", func(b *fixture) {
			anew := func(process, attempt uint64) (w store.WorkerKey, told bool) {
				newest, err := b.Store.Newest(b.ctx, "w")
				b.must(err)
				r, err := b.Store.Register(b.ctx, store.Registration{Process: process, Attempt: attempt, After: newest, Name: "w", Lease: Lease})
				b.must(err)
				reply, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: r.WorkerKey, Number: 1, Lease: Lease})
				b.must(err)
				return r.WorkerKey, reply.Drain
			}
			w, told := anew(1, 1)
			b.expect("told before", told, false)
			b.setCordon(store.Cordon{Worker: w.ID, On: true, Drain: true})
			b.setCordon(store.Cordon{Worker: w.ID})
			for attempt := range uint64(2) {
				_, told = anew(1, attempt+2)
				b.expect("the same process is told", told, true)
			}
			_, told = anew(2, 1)
			b.expect("another process is told", told, false)
			_, told = anew(1, 4)
			b.expect("the same process is told after another one", told, true)
		}},
		{"a worker's age is that of its newest beat, or of its registration before the first", func(b *fixture) {
			w, err := b.Store.Register(b.ctx, store.Registration{Process: 1, Attempt: 1, Name: "w", Capacity: 1, Lease: Lease})
			b.must(err)
			b.Advance(2 * time.Second)
			b.expect("without a beat", b.readWorker(w.WorkerKey).SinceBeat, 2*time.Second)
			b.expect("when it was", b.readWorker(w.WorkerKey).LastBeat.IsZero(), true)
			beat := func(number uint64) time.Duration {
				_, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w.WorkerKey, Number: number, Lease: Lease})
				b.must(err)
				return b.readWorker(w.WorkerKey).SinceBeat
			}
			b.expect("with its beat", beat(2), time.Duration(0))
			b.Advance(time.Second)
			at := b.readWorker(w.WorkerKey).LastBeat
			b.expect("with one that came late", beat(1), time.Second)
			now, err := b.Store.Clock(b.ctx)
			b.must(err)
			b.expect("how long ago its moment is", now.Sub(at), time.Second)
		}},
		{"a heartbeat that follows an acknowledged one which the database lacks is refused, and does nothing", func(b *fixture) {
			w := b.activeWorker("w")
			beat := func(number, acknowledged uint64) error {
				_, err := b.Store.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: number, Acknowledged: acknowledged, Lease: Lease, ConsumerAlive: true})
				return err
			}
			b.must(beat(2, 1))
			b.must(beat(5, 2))
			b.must(beat(4, 2)) // it comes late
			b.Advance(2 * time.Second)
			b.expect("it knows 6", beat(7, 6), store.ErrLost)
			b.expect("since its beat", b.readWorker(w).SinceBeat, 2*time.Second)
			b.must(beat(7, 5))
			b.expect("since its beat", b.readWorker(w).SinceBeat, time.Duration(0))
		}},
		{"figures are kept as reported and grow old", func(b *fixture) {
			w := b.activeWorker("w")
			f := execution.Figures{Total: 9, Failed: 4, Consecutive: 2, LastFailure: 3 * time.Second, Average: 1500 * time.Microsecond}
			beat := store.Beat{WorkerKey: w, Number: 5, Lease: Lease, ConsumerAlive: true, Figures: f, Health: execution.Degraded}
			_, err := b.Store.Heartbeat(b.ctx, beat)
			b.must(err)
			b.Advance(2 * time.Second)
			f.LastFailure = 5 * time.Second
			b.expect("the figures two seconds later", b.readWorker(w).Figures, f)
			late := beat
			late.Number, late.Figures = 4, execution.Figures{Total: 1}
			_, err = b.Store.Heartbeat(b.ctx, late)
			b.must(err)
			b.expect("the figures after a beat that came late", b.readWorker(w).Figures, f)
			b.expect("the figures of the next incarnation", b.readWorker(b.activeWorker("w")).Figures, execution.Figures{})
		}},
		{"the messages that a worker reads are those of its latest heartbeat", func(b *fixture) {
			w := b.activeWorker("w")
			b.expect("of a worker that says nothing", b.readWorker(w).Messages, 0)
			beat := store.Beat{WorkerKey: w, Number: 5, Lease: Lease, ConsumerAlive: true, Messages: 2}
			_, err := b.Store.Heartbeat(b.ctx, beat)
			b.must(err)
			b.expect("of one that says it", b.readWorker(w).Messages, 2)
			beat.Number, beat.Messages = 4, 3
			_, err = b.Store.Heartbeat(b.ctx, beat)
			b.must(err)
			b.expect("after a beat that came late", b.readWorker(w).Messages, 2)
			b.expect("of the next incarnation", b.readWorker(b.activeWorker("w")).Messages, 0)
		}},
		{"a dispatch that stays unclaimed at an active worker counts against its incarnation, by whomever it is found", func(b *fixture) {
			w := b.activeWorker("w")
			first, second := b.scheduledExecution(w), b.scheduledExecution(w)
			dead := unclaimedReclaim(first, store.DeadLettered, 0)
			dead.Counts, dead.MaxDispatches = true, 9
			b.expect("taken back", b.reclaimRow(dead).Applied, true)
			b.expect("taken back again", b.reclaimRow(dead).Applied, false)
			b.Advance(time.Second)
			b.expect("taken back, and not the worker's fault", b.reclaimRow(unclaimedReclaim(second, store.Undeliverable, 0)).Applied, true)
			b.expect("expiries", fmt.Sprint(b.readWorker(w).Expired), fmt.Sprint([]time.Duration{time.Second}))
			third := b.scheduledExecution(w)
			dead.Key, dead.Cause = third, store.Unclaimed
			b.expect("taken back", b.reclaimRow(dead).Applied, true)
			b.expect("expiries, the latest first", fmt.Sprint(b.readWorker(w).Expired), fmt.Sprint([]time.Duration{0, time.Second}))
			b.expect("expiries of the next incarnation", len(b.readWorker(b.activeWorker("w")).Expired), 0)
		}},
		{"a read of the workers leaves nothing of an earlier answer whose memory it reuses", func(b *fixture) {
			w, other := b.activeWorker("w"), b.activeWorker("other")
			b.reclaimRow(func() store.Reclaim {
				dead := unclaimedReclaim(b.scheduledExecution(w), store.DeadLettered, 0)
				dead.Counts, dead.MaxDispatches = true, 9
				return dead
			}())
			_, err := b.Store.SetCordon(b.ctx, store.Cordon{Worker: other.ID, On: true, Reason: "broken"})
			b.must(err)
			fresh, err := b.Store.Workers(b.ctx, nil)
			b.must(err)
			used := append(slices.Clone(fresh), fresh...)
			slices.Reverse(used) // each row is in the other one's place, and there are too many
			again, err := b.Store.Workers(b.ctx, used)
			b.must(err)
			b.expect("the workers", fmt.Sprint(again), fmt.Sprint(fresh))
		}},
		{"a worker whose queues are deleted is invisible to the passes until it registers anew", func(b *fixture) {
			w, other := b.activeWorker("w"), b.activeWorker("other")
			mark := func(ws ...store.WorkerKey) string {
				b.t.Helper()
				marked, err := b.Store.MarkQueuesDeleted(b.ctx, ws)
				b.must(err)
				return fmt.Sprint(marked)
			}
			names := func() string {
				b.t.Helper()
				rows, err := b.Store.Workers(b.ctx, nil)
				b.must(err)
				var all []string
				for i := range rows {
					all = append(all, rows[i].Name)
				}
				return fmt.Sprint(all)
			}
			key := b.runningExecution(w)
			b.expect("an active worker is marked", mark(w), "[false]")
			b.must(b.Store.SetLifecycle(b.ctx, w, execution.Stopped))
			b.expect("one that still holds an execution is marked", mark(w), "[false]")
			b.Advance(time.Hour)
			b.expect("taken back", b.reclaimRow(store.Reclaim{
				Key: key, Cause: store.OwnerGone, By: execution.Reconciler, Reason: execution.WorkerLost, To: execution.Abandoned,
				Result: execution.Result{Error: "lost", FailedBy: execution.Reconciler},
			}).Applied, true)
			b.expect("in sight before", names(), "[w other]")
			b.expect("an unknown worker, one that is gone and one that is there", mark(store.WorkerKey{ID: 99, Incarnation: 99}, w, other), "[false true false]")
			b.expect("again", mark(w), "[true]")
			b.expect("in sight afterwards", names(), "[other]")
			found, err := b.Store.FindWorkers(b.ctx, store.WorkerQuery{Limit: 10})
			b.must(err)
			b.expect("a client still finds it", len(found), 2)
			again := b.activeWorker("w")
			b.expect("it comes back as the same worker", again.ID, w.ID)
			b.expect("the earlier incarnation", mark(w), "[false]")
			b.expect("in sight again", names(), "[w other]")
		}},
		{"a pin is kept by the row and by its retries, and an unknown worker is refused", func(b *fixture) {
			w := b.activeWorker("w")
			created, err := b.Store.Create(b.ctx, []store.NewExecution{
				{ActionRef: "shell.echo", Pinned: 99, IdempotencyKey: "k"}, {ActionRef: "shell.echo", Pinned: w.ID}, {ActionRef: "no.such", Pinned: 99},
			})
			b.must(err)
			b.expect("unknown worker: worker, action", fmt.Sprint(created[0].UnknownWorker, created[0].UnknownAction), "true false")
			b.expect("unknown action: worker, action", fmt.Sprint(created[2].UnknownWorker, created[2].UnknownAction), "false true")
			b.expect("the pin", b.readRow(created[1].ID).Pinned, w.ID)
			b.expect("claimed", b.claimedFor(0, store.Demand{Runtime: "shell", Pinned: w.ID, Limit: 1}), idList(created[1].ID))
			results, err := b.Store.Dispatch(b.ctx, "e", []store.Dispatch{{Key: execution.Key{ID: created[1].ID}, Worker: w, Timeout: time.Minute}})
			b.must(err)
			key := results[0].Row.Key()
			b.claimDispatch(w, key)
			b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Connection})
			handled, err := b.Store.Orchestrate(b.ctx, []store.Orchestration{{ID: key.ID, Retry: &store.Retry{Count: 1, Reason: execution.Connection}}})
			b.must(err)
			b.expect("the pin of the retry", b.readRow(handled[0].Retry).Pinned, w.ID)
			again, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", IdempotencyKey: "k"}})
			b.must(err)
			b.expect("a refused request has used its key", again[0].Existed, false)
		}},
		{"the health endpoint is the incarnation's", func(b *fixture) {
			g := store.Registration{Process: 7, Attempt: 1, Name: "w", Runtimes: []string{"shell"}, Capacity: 1, Lease: Lease, HealthURL: "http://w:9/healthz"}
			r, err := b.Store.Register(b.ctx, g)
			b.must(err)
			b.expect("the endpoint", b.readWorker(r.WorkerKey).HealthURL, g.HealthURL)
			b.expect("the endpoint of the next one", b.readWorker(b.registerWorker("w")).HealthURL, "")
		}},
	}
}

func (fi *fixture) setCordon(c store.Cordon) {
	fi.t.Helper()
	found, err := fi.Store.SetCordon(fi.ctx, c)
	fi.must(err)
	fi.expect("the worker was found", found, true)
}
