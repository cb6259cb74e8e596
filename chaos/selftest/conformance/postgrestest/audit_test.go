package postgrestest_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/audit"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
)

// readChanges reads a page.
func (fi *fixture) readChanges(q store.ChangeQuery) store.ChangePage {
	fi.Helper()
	page, err := fi.Changes(fi.ctx, q)
	fi.must(err)
	return page
}

// changeTexts shows a page, each change as "execution to status".
func changeTexts(p store.ChangePage) (all []string) {
	for i := range p.Changes {
		all = append(all, fmt.Sprintf("%d %v", p.Changes[i].Execution, p.Changes[i].To))
	}
	return all
}

func (fi *fixture) expectChanges(what string, p store.ChangePage, want ...string) {
	fi.Helper()
	if got := changeTexts(p); !slices.Equal(got, want) {
		fi.Errorf("%s: %q, want %q", what, got, want)
	}
}

const cancelByHand = `update execution set status = 'cancelled', failure_reason = 'cancelled', result = '{}', ended = now(), due_at = now(),
	written_by = 'api', written_epoch = epoch, written_reason = 'cancelled' where id = $1`

// Transactions may begin, draw numbers and commit in any order: no change is ever inserted before one that
// was already shown.
func TestChangesIncludeLateCommits(t *testing.T) {
	for name, early := range map[string]bool{"its number is smaller": true, "its number is larger": false} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			slow, fast := b.requestedExecution(), b.requestedExecution()
			from := b.readChanges(store.ChangeQuery{}).Next
			tx, err := b.conn.Begin(b.ctx)
			b.must(err)
			_, err = tx.Exec(b.ctx, "select pg_current_xact_id()")
			b.must(err)
			change := func() {
				_, err := tx.Exec(b.ctx, cancelByHand, int64(slow))
				b.must(err)
			}
			if early {
				change()
			}
			_, err = b.Cancel(b.ctx, []execution.ID{fast}, "")
			b.must(err)
			if !early {
				change()
			}
			before := b.readChanges(store.ChangeQuery{After: from, Limit: 10})
			b.expectChanges("while an older transaction goes on", before)
			counted, err := b.Survey(b.ctx)
			b.must(err)
			if !before.Held || counted.Held == 0 {
				t.Errorf("while a transaction holds the stream back, the page says %v and the survey names %d", before.Held, counted.Held)
			}
			b.must(tx.Commit(b.ctx))
			after := b.readChanges(store.ChangeQuery{After: before.Next, Limit: 10})
			b.expectChanges("afterwards", after, fmt.Sprintf("%d cancelled", slow), fmt.Sprintf("%d cancelled", fast))
			if counted, err = b.Survey(b.ctx); after.Held || err != nil || counted.Held != 0 {
				t.Errorf("when it has ended, the page says %v and the survey names %d (%v)", after.Held, counted.Held, err)
			}
			b.expectChanges("once more", b.readChanges(store.ChangeQuery{After: after.Next, Limit: 10}))
		})
	}
}

func TestChangesArePaged(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	key := b.runningExecution(w)
	other := b.requestedExecution()
	b.finishRun(w, store.Finish{Key: key, To: execution.Completed})
	all := []string{
		fmt.Sprintf("%d requested", key.ID), fmt.Sprintf("%d scheduling", key.ID), fmt.Sprintf("%d scheduled", key.ID), fmt.Sprintf("%d running", key.ID),
		fmt.Sprintf("%d requested", other), fmt.Sprintf("%d completed", key.ID),
	}
	b.expectChanges("everything", b.readChanges(store.ChangeQuery{Limit: 100}), all...)
	var paged []string
	for q := (store.ChangeQuery{Limit: 4}); ; {
		page := b.readChanges(q)
		paged, q.After = append(paged, changeTexts(page)...), page.Next
		if !page.More {
			break
		}
	}
	if !slices.Equal(paged, all) {
		t.Errorf("in pages: %q", paged)
	}
	b.expectChanges("of one", b.readChanges(store.ChangeQuery{Execution: other, Limit: 100}), all[4])
	b.expectChanges("to one status", b.readChanges(store.ChangeQuery{To: execution.Running, Limit: 100}), all[3])
	b.expectChanges("of an action", b.readChanges(store.ChangeQuery{ActionRef: "a", Limit: 100}), all...)
	b.expectChanges("of another", b.readChanges(store.ChangeQuery{ActionRef: "b", Limit: 100}))
	hidden := b.readChanges(store.ChangeQuery{ActionRef: "b", Limit: 2})
	if !hidden.More || len(hidden.Changes) > 0 {
		t.Errorf("a page of which nothing is selected: %+v", hidden)
	}
	b.expectChanges("behind it", b.readChanges(store.ChangeQuery{After: hidden.Next, Limit: 100}), all[2:]...)
	first := b.readChanges(store.ChangeQuery{Execution: key.ID, To: execution.Completed, Limit: 100}).Changes[0]
	if first.ActionRef != "a" || first.From != execution.Running || first.By != execution.Worker || first.Writer != w.Incarnation || first.Epoch != key.Epoch || first.At.IsZero() {
		t.Errorf("a change: %+v", first)
	}
	if end := b.readChanges(store.ChangeQuery{Limit: 100}); end.End.Before(end.Next) || end.More {
		t.Errorf("the end %v lies before the last position %v", end.End, end.Next)
	}
}

// Readers that continue from their position while others write have finally seen the content of the table, in
// its order.
func TestChangesUnderConcurrentWriters(t *testing.T) {
	b := newFixture(t)
	b.must(b.PutActions(b.ctx, []execution.Action{action}))
	const writers, each = 4, 40
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for range each {
				created, err := b.Create(b.ctx, []store.NewExecution{{ActionRef: "a"}, {ActionRef: "a"}})
				if err == nil {
					_, err = b.Cancel(b.ctx, []execution.ID{created[1].ID, created[0].ID}, "")
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	written := make(chan struct{})
	go func() { writing.Wait(); close(written) }()
	var seen []string
	over := false
	for q := (store.ChangeQuery{Limit: 7}); ; {
		page := b.readChanges(q)
		for i := range page.Changes {
			seen = append(seen, page.Changes[i].Position.String())
		}
		q.After = page.Next
		if over && !page.More {
			break
		}
		select {
		case <-written:
			over = true
		default:
		}
	}
	rows, err := b.conn.Query(b.ctx, "select concat(transaction, '-', id) from execution_transition order by transaction, id")
	b.must(err)
	want, err := pgx.CollectRows(rows, pgx.RowTo[string])
	b.must(err)
	if len(want) != writers*each*4 || !slices.Equal(seen, want) {
		t.Errorf("%d changes were returned, the table has %d; in its order: %v", len(seen), len(want), slices.Equal(seen, want))
	}
}

// If a statement both writes an end and handles it, the audit shows the end before its handling,
// even with clocks that advance during the statement.
func TestAuditListsEndBeforeHandling(t *testing.T) {
	b := newFixture(t)
	b.Store = b.openStore(postgres.Options{})
	w := b.activeWorker("w")
	alone, parent := b.runningExecution(w), b.runningExecution(w)
	createChildren(t, b.Store, []execution.ID{parent.ID}, 1)
	for _, key := range []execution.Key{alone, parent} {
		b.finishRun(w, store.Finish{Key: key, To: execution.Completed})
	}
	if row := b.readRow(alone.ID); row.OrchestratedAt.IsZero() || !row.OrchestratedAt.Equal(row.Ended) {
		t.Errorf("it ended at %v and was handled at %v", row.Ended, row.OrchestratedAt)
	}
	if done, err := b.Orchestrate(b.ctx, []store.Orchestration{{ID: alone.ID}, {ID: parent.ID}}); err != nil || done[0].Applied || !done[1].Applied {
		t.Fatalf("%+v, %v", done, err)
	}
	r, err := audit.Judge(b.ctx, b.url, audit.Options{Config: config.Default(config.Hardened)})
	b.must(err)
	for _, v := range r.Violations {
		t.Errorf("%+v", v)
	}
	if r.Unread != 0 {
		t.Errorf("%d events of this program's own audit could not be read: %q", r.Unread, r.Unknown)
	}
	if want := 3 + 2*4 + 2; r.Events < want {
		t.Errorf("%d events were read, at least %d were written", r.Events, want)
	}
}
