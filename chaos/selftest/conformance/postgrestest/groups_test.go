package postgrestest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/migrations"
)

// rowEach is the last version that stores each transition in a separate row.
const rowEach = 14

// livedTogether runs n executions through their lives in calls of n. Every third one fails and gets a retry,
// so the statements make transitions of several kinds.
func (fi *fixture) livedTogether(w store.WorkerKey, n int) (ids []execution.ID) {
	fi.Helper()
	fi.must(fi.PutActions(fi.ctx, []execution.Action{action}))
	_, err := fi.Create(fi.ctx, slices.Repeat([]store.NewExecution{{ActionRef: "a"}}, n))
	fi.must(err)
	o := store.Offer{Runtimes: []string{"shell"}, Spread: slices.Repeat([]store.Place{{Worker: w, Limit: 1 << 30}}, n)}
	o.Packed = o.Spread
	sent, err := fi.DispatchDue(fi.ctx, store.DueDispatch{Executor: "e", Expiry: time.Minute, Timeout: time.Minute, Offers: []store.Offer{o}})
	fi.must(err)
	if len(sent.Rows) != n {
		fi.Fatalf("%d of %d executions were dispatched", len(sent.Rows), n)
	}
	claims, finishes := make([]store.Claim, n), make([]store.Finish, n)
	for i := range sent.Rows {
		key := sent.Rows[i].Key()
		ids = append(ids, key.ID)
		claims[i] = store.Claim{Key: key, Beat: 1}
		finishes[i] = store.Finish{Key: key, To: execution.Completed}
		if i%3 == 0 {
			finishes[i] = store.Finish{Key: key, To: execution.Failed, Reason: execution.Validation}
		}
	}
	_, err = fi.Claim(fi.ctx, w, claims)
	fi.must(err)
	_, err = fi.Finish(fi.ctx, w, finishes)
	fi.must(err)
	return ids
}

// readStream reads all changes in pages of the given size.
func (fi *fixture) readStream(limit int) (all []store.Change) {
	fi.Helper()
	for q := (store.ChangeQuery{Limit: limit}); ; {
		page := fi.readChanges(q)
		if len(page.Changes) > limit || page.More && len(page.Changes) < limit {
			fi.Fatalf("a page of %d has %d changes, and says more: %v", limit, len(page.Changes), page.More)
		}
		all, q.After = append(all, page.Changes...), page.Next
		if !page.More {
			return all
		}
	}
}

// viewLines are the transitions of the view, as a database of either layout shows them.
func (fi *fixture) viewLines() []string {
	fi.Helper()
	rows, err := fi.conn.Query(fi.ctx, "select to_jsonb(t)::text from execution_transition t order by transaction, id", pgx.QueryExecModeSimpleProtocol)
	fi.must(err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	fi.must(err)
	return found
}

// expectAgreement asserts that the stream, in pages of any size, and the histories of all executions show the
// same as the view.
func (fi *fixture) expectAgreement() {
	fi.Helper()
	rows, err := fi.conn.Query(fi.ctx, `select concat_ws(' ', execution, transaction || '-' || id, "from", "to") from execution_transition order by transaction, id`)
	fi.must(err)
	want, err := pgx.CollectRows(rows, pgx.RowTo[string])
	fi.must(err)
	told := func(c *store.Change) string {
		if c.From == execution.None {
			return fmt.Sprintf("%d %v %v", c.Execution, c.Position, c.To)
		}
		return fmt.Sprintf("%d %v %v %v", c.Execution, c.Position, c.From, c.To)
	}
	of := map[execution.ID][]store.Transition{}
	for _, limit := range []int{1, 7, 63, 64, 65, 5000} {
		if limit == 1 && len(want) > 1000 {
			continue
		}
		var got []string
		all := fi.readStream(limit)
		for i := range all {
			got = append(got, told(&all[i]))
		}
		if !slices.Equal(got, want) {
			fi.Errorf("in pages of %d the stream shows %d changes, and the view %d, or in another order", limit, len(got), len(want))
		}
		if limit == 5000 {
			for i := range all {
				of[all[i].Execution] = append(of[all[i].Execution], all[i].Transition)
			}
		}
	}
	for id, want := range of {
		got, err := fi.Transitions(fi.ctx, store.TransitionQuery{Execution: id, Limit: 100})
		fi.must(err)
		if !slices.Equal(got, want) {
			fi.Errorf("the history of execution %d is\n%+v\nand in the stream\n%+v", id, got, want)
		}
		got, err = fi.Transitions(fi.ctx, store.TransitionQuery{Execution: id, After: want[0].Line, Limit: 1})
		fi.must(err)
		if len(want) > 1 && (len(got) != 1 || got[0] != want[1]) {
			fi.Errorf("the second page of the history of execution %d is %+v", id, got)
		}
	}
}

// Equal values of a statement's transitions are stored once, and every reader sees a line for each
// transition, even in the first and the last place of a group.
func TestTransitionsOfStatementShareRow(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	var alone, together int
	b.livedTogether(w, 1)
	b.scanRow("select count(*) from transition_group", nil, &alone)
	const n = 200
	ids := b.livedTogether(w, n)
	b.scanRow("select count(*) from transition_group", nil, &together)
	// The ids are in at most five blocks of 64. An execution makes five transitions, the last one of two
	// kinds.
	if alone != 5 || together-alone > 5*6 {
		t.Errorf("one execution made %d groups and %d made %d", alone, n, together-alone)
	}
	b.expectAgreement()
	history, err := b.Transitions(b.ctx, store.TransitionQuery{Execution: ids[0], Limit: 100})
	b.must(err)
	var steps []execution.Status
	for _, s := range history {
		steps = append(steps, s.To)
	}
	if want := []execution.Status{execution.Requested, execution.Scheduling, execution.Scheduled, execution.Running, execution.Failed}; !slices.Equal(steps, want) {
		t.Errorf("an execution went to %v, want %v", steps, want)
	}
	if _, err := b.conn.Exec(b.ctx, "select transitions_of(-1)"); err != nil {
		t.Errorf("asking for an execution that can't exist: %v", err)
	}
	var newest int
	b.scanRow("select count(*) from (select * from latest_transitions(250) except select * from (select * from execution_transition order by transaction desc, id desc limit 250) t) d", nil, &newest)
	if newest != 0 {
		t.Errorf("%d of the latest 250 transitions are none of those", newest)
	}
}

// Lines keep their numbers and their place in the stream when the layout changes, in both directions,
// and rows of both layouts are read as one stream.
func TestMigrationKeepsAudit(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	b.livedTogether(w, 100)
	same := func(when string, want []string) {
		t.Helper()
		if got := b.viewLines(); !slices.Equal(got, want) {
			t.Errorf("%s the audit has %d lines, and there were %d, or they read otherwise", when, len(got), len(want))
		}
	}
	open, err := b.Create(b.ctx, slices.Repeat([]store.NewExecution{{ActionRef: "a"}}, 50))
	b.must(err)
	grouped := b.viewLines()
	var heldSince string // the columns that dispatches need and that came later
	b.scanRow("select pg_get_functiondef('held_since'::regproc)", nil, &heldSince)
	b.must(migrations.Down(b.ctx, b.conn, rowEach))
	b.execSQL(heldSince)
	same("on the way back", grouped)
	// Its number must follow those of the group before.
	b.execSQL(cancelByHand, int64(open[40].ID))
	_, err = b.Cancel(b.ctx, []execution.ID{open[0].ID, open[49].ID}, "")
	b.must(err)
	// Without the names of groups, the statements that change executions work as before.
	b.livedTogether(w, 47)
	single := b.viewLines()
	if len(single) != len(grouped)+3+47+4*47 {
		t.Errorf("the old layout has %d lines after %d", len(single), len(grouped))
	}
	same("as before, the old lines of", append(slices.Clone(grouped), single[len(grouped):]...))
	b.must(migrations.Up(b.ctx, b.conn))
	same("after the migration", single)
	b.expectAgreement()
	b.livedTogether(w, 100)
	b.livedTogether(w, 3)
	same("with new lines, the old ones of", append(slices.Clone(single), b.viewLines()[len(single):]...))
	b.expectAgreement()
}
