package storetest

import (
	"fmt"

	"handoff/core/execution"
	"handoff/core/store"
)

// actorCases are about the actors of the changes that requests cause.
func actorCases() []Case {
	return []Case{
		{"an execution keeps the actor of its request, and so do its retries, but not its children", func(b *fixture) {
			w := b.activeWorker("w")
			created, err := b.Store.Create(b.ctx, []store.NewExecution{
				{ActionRef: "shell.echo", Actor: "ci", IdempotencyKey: "k"}, {ActionRef: "python.run"}, {ActionRef: "python.run", Actor: "ops"},
			})
			b.must(err)
			first := created[0].ID
			child := b.createChild(first, "").ID
			own, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", Actor: "child", Parent: first}})
			b.must(err)
			again, err := b.Store.Create(b.ctx, []store.NewExecution{{ActionRef: "shell.echo", Actor: "ops", IdempotencyKey: "k"}})
			b.must(err)
			b.expect("that the key was used", again[0].Existed, true)
			row := b.claimDueRow("executor")
			results, err := b.Store.Dispatch(b.ctx, "executor", []store.Dispatch{{Key: row.Key(), Worker: w, Timeout: DispatchTimeout}})
			b.must(err)
			ran := b.claimDispatch(w, results[0].Row.Key()).Row
			b.finishRun(w, store.Finish{Key: ran.Key(), To: execution.Failed, Reason: execution.Connection})
			retry := b.orchestrateEnd(first, 1, 0).Retry
			names := func(ids ...execution.ID) (all []string) {
				for _, id := range ids {
					all = append(all, fmt.Sprintf("%q", b.readRow(id).SubmittedBy))
				}
				return all
			}
			b.expect("who asked", fmt.Sprint(names(first, created[1].ID, created[2].ID, child, own[0].ID, retry)), `["ci" "" "ops" "" "child" "ci"]`)
		}},
		{"a chain keeps the actor of the first cancellation request", func(b *fixture) {
			w := b.activeWorker("w")
			key := b.runningExecution(w)
			for _, actor := range []string{"ci", "ops"} {
				answers, err := b.Store.Cancel(b.ctx, []execution.ID{key.ID}, actor)
				b.must(err)
				b.expect("accepted", answers[0].Applied, true)
				b.expect("who asked, in the answer", answers[0].Row.CancelRequestedBy, "ci")
			}
			b.expect("who asked", b.readRow(key.ID).CancelRequestedBy, "ci")
			id := b.createExecutions("shell.echo", 1)[0]
			b.expect("who asked before anybody did", b.readRow(id).CancelRequestedBy, "")
			_, err := b.Store.Cancel(b.ctx, []execution.ID{id}, "")
			b.must(err)
			b.expect("who asked without a token", b.readRow(id).CancelRequestedBy, "")
		}},
		{"dead letters keep who settled them", func(b *fixture) {
			for range 4 {
				b.must(b.Store.StoreDeadLetters(b.ctx, store.DeadLetter{Queue: "q", Reason: "expired", Outcome: "kept", Open: true}))
			}
			letters, err := b.Store.DeadLetters(b.ctx, store.DeadLetterQuery{Limit: 10})
			b.must(err)
			for _, actor := range []string{"ops", "late"} {
				_, err = b.Store.SettleDeadLetter(b.ctx, letters[0].ID, "discarded", actor)
				b.must(err)
			}
			_, err = b.Store.SettleDeadLetter(b.ctx, letters[1].ID, "discarded", "")
			b.must(err)
			_, err = b.Store.DiscardDeadLetters(b.ctx, store.DeadLetterDiscard{IDs: []int64{letters[0].ID, letters[2].ID}, Limit: 10, Actor: "bulk"}, "discarded")
			b.must(err)
			letters, err = b.Store.DeadLetters(b.ctx, store.DeadLetterQuery{Limit: 10})
			b.must(err)
			var by []string
			for _, d := range letters {
				by = append(by, fmt.Sprintf("%q", d.HandledBy))
			}
			b.expect("who settled them", fmt.Sprint(by), `["ops" "" "bulk" ""]`)
		}},
		{"a worker keeps who cordoned it last, or lifted the cordon", func(b *fixture) {
			w := b.activeWorker("w")
			b.expect("before", b.readWorker(w).CordonChangedBy, "")
			b.setCordon(store.Cordon{Worker: w.ID, On: true, Actor: "ops"})
			b.expect("after a cordon", b.readWorker(w).CordonChangedBy, "ops")
			b.setCordon(store.Cordon{Worker: w.ID, On: true, Drain: true, Actor: "night"})
			b.expect("after a drain", b.readWorker(w).CordonChangedBy, "night")
			w = b.activeWorker("w")
			b.expect("at the next incarnation", b.readWorker(w).CordonChangedBy, "night")
			b.setCordon(store.Cordon{Worker: w.ID, Actor: "ops"})
			b.expect("after it was lifted", b.readWorker(w).CordonChangedBy, "ops")
			b.setCordon(store.Cordon{Worker: w.ID, On: true})
			b.expect("after a cordon without a token", b.readWorker(w).CordonChangedBy, "")
		}},
		{"an action keeps who put it last, and its executions have no such name", func(b *fixture) {
			put := func(actor string) string {
				a := Actions()[0]
				a.PutBy = actor
				b.must(b.Store.PutActions(b.ctx, []execution.Action{a}))
				found, err := b.Store.Actions(b.ctx, store.ActionQuery{Ref: a.Ref, Limit: 1})
				b.must(err)
				return found[0].PutBy
			}
			b.expect("who put it", fmt.Sprintf("%q %q %q", put("ops"), put(""), put("ci")), `"ops" "" "ci"`)
			b.expect("the action of an execution", b.readRow(b.createExecutions("shell.echo", 1)[0]).Action, Actions()[0])
		}},
	}
}
