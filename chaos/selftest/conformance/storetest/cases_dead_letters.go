package storetest

import (
	"fmt"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func deadLetterCases() []Case {
	keep := func(b *fixture, queue string, open bool) {
		b.t.Helper()
		b.must(b.Store.StoreDeadLetters(b.ctx, store.DeadLetter{Queue: queue, Reason: "malformed", Body: []byte("{"), Outcome: "not a dispatch", Open: open}))
	}
	page := func(b *fixture, q store.DeadLetterQuery) (queues string) {
		b.t.Helper()
		if q.Limit == 0 {
			q.Limit = 10
		}
		found, err := b.Store.DeadLetters(b.ctx, q)
		b.must(err)
		for _, d := range found {
			queues += d.Queue
		}
		return queues
	}
	return []Case{
		{"a dead letter is kept, also one that names no execution", func(b *fixture) {
			key := execution.Key{ID: 999, Epoch: 1}
			b.must(b.Store.StoreDeadLetters(b.ctx, store.DeadLetter{
				Key: key, Queue: "worker.1.executions", Reason: "expired", XDeath: []byte(`[{"count":1}]`), Body: []byte("{}"), Outcome: "unknown execution",
			}))
			keep(b, "q", true)
			found, err := b.Store.DeadLetters(b.ctx, store.DeadLetterQuery{Limit: 10})
			b.must(err)
			b.expect("how many", len(found), 2)
			b.expect("the newest", fmt.Sprint(found[0].Key.ID, found[0].Queue, found[0].Open, found[0].HandledAt.IsZero()), "0qtrue true")
			b.expect("what may be large is left out", found[0].Body == nil && found[1].Body == nil && found[1].XDeath == nil, true)
			one, known, err := b.Store.DeadLetter(b.ctx, found[1].ID)
			b.must(err)
			b.expect("the other", fmt.Sprint(known, one.Key == key, one.Reason, string(one.XDeath), one.Outcome, one.Open, one.HandledAt.Equal(one.ReceivedAt)),
				`true trueexpired[{"count":1}]unknown executionfalse true`)
			other, _, err := b.Store.DeadLetter(b.ctx, found[0].ID)
			b.must(err)
			b.expect("the body of the newest", string(other.Body), "{")
			_, known, err = b.Store.DeadLetter(b.ctx, found[0].ID+7)
			b.must(err)
			b.expect("one that does not exist", known, false)
		}},
		{"dead letters are listed newest first, page by page", func(b *fixture) {
			for _, queue := range []string{"a", "b", "c", "d"} {
				keep(b, queue, queue != "c")
			}
			b.expect("all", page(b, store.DeadLetterQuery{}), "dcba")
			b.expect("the open ones", page(b, store.DeadLetterQuery{Open: true}), "dba")
			first, err := b.Store.DeadLetters(b.ctx, store.DeadLetterQuery{Limit: 2})
			b.must(err)
			b.expect("the page before", page(b, store.DeadLetterQuery{Before: first[1].ID}), "ba")
		}},
		{"a dead letter is settled once", func(b *fixture) {
			keep(b, "q", true)
			found, err := b.Store.DeadLetters(b.ctx, store.DeadLetterQuery{Limit: 1})
			b.must(err)
			first, err := b.Store.SettleDeadLetter(b.ctx, found[0].ID, "discarded", "ops")
			b.must(err)
			second, err := b.Store.SettleDeadLetter(b.ctx, found[0].ID, "replayed", "")
			b.must(err)
			none, err := b.Store.SettleDeadLetter(b.ctx, found[0].ID+1, "discarded", "")
			b.must(err)
			b.expect("settled, again, another", fmt.Sprint(first, second, none), "true false false")
			one, _, err := b.Store.DeadLetter(b.ctx, found[0].ID)
			b.must(err)
			b.expect("the outcome", fmt.Sprint(one.Outcome, " ", one.Open), "discarded false")
		}},
		{"dead letters are purged from their age on, the oldest first, in batches", func(b *fixture) {
			for _, queue := range []string{"a", "b", "c"} {
				keep(b, queue, true)
				b.Advance(time.Second)
			}
			b.Advance(7*time.Second - tick)
			purge := func() int {
				n, err := b.Store.PurgeDeadLetters(b.ctx, 10*time.Second, 1)
				b.must(err)
				return n
			}
			b.expect("purged before", purge(), 0)
			b.Advance(tick)
			b.expect("purged", purge(), 1)
			b.expect("left", page(b, store.DeadLetterQuery{}), "cb")
			b.Advance(time.Second)
			b.expect("purged later", fmt.Sprint(purge(), purge()), "1 0")
			b.expect("left in the end", page(b, store.DeadLetterQuery{}), "c")
		}},
		{"dead letters are purged by their own age, after a step of the clock back, too", func(b *fixture) {
			keep(b, "a", true)
			b.Advance(-time.Minute)
			keep(b, "b", true)
			b.Advance(30 * time.Second)
			n, err := b.Store.PurgeDeadLetters(b.ctx, 20*time.Second, 10)
			b.must(err)
			b.expect("purged, and left", fmt.Sprint(n, " ", page(b, store.DeadLetterQuery{})), "1 a")
		}},
		{"the survey counts live executions and everything unhandled", func(b *fixture) {
			seen := func() string {
				found, err := b.Store.Survey(b.ctx)
				b.must(err)
				found.Held = 0 // only a real server has other transactions
				return fmt.Sprint(found)
			}
			b.expect("at first", seen(), "{[] 0s 0 [] 0s 0s 0 [] 0}")
			w := b.activeWorker("w")
			done := b.runningExecution(w)
			b.runningExecution(w)
			b.finishRun(w, store.Finish{Key: done, To: execution.Failed, Reason: execution.Validation})
			b.Advance(time.Second)
			b.scheduledExecution(w)
			b.createExecutions("shell.echo", 1)
			b.Advance(2 * time.Second)
			keep(b, "q", true)
			keep(b, "r", false)
			b.expect("the survey", seen(), "{[{requested 1 2s} {scheduled 1 2s} {running 1 3s}] 3s 1 [] 2s 0s 0 [] 0}")
		}},
		{"the survey reports since when executions are due, and only counts children that wait for their parent", func(b *fixture) {
			seen := func() string {
				found, err := b.Store.Survey(b.ctx)
				b.must(err)
				return fmt.Sprint(found.Waiting)
			}
			key := b.runningExecution(b.activeWorker("w"))
			b.createChild(key.ID, "")
			b.Advance(time.Second)
			b.expect("a child alone", seen(), "[{requested 1 0s} {running 1 1s}]")
			b.createExecutions("shell.echo", 1)
			b.Advance(time.Second)
			b.expect("beside one that is due", seen(), "[{requested 2 1s} {running 1 2s}]")
			row := b.claimDueRow("e")
			_, err := b.Store.Park(b.ctx, "e", []store.Park{{Key: row.Key()}})
			b.must(err)
			b.Advance(3 * time.Second)
			b.expect("after it was given back", seen(), "[{requested 2 3s} {running 1 5s}]")
		}},
	}
}
