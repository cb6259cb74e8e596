package simstore

import (
	"errors"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/sim/simnet"
)

// A database that is read-only answers readers, and refuses writers with nothing applied.
func TestReadOnlyDatabaseStillReads(t *testing.T) {
	within(t, func(b *fixture) {
		var touched []simnet.Touched
		b.net.OnTouch(func(x simnet.Touched) { touched = append(touched, x) })
		key := b.scheduled(b.worker("w"))
		b.db.SetReadOnly("standby")
		_, err := b.c.Reclaim(b.ctx, []store.Reclaim{{Key: key, Cause: store.DeadLettered, By: execution.DeadLetterHandler}})
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a write gives %v, want ErrUnavailable", err)
		}
		rows, err := b.c.Executions(b.ctx, []execution.ID{key.ID})
		if err != nil || len(rows) != 1 || rows[0].Status != execution.Scheduled {
			t.Errorf("a read gives %v, %v; want the row as it was", rows, err)
		}
		if _, err := b.c.Workers(b.ctx); err != nil {
			t.Errorf("Workers: %v", err)
		}
		if len(touched) != 1 || touched[0].Fault != "standby" || touched[0].Process != "test" {
			t.Errorf("the evidence is %+v", touched)
		}
		b.db.SetReadOnly("")
		if _, err := b.c.Reclaim(b.ctx, []store.Reclaim{{Key: key, Cause: store.DeadLettered, By: execution.DeadLetterHandler}}); err != nil {
			t.Errorf("a write after the end gives %v", err)
		}
	})
}

// What is rolled back was not applied, and about the share that was asked for is.
func TestRolledBackWritesAreNotApplied(t *testing.T) {
	within(t, func(b *fixture) {
		b.must(b.c.PutActions(b.ctx, []execution.Action{{Ref: "a", Runtime: "shell"}}))
		b.db.SetRollback(300_000, "storm")
		created := 0
		for range 1000 {
			if _, err := b.c.Create(b.ctx, []store.NewExecution{{ActionRef: "a"}}); err == nil {
				created++
			} else if !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("a rolled back write gives %v, want ErrUnavailable", err)
			}
		}
		if created != b.db.Rows() || created < 600 || created > 800 {
			t.Errorf("%d of 1000 writes were said to be applied and %d were; want about 700", created, b.db.Rows())
		}
	})
}

// The clock decides anew what is due: a retry that was due before a step backwards waits again.
func TestAStepBackwardsTakesDueRowsBack(t *testing.T) {
	within(t, func(b *fixture) {
		key := b.scheduled(b.worker("w"))
		_, err := b.c.Reclaim(b.ctx, []store.Reclaim{{
			Key: key, Cause: store.DeadLettered, By: execution.DeadLetterHandler, Policy: "reschedule", Delay: 10 * time.Second, MaxDispatches: 3,
		}})
		b.must(err)
		b.sleep(11 * time.Second)
		claim := store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 10}
		// Nobody may claim yet; the row only ripens.
		claim.Others = 0
		_, err = b.c.ClaimForScheduling(b.ctx, claim)
		b.must(err)
		claim.Others = 10
		var moved []time.Duration
		b.seen = append(b.seen, sinkFunc(func(e *history.Event) {
			if e.Kind == history.ClockStepped {
				moved = append(moved, e.Due)
			}
		}))
		b.db.StepClock(-5 * time.Second)
		if rows, err := b.c.ClaimForScheduling(b.ctx, claim); err != nil || len(rows) != 0 {
			t.Errorf("%d rows were claimed (%v) before they are due", len(rows), err)
		}
		b.sleep(5 * time.Second)
		if rows, err := b.c.ClaimForScheduling(b.ctx, claim); err != nil || len(rows) != 1 {
			t.Errorf("%d rows were claimed (%v) when it was due again, want 1", len(rows), err)
		}
		if len(moved) != 1 || moved[0] != -5*time.Second {
			t.Errorf("the history says that the clock was moved by %v", moved)
		}
	})
}

type sinkFunc func(*history.Event)

// Observe implements history.Sink.
func (f sinkFunc) Observe(e *history.Event) { f(e) }
