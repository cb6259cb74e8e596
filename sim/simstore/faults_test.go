package simstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/sim/simnet"
)

// A read-only database answers reads, and refuses writes without applying anything.
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
		if _, err := b.c.Workers(b.ctx, nil); err != nil {
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

// A database whose disk is full answers reads, and refuses every kind of write without applying anything.
func TestFullDatabaseStillReads(t *testing.T) {
	within(t, func(b *fixture) {
		var touched []simnet.Touched
		b.net.OnTouch(func(x simnet.Touched) { touched = append(touched, x) })
		w := b.worker("w")
		key := b.scheduled(w)
		b.db.SetFull("full")
		written := 0
		b.seen = append(b.seen, sinkFunc(func(*history.Event) { written++ }))
		writes := map[string]func() error{
			"a claim": func() error {
				_, err := b.c.Claim(b.ctx, w, []store.Claim{{Key: key, Beat: 1}})
				return err
			},
			"a heartbeat": func() error {
				_, err := b.c.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 2, Lease: lease, ConsumerAlive: true})
				return err
			},
			"a claim for scheduling that finds nothing": func() error {
				_, err := b.c.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute})
				return err
			},
			"a batch": func() error {
				_, err := b.c.Create(b.ctx, []store.NewExecution{{ActionRef: "a"}, {ActionRef: "a"}})
				return err
			},
			"an observation": func() error {
				_, err := b.c.ObserveReclaims(b.ctx, []store.Reclaim{{Key: key, Cause: store.DeadLettered, By: execution.DeadLetterHandler}})
				return err
			},
		}
		for name, write := range writes {
			if err := write(); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("%s gives %v, want ErrUnavailable", name, err)
			}
		}
		rows, err := b.c.Executions(b.ctx, []execution.ID{key.ID})
		if err != nil || len(rows) != 1 || rows[0].Status != execution.Scheduled {
			t.Errorf("a read gives %v, %v; want the row as it was", rows, err)
		}
		if workers, err := b.c.Workers(b.ctx, nil); err != nil || workers[0].Beat != 1 {
			t.Errorf("Workers: %+v, %v; want the first heartbeat", workers, err)
		}
		if written != 0 || b.db.Rows() != 1 {
			t.Errorf("the refused writes left %d events and %d rows, want none and 1", written, b.db.Rows())
		}
		if len(touched) != len(writes) || touched[0].Fault != "full" || touched[0].Process != "test" {
			t.Errorf("the evidence of %d refused writes is %+v", len(writes), touched)
		}
		b.db.SetFull("")
		if r := b.claim(w, key); !r.Applied {
			t.Errorf("a claim after the end gives %+v", r)
		}
	})
}

// A process without a connection can't make one, so even its reads are refused; a process with a connection
// continues. A process that is restarted during the fault has no connection, and gets one after its end.
func TestServerRefusesOnlyNewConnections(t *testing.T) {
	within(t, func(b *fixture) {
		var touched []simnet.Touched
		b.net.OnTouch(func(x simnet.Touched) { touched = append(touched, x) })
		reads := func(who string, connects bool) {
			t.Helper()
			rows, err := b.c.Workers(b.ctx, nil)
			switch {
			case connects && err != nil:
				t.Errorf("%s: %v", who, err)
			case !connects && (!errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) || rows != nil):
				t.Errorf("%s gives %v, %v; want ErrUnavailable", who, rows, err)
			}
		}
		old := b.c
		b.worker("w")
		b.db.SetNoConnections("crowd")
		reads("the pool from before", true)

		b.c = b.db.Client(b.p)
		reads("a pool that begins during the fault", false)
		if _, err := b.c.Create(b.ctx, []store.NewExecution{{ActionRef: "a"}}); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("its write gives %v, want ErrUnavailable", err)
		}
		if len(touched) != 2 || touched[0].Fault != "crowd" || touched[0].Process != "test" {
			t.Errorf("the evidence of two refusals is %+v", touched)
		}
		b.db.SetNoConnections("")
		reads("it, after the end", true)
		b.db.SetNoConnections("crowd")
		reads("it, when the fault comes again", true)

		b.db.Stop()
		b.db.Start()
		reads("it, after a restart of the server", false)
		b.c = old
		reads("another one, which made no call while the server was down", false)
		b.db.SetNoConnections("")
		reads("that one, after the end", true)
	})
}

// A call that gets no answer costs its connection, but a call that was never sent does not.
func TestLostAnswerClosesConnection(t *testing.T) {
	within(t, func(b *fixture) {
		b.worker("w")
		b.db.SetNoConnections("crowd")
		over, cancel := context.WithCancel(b.ctx)
		cancel()
		if _, err := b.c.Workers(over, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a call after its deadline gives %v", err)
		}
		if _, err := b.c.Workers(b.ctx, nil); err != nil {
			t.Errorf("after a call that was not sent: %v", err)
		}
		b.net.SetReset("test", Server, 1_000_000, "reset")
		if _, err := b.c.Workers(b.ctx, nil); !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("a call on a connection that is reset gives %v", err)
		}
		b.net.SetReset("test", Server, 0, "reset")
		if _, err := b.c.Workers(b.ctx, nil); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("after a reset: %v, want ErrUnavailable", err)
		}
	})
}

// A write that is rolled back was not applied, and about the configured share of the writes is rolled back.
func TestRolledBackWritesAreNotApplied(t *testing.T) {
	within(t, func(b *fixture) {
		b.must(b.c.PutActions(b.ctx, []execution.Action{{Ref: "a", Runtime: "shell"}}))
		b.db.SetRollback(300_000, "storm", "40001", "could not serialize access")
		created := 0
		for range 1000 {
			if _, err := b.c.Create(b.ctx, []store.NewExecution{{ActionRef: "a"}}); err == nil {
				created++
			} else if !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("a rolled back write gives %v, want ErrUnavailable", err)
			}
		}
		if created != b.db.Rows() || created < 600 || created > 800 {
			t.Errorf("%d of 1000 writes were reported as applied and %d were; want about 700", created, b.db.Rows())
		}
	})
}

// After a database refuses a statement itself, the call is repeated for each item: the accepted items are
// applied and answered, alongside the error about the others.
func TestRefusedBatchIsRepeatedPerItem(t *testing.T) {
	within(t, func(b *fixture) {
		b.must(b.c.PutActions(b.ctx, []execution.Action{{Ref: "a", Runtime: "shell"}}))
		b.db.SetRollback(500_000, "errors", "XX000", "internal error")
		beside := 0
		for range 100 {
			before := b.db.Rows()
			made, err := b.c.Create(b.ctx, []store.NewExecution{{ActionRef: "a"}, {ActionRef: "a"}, {ActionRef: "a"}})
			answered := 0
			for _, m := range made {
				if m.ID != 0 {
					answered++
				}
			}
			if applied := b.db.Rows() - before; len(made) != 3 || answered != applied || (err == nil) != (answered == 3) {
				t.Fatalf("%d rows were created, %d of %d answers have one, and the error is %v", applied, answered, len(made), err)
			}
			if err != nil && store.Retriable(err) {
				t.Fatalf("a refused statement gives %v, which is no passing fault", err)
			}
			if err != nil && answered > 0 {
				beside++
			}
		}
		if beside < 20 {
			t.Errorf("only %d of 100 calls were answered in part", beside)
		}
	})
}

// A transient error at one of the items ends the call: nothing was applied if no item was answered before it,
// otherwise the outcome is unknown.
func TestPassingFaultEndsPerItemCall(t *testing.T) {
	refused, away := error(statementError{"internal error (XX000)"}), fmt.Errorf("%w: gone", store.ErrUnavailable)
	for _, c := range []struct {
		name string
		errs []error
		want error
	}{
		{"before anything was answered", []error{refused, away}, store.ErrUnavailable},
		{"after a refusal", []error{refused, refused, away}, store.ErrUnavailable},
		{"after an answer", []error{refused, nil, away}, store.ErrUnknownOutcome},
		{"the lease is over before anything was answered", []error{refused, refused, store.ErrLeaseOver}, store.ErrLeaseOver},
		{"the lease is over after an answer", []error{refused, nil, store.ErrLeaseOver}, store.ErrUnknownOutcome},
		{"without an answer", []error{refused, fmt.Errorf("%w: late", store.ErrUnknownOutcome)}, store.ErrUnknownOutcome},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			results, err := orOneByOne([]int{1, 2, 3}, func(items []int) ([]int, error) {
				calls++
				return items, c.errs[calls-1]
			})
			if results != nil || !errors.Is(err, c.want) || calls != len(c.errs) {
				t.Errorf("%v and %v after %d calls, want nothing and %v after %d", results, err, calls, c.want, len(c.errs))
			}
		})
	}
}

// Each claim decides by the current clock which rows are due: a retry that was due before a step backwards
// must wait again.
func TestClockStepBackDelaysDueRows(t *testing.T) {
	within(t, func(b *fixture) {
		key := b.scheduled(b.worker("w"))
		_, err := b.c.Reclaim(b.ctx, []store.Reclaim{{
			Key: key, Cause: store.DeadLettered, By: execution.DeadLetterHandler, Policy: "reschedule", Delay: 10 * time.Second, MaxDispatches: 3,
		}})
		b.must(err)
		b.sleep(11 * time.Second)
		claim := store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Others: 10}
		// This claim may take nothing; the row only becomes due.
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
func (s sinkFunc) Observe(e *history.Event) { s(e) }

// An unreadable row is not claimed. Once readable again, it is claimed exactly once, whether or not a claim
// was tried meanwhile.
func TestHiddenRowIsClaimedOnce(t *testing.T) {
	for _, looked := range []bool{false, true} {
		within(t, func(b *fixture) {
			b.must(b.c.PutActions(b.ctx, []execution.Action{{Ref: "a", Runtime: "shell", Timeout: time.Minute}}))
			created, err := b.c.Create(b.ctx, []store.NewExecution{{ActionRef: "a"}, {ActionRef: "a"}})
			b.must(err)
			claim := func() (ids []execution.ID) {
				rows, err := b.c.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Minute, Demands: []store.Demand{{Runtime: "shell", Limit: 5, Pool: -1}}})
				b.must(err)
				for i := range rows {
					ids = append(ids, rows[i].ID)
				}
				return ids
			}
			hidden, show := b.db.HideRows("f", 1)
			if hidden != 1 {
				t.Errorf("%d rows are hidden, want 1", hidden)
			}
			if looked {
				if got := claim(); len(got) != 1 || got[0] != created[1].ID {
					t.Errorf("%v is claimed alongside the hidden row, want %v", got, created[1].ID)
				}
			}
			show()
			if got, want := len(claim())+len(claim()), map[bool]int{false: 2, true: 1}[looked]; got != want {
				t.Errorf("%d rows are claimed when all can be read, want %d", got, want)
			}
		})
	}
}
