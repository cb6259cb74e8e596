package postgrestest_test

import (
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// The database's own function, too, uses the limits of the execution's request, whatever its action declares.
func TestRetriesCountAgainstExecutionLimit(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	for _, x := range []struct {
		limits execution.Limits
		want   bool
	}{
		{execution.Limits{}, true}, // the action allows one
		{execution.Limits{OwnRetries: true}, false},
		{execution.Limits{MaxRetries: 3, OwnRetries: true}, true},
	} {
		b.must(b.PutActions(b.ctx, []execution.Action{action}))
		_, err := b.Create(b.ctx, []store.NewExecution{{ActionRef: "a", Limits: x.limits}})
		b.must(err)
		rows, err := b.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: 15 * time.Second, Demands: []store.Demand{{Runtime: "shell", Limit: 1}}})
		b.must(err)
		results, err := b.Dispatch(b.ctx, "e", []store.Dispatch{{Key: rows[0].Key(), Worker: w, Timeout: 20 * time.Second}})
		b.must(err)
		key := results[0].Row.Key()
		b.claimDispatch(w, key)
		b.finishRun(w, store.Finish{Key: key, To: execution.Failed, Reason: execution.Connection})
		var retriable bool
		b.scanRow("select is_execution_retriable($1)", []any{int64(key.ID)}, &retriable)
		if retriable != x.want {
			t.Errorf("with %+v it is retriable: %v, want %v", x.limits, retriable, x.want)
		}
	}
}

// The names of the limits in the row are those of their columns.
func TestRowNamesRequestLimits(t *testing.T) {
	b := newFixture(t)
	b.must(b.PutActions(b.ctx, []execution.Action{action}))
	own := execution.Limits{Timeout: 90 * time.Second, DispatchTimeout: 1500 * time.Millisecond, OwnRetries: true}
	created, err := b.Create(b.ctx, []store.NewExecution{{ActionRef: "a", Limits: own}, {ActionRef: "a"}})
	b.must(err)
	var named, values string
	var none bool
	b.scanRow(`select array_to_string(own_limits, ' '), concat_ws(' ', timeout_seconds, dispatch_timeout_seconds, max_retries) from execution where id = $1`,
		[]any{int64(created[0].ID)}, &named, &values)
	b.scanRow("select own_limits is null from execution where id = $1", []any{int64(created[1].ID)}, &none)
	if named != "timeout_seconds dispatch_timeout_seconds max_retries" || values != "90 1.5 0" || !none {
		t.Errorf("the row names %q with %q, and that of a request without limits none: %v", named, values, none)
	}
}

// A manual edit of the view can correct the exit codes, and inserting keeps them. The action's table refuses
// numbers that are no exit codes.
func TestRetriedExitCodesAcceptManualEdits(t *testing.T) {
	b := newFixture(t)
	a := action
	a.RetriedExitCodes = execution.NewExitCodes(1, 75)
	b.must(b.PutActions(b.ctx, []execution.Action{a}))
	created, err := b.Create(b.ctx, []store.NewExecution{{ActionRef: "a"}})
	b.must(err)
	id := int64(created[0].ID)
	codes := func(id int64) (text string) {
		b.scanRow("select array_to_string(retried_exit_codes, ' ') from execution where id = $1", []any{id}, &text)
		return text
	}
	if got := codes(id); got != "1 75" {
		t.Errorf("the execution has the codes %q", got)
	}
	b.execSQL("update execution set retried_exit_codes = '{2}' where id = $1", id)
	b.execSQL("update execution set max_retries = 7 where id = $1", id)
	if got := codes(id); got != "2" {
		t.Errorf("after an edit the execution has the codes %q", got)
	}
	b.execSQL(`insert into execution (action, action_ref, runtime, entrypoint, max_retries, due_at, created, written_by, retried_exit_codes)
		select action, action_ref, runtime, entrypoint, max_retries, now(), now(), 'api', '{3,4}' from execution where id = $1`, id)
	var last int64
	b.scanRow("select max(id) from execution", nil, &last)
	if got := codes(last); last == id || got != "3 4" {
		t.Errorf("the inserted execution %d has the codes %q", last, got)
	}
	for _, wrong := range []string{"{0}", "{1,256}"} {
		if _, err := b.conn.Exec(b.ctx, "update action set retried_exit_codes = $1::text::smallint[] where ref = 'a'", wrong); err == nil {
			t.Errorf("the table takes the exit codes %s", wrong)
		}
	}
}
