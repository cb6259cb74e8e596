package postgrestest_test

import (
	"fmt"
	"slices"
	"testing"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// The audit has the actor's name with each change that a request caused, and with no other change.
func TestAuditNamesRequester(t *testing.T) {
	b := newFixture(t)
	b.must(b.PutActions(b.ctx, []execution.Action{action}))
	w := b.activeWorker("w")
	// Two simultaneous callers share a statement, and each of its rows has its own actor.
	created, err := b.Create(b.ctx, []store.NewExecution{{ActionRef: "a", Actor: "ci"}, {ActionRef: "a", Actor: "ops"}, {ActionRef: "a"}})
	b.must(err)
	one, two, three := created[0].ID, created[1].ID, created[2].ID
	replayed := func(actor string) {
		t.Helper()
		rows, err := b.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: lease, Demands: []store.Demand{{Runtime: "shell", Limit: 1}}})
		b.must(err)
		done, err := b.Dispatch(b.ctx, "e", []store.Dispatch{{Key: rows[0].Key(), Worker: w, Timeout: lease}})
		b.must(err)
		out := b.reclaimRow(store.Reclaim{
			Key: done[0].Row.Key(), Cause: store.DeadLettered, By: execution.DeadLetterHandler, Reason: execution.QueueTimeout, Policy: config.Reschedule, Actor: actor,
		})
		if out.Row.ID != one || !out.Applied {
			t.Fatalf("the replay: %+v", out)
		}
	}
	replayed("night")
	b.execSQL("update execution set due_at = due_at - interval '1 hour' where id = $1", int64(one)) // back to the first
	replayed("")                                                                                    // a dead letter that no user replays
	for id, actor := range map[execution.ID]string{one: "late", two: "", three: "ops"} {
		_, err = b.Cancel(b.ctx, []execution.ID{id}, actor)
		b.must(err)
	}
	_, err = b.Cancel(b.ctx, []execution.ID{one}, "never")
	b.must(err)
	for id, want := range map[execution.ID][]string{
		one: {
			`requested by api "ci"`, `scheduling by scheduler ""`, `scheduled by scheduler ""`, `requested by dead_letter_handler "night"`,
			`scheduling by scheduler ""`, `scheduled by scheduler ""`, `requested by dead_letter_handler ""`, `cancelled by api "late"`,
		},
		two:   {`requested by api "ops"`, `cancelled by api ""`},
		three: {`requested by api ""`, `cancelled by api "ops"`},
	} {
		all, err := b.Transitions(b.ctx, store.TransitionQuery{Execution: id, Limit: 100})
		b.must(err)
		var got []string
		for _, c := range all {
			got = append(got, fmt.Sprintf("%v by %v %q", c.To, c.By, c.Actor))
		}
		if !slices.Equal(got, want) {
			t.Errorf("execution %d: %q, want %q", id, got, want)
		}
	}
	page := b.readChanges(store.ChangeQuery{Execution: one, Limit: 100})
	if last := page.Changes[len(page.Changes)-1]; last.Actor != "late" {
		t.Errorf("the stream's last change: %+v", last)
	}
}

// A chain's retry and the children that follow its end come from no request.
func TestAuditNamesNoActorForExecutors(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	b.must(b.PutActions(b.ctx, []execution.Action{action}))
	created, err := b.Create(b.ctx, []store.NewExecution{{ActionRef: "a", Actor: "ci"}})
	b.must(err)
	first := created[0].ID
	created, err = b.Create(b.ctx, []store.NewExecution{{ActionRef: "a", Actor: "ci", Parent: first}})
	b.must(err)
	child := created[0].ID
	rows, err := b.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: lease, Demands: []store.Demand{{Runtime: "shell", Limit: 1}}})
	b.must(err)
	done, err := b.Dispatch(b.ctx, "e", []store.Dispatch{{Key: rows[0].Key(), Worker: w, Timeout: lease}})
	b.must(err)
	b.claimDispatch(w, done[0].Row.Key())
	b.finishRun(w, store.Finish{Key: done[0].Row.Key(), To: execution.Failed, Reason: execution.Connection})
	retried, err := b.Orchestrate(b.ctx, []store.Orchestration{{ID: first, Retry: &store.Retry{Count: 1, Reason: execution.Connection}}})
	b.must(err)
	retry := retried[0].Retry
	_, err = b.Cancel(b.ctx, []execution.ID{retry}, "ops")
	b.must(err)
	_, err = b.Orchestrate(b.ctx, []store.Orchestration{{ID: retry}})
	b.must(err)
	_, err = b.SettleChildren(b.ctx, []execution.ID{first}, 10)
	b.must(err)
	named := map[string]bool{}
	for _, id := range []execution.ID{first, retry, child} {
		all, err := b.Transitions(b.ctx, store.TransitionQuery{Execution: id, Limit: 100})
		b.must(err)
		for _, c := range all {
			if c.Actor != "" {
				named[fmt.Sprintf("%v %v by %v for %s", id, c.To, c.By, c.Actor)] = true
			}
		}
	}
	for _, want := range []string{
		fmt.Sprintf("%v requested by api for ci", first), fmt.Sprintf("%v requested by api for ci", child), fmt.Sprintf("%v cancelled by api for ops", retry),
	} {
		if !named[want] {
			t.Errorf("%q is missing in %v", want, named)
		}
		delete(named, want)
	}
	if len(named) > 0 {
		t.Errorf("named without a request: %v", named)
	}
	if row := b.readRow(retry); row.SubmittedBy != "ci" || b.readRow(first).CancelRequestedBy != "ops" {
		t.Errorf("the retry is %q's, the chain was cancelled by %q", row.SubmittedBy, b.readRow(first).CancelRequestedBy)
	}
}
