package storetest

import (
	"fmt"
	"strings"

	"handoff/core/execution"
	"handoff/core/store"
)

// messageCases are about protection against messages that should never be sent.
func messageCases() []Case {
	return []Case{
		{"dead letters of one call are kept all, in their order, with the length of the body that was cut", func(b *fixture) {
			long := store.DeadLetter{Queue: "long", Reason: "malformed", Body: make([]byte, 3*store.LongestBody), Outcome: "cut", Open: true}.Bounded()
			b.must(b.Store.StoreDeadLetters(b.ctx))
			b.must(b.Store.StoreDeadLetters(b.ctx, store.DeadLetter{Queue: "first", Reason: "expired", Outcome: "kept"}, long))
			found, err := b.Store.DeadLetters(b.ctx, store.DeadLetterQuery{Limit: 10})
			b.must(err)
			b.expect("how many", len(found), 2)
			for i, listed := range found {
				whole, known, err := b.Store.DeadLetter(b.ctx, listed.ID)
				b.must(err)
				b.expect("known", known, true)
				found[i] = whole
			}
			b.expect("the last one", fmt.Sprint(found[0].Queue, len(found[0].Body), found[0].BodyBytes, found[0].Open), "long16384 49152 true")
			b.expect("the first one", fmt.Sprint(found[1].Queue, found[1].Body == nil, found[1].BodyBytes, found[1].Open), "firsttrue 0 false")
		}},
		{"a body that was not cut is refused, and so is everything else of the call", func(b *fixture) {
			whole := store.DeadLetter{Queue: "q", Reason: "malformed", Body: make([]byte, store.LongestBody+1), BodyBytes: store.LongestBody + 1, Outcome: "whole"}
			err := b.Store.StoreDeadLetters(b.ctx, store.DeadLetter{Queue: "first", Reason: "expired", Outcome: "kept"}, whole)
			b.expect("refused for good", err != nil && !store.Retriable(err), true)
			found, err := b.Store.DeadLetters(b.ctx, store.DeadLetterQuery{Limit: 10})
			b.must(err)
			b.expect("how many", len(found), 0)
		}},
		{"the rows dispatched to an incarnation are found, the oldest dispatch first and nothing else", func(b *fixture) {
			w, other := b.activeWorker("w"), b.activeWorker("other")
			b.runningExecution(w)
			var wait []string
			for range 3 {
				wait = append(wait, fmt.Sprint(b.scheduledExecution(w)))
			}
			b.scheduledExecution(other)
			found := func(w store.WorkerKey, limit int) string {
				rows, err := b.Store.Dispatched(b.ctx, w, limit)
				b.must(err)
				var keys []string
				for i := range rows {
					keys = append(keys, fmt.Sprint(rows[i].Key()))
				}
				return strings.Join(keys, " ")
			}
			b.expect("all", found(w, 10), strings.Join(wait, " "))
			b.expect("the first two", found(w, 2), strings.Join(wait[:2], " "))
			b.expect("none", found(w, 0), "")
			b.expect("of a later incarnation", found(b.registerWorker("w"), 10), "")
			b.Advance(DispatchTimeout)
			b.expect("at their deadline", found(w, 10), "")
		}},
		{"only an execution with a cancellation request ends as cancelled", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			end := store.Finish{Key: key, To: execution.Cancelled, Reason: execution.CancelRequested}
			b.expect("unasked", b.finishRun(w, end).Applied, false)
			b.expect("it still is", b.readRow(key.ID).Status, execution.Running)
			b.cancelExecution(key.ID)
			b.expect("asked", b.finishRun(w, end).Applied, true)
		}},
	}
}
