package simstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/sim/kernel"
	"handoff/sim/simhost"
	"handoff/sim/simnet"
)

// fixture is one database and one client on a network without delay, so that times are exact.
type fixture struct {
	t    *testing.T
	k    *kernel.Kernel
	net  *simnet.Network
	db   *Database
	c    *Client
	p    *kernel.Process
	h    *simhost.Host
	ctx  context.Context
	seen history.Tee
}

// within runs a test's body as a task of a process; a body that hangs fails the test.
func within(t *testing.T, body func(b *fixture)) {
	t.Helper()
	k := kernel.New(kernel.Options{Chooser: kernel.NewRandom(1), MaxSteps: 1_000_000})
	defer k.Close()
	net := simnet.New(k)
	net.SetLatency(0, 0)
	b := &fixture{t: t, k: k, net: net, ctx: context.Background()}
	b.db = New(k, net, &b.seen)
	p := k.NewProcess("test")
	b.p, b.c, b.h = p, b.db.Client(p), simhost.New(k, p)
	done := false
	p.Go("test", func() {
		body(b)
		done = true
	})
	k.Run(func() bool { return done }, 100*time.Hour)
	if f := k.Failure(); f != nil {
		t.Fatalf("%v\n%s", f, f.Stack)
	}
	if !done {
		t.Fatal("the test did not finish")
	}
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) sleep(d time.Duration) { f.must(f.h.Sleep(f.ctx, d)) }

const lease = 90 * time.Second

// worker registers an active worker that consumes its queue.
func (f *fixture) worker(name string) store.WorkerKey {
	f.t.Helper()
	r, err := f.c.Register(f.ctx, store.Registration{Process: 7, Attempt: uint64(f.k.Now()) + 1, Name: name, Runtimes: []string{"shell"}, Capacity: 10, Lease: lease})
	f.must(err)
	_, err = f.c.Heartbeat(f.ctx, store.Beat{WorkerKey: r.WorkerKey, Number: 1, Lease: lease, ConsumerAlive: true})
	f.must(err)
	f.must(f.c.SetLifecycle(f.ctx, r.WorkerKey, execution.Active))
	return r.WorkerKey
}

// scheduled creates an execution and dispatches it, with a dispatch deadline of 20 s.
func (f *fixture) scheduled(w store.WorkerKey) execution.Key {
	f.t.Helper()
	f.must(f.c.PutActions(f.ctx, []execution.Action{{Ref: "a", Runtime: "shell", Timeout: 10 * time.Second, MaxRetries: 1}}))
	created, err := f.c.Create(f.ctx, []store.NewExecution{{ActionRef: "a"}})
	f.must(err)
	rows, err := f.c.ClaimForScheduling(f.ctx, store.SchedulingClaim{Executor: "e", Expiry: 15 * time.Second, Demands: []store.Demand{{Runtime: "shell", Limit: 1}}})
	f.must(err)
	if len(rows) != 1 || rows[0].ID != created[0].ID {
		f.t.Fatalf("claimed %v for scheduling, created %v", rows, created)
	}
	results, err := f.c.Dispatch(f.ctx, "e", []store.Dispatch{{Key: rows[0].Key(), Worker: w, Timeout: 20 * time.Second}})
	f.must(err)
	if !results[0].Applied {
		f.t.Fatalf("the dispatch was refused: %+v", results[0])
	}
	return results[0].Row.Key()
}

func (f *fixture) claim(w store.WorkerKey, key execution.Key) store.ClaimResult {
	f.t.Helper()
	results, err := f.c.Claim(f.ctx, w, []store.Claim{{Key: key, Beat: 1}})
	f.must(err)
	return results[0]
}

// A worker's lease is valid up to and including its end (defect D34; the cases and the 90 s lease are from
// the source document).
func TestLeaseBoundary(t *testing.T) {
	for _, c := range []struct {
		age   time.Duration
		fresh bool
	}{
		{5 * time.Second, true},
		{30 * time.Second, true},
		{90 * time.Second, true},
		{90*time.Second + time.Microsecond, false},
		{100 * time.Second, false},
	} {
		within(t, func(b *fixture) {
			w := b.worker("w")
			b.sleep(c.age)
			rows, err := b.c.Workers(b.ctx, nil)
			b.must(err)
			if rows[0].LeaseValid() != c.fresh {
				t.Errorf("a heartbeat that is %v old is fresh: %v", c.age, rows[0].LeaseValid())
			}
			reaped, err := b.c.Reap(b.ctx, []store.Reap{{WorkerKey: w, Beat: 1}})
			b.must(err)
			if reaped[0] == c.fresh {
				t.Errorf("a worker whose heartbeat is %v old is marked lost: %v", c.age, reaped[0])
			}
		})
	}
}

// A claim is refused from the dispatch deadline on, even exactly at the deadline.
func TestClaimIsRefusedAtDeadline(t *testing.T) {
	for age, claimed := range map[time.Duration]bool{
		20*time.Second - time.Microsecond: true, 20 * time.Second: false, 21 * time.Second: false,
	} {
		within(t, func(b *fixture) {
			w := b.worker("w")
			key := b.scheduled(w)
			b.sleep(age)
			r := b.claim(w, key)
			if r.Applied != claimed || r.DeadlinePassed == claimed {
				t.Errorf("a claim %v after the dispatch: applied %v, deadline passed %v", age, r.Applied, r.DeadlinePassed)
			}
		})
	}
}

func TestGuards(t *testing.T) {
	t.Run("a second claim of an epoch is refused", func(t *testing.T) {
		within(t, func(b *fixture) {
			w := b.worker("w")
			key := b.scheduled(w)
			if !b.claim(w, key).Applied {
				t.Error("the first claim was refused")
			}
			second := b.claim(w, key)
			if second.Applied || second.Row.Status != execution.Running || second.Row.Incarnation != w.Incarnation {
				t.Errorf("the second claim: %+v", second)
			}
		})
	})
	t.Run("a claim by another incarnation is refused", func(t *testing.T) {
		within(t, func(b *fixture) {
			key := b.scheduled(b.worker("w"))
			if b.claim(b.worker("v"), key).Applied {
				t.Error("an execution was claimed by a worker that it was not dispatched to")
			}
		})
	})
	t.Run("a superseded incarnation can do nothing", func(t *testing.T) {
		within(t, func(b *fixture) {
			old := b.worker("w")
			key := b.scheduled(old)
			r, err := b.c.Register(b.ctx, store.Registration{Process: 8, Attempt: 1, After: old.Incarnation, Name: "w", Runtimes: []string{"shell"}, Capacity: 1, Lease: lease})
			b.must(err)
			if r.ID != old.ID || r.Incarnation <= old.Incarnation {
				t.Errorf("registered %v after %v", r, old)
			}
			if _, err := b.c.Heartbeat(b.ctx, store.Beat{WorkerKey: old, Number: 2, Lease: lease}); !errors.Is(err, store.ErrSuperseded) {
				t.Errorf("the old incarnation's heartbeat: %v", err)
			}
			if _, err := b.c.Claim(b.ctx, old, []store.Claim{{Key: key}}); !errors.Is(err, store.ErrSuperseded) {
				t.Errorf("the old incarnation's claim: %v", err)
			}
		})
	})
	t.Run("a result at an old epoch is refused", func(t *testing.T) {
		within(t, func(b *fixture) {
			w := b.worker("w")
			key := b.scheduled(w)
			b.claim(w, key)
			old := execution.Key{ID: key.ID, Epoch: key.Epoch - 1}
			out, err := b.c.Finish(b.ctx, w, []store.Finish{{Key: old, To: execution.Completed}})
			b.must(err)
			if out[0].Applied || out[0].Row.Status != execution.Running {
				t.Errorf("a result of epoch %d: %+v", old.Epoch, out[0])
			}
		})
	})
	t.Run("a dispatch needs a live, active, consuming worker", func(t *testing.T) {
		within(t, func(b *fixture) {
			b.worker("w")
			b.must(b.c.PutActions(b.ctx, []execution.Action{{Ref: "a", Runtime: "shell"}}))
			_, err := b.c.Create(b.ctx, []store.NewExecution{{ActionRef: "a"}})
			b.must(err)
			rows, err := b.c.ClaimForScheduling(b.ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Hour, Others: 1})
			b.must(err)
			deaf, err := b.c.Register(b.ctx, store.Registration{Process: 9, Attempt: 1, Name: "deaf", Runtimes: []string{"shell"}, Capacity: 1, Lease: lease})
			b.must(err)
			b.must(b.c.SetLifecycle(b.ctx, deaf.WorkerKey, execution.Active))
			got, err := b.c.Dispatch(b.ctx, "e", []store.Dispatch{{Key: rows[0].Key(), Worker: deaf.WorkerKey, Timeout: time.Minute}})
			b.must(err)
			if got[0].Applied || !got[0].WorkerUnfit {
				t.Errorf("a dispatch to a worker that does not consume: %+v", got[0])
			}
		})
	})
}

// A reclaim is refused before its age; it raises the epoch, records the worker to avoid, and takes effect
// only once.
func TestReclaimUnclaimed(t *testing.T) {
	within(t, func(b *fixture) {
		w := b.worker("w")
		key := b.scheduled(w)
		reclaim := store.Reclaim{
			Key: key, Cause: store.Unclaimed, Age: 30 * time.Second, By: execution.TimeoutMonitor, Reason: execution.DispatchTimeout,
			Policy: config.Reschedule, MaxDispatches: 2, Counts: true, Delay: time.Second,
		}
		b.sleep(30*time.Second - time.Microsecond)
		out, err := b.c.Reclaim(b.ctx, []store.Reclaim{reclaim})
		b.must(err)
		if out[0].Applied {
			t.Error("reclaimed a microsecond before its age")
		}
		b.sleep(time.Microsecond)
		out, err = b.c.Reclaim(b.ctx, []store.Reclaim{reclaim})
		b.must(err)
		row := out[0].Row
		if !out[0].Applied || row.Status != execution.Requested || row.Epoch != key.Epoch+1 || row.Avoid != w.ID || row.Dispatches != 1 || row.Worker != 0 {
			t.Errorf("reclaimed: %+v", row)
		}
		if out, err = b.c.Reclaim(b.ctx, []store.Reclaim{reclaim}); err != nil || out[0].Applied {
			t.Errorf("reclaimed a second time: %+v, %v", out, err)
		}
	})
}

// The terminal handling of a row is committed only once, however often it is requested.
func TestOrchestrateOnce(t *testing.T) {
	within(t, func(b *fixture) {
		w := b.worker("w")
		key := b.scheduled(w)
		b.claim(w, key)
		_, err := b.c.Finish(b.ctx, w, []store.Finish{{Key: key, To: execution.Failed, Reason: execution.Connection}})
		b.must(err)
		retry := []store.Orchestration{{ID: key.ID, Retry: &store.Retry{Count: 1, Reason: execution.Connection, Delay: time.Second}}}
		first, err := b.c.Orchestrate(b.ctx, retry)
		b.must(err)
		second, err := b.c.Orchestrate(b.ctx, retry)
		b.must(err)
		if !first[0].Applied || first[0].Retry == 0 || second[0].Applied {
			t.Errorf("handled %+v, then %+v", first[0], second[0])
		}
		row, _ := b.db.Execution(first[0].Retry)
		if row.Original != key.ID || row.RetryCount != 1 || row.Avoid != w.ID {
			t.Errorf("the retry: %+v", row)
		}
	})
}

// A heartbeat ends executions that were claimed before it and are not held, and nothing else.
func TestHeartbeatEndsUnheldExecutions(t *testing.T) {
	within(t, func(b *fixture) {
		w := b.worker("w")
		before, after := b.scheduled(w), b.scheduled(w)
		b.claim(w, before)
		if _, err := b.c.Claim(b.ctx, w, []store.Claim{{Key: after, Beat: 2}}); err != nil {
			t.Fatal(err)
		}
		_, err := b.c.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 2, Lease: lease, ConsumerAlive: true})
		b.must(err)
		rows, err := b.c.Executions(b.ctx, []execution.ID{before.ID, after.ID})
		b.must(err)
		if rows[0].Status != execution.Failed || rows[0].FailureReason != execution.WorkerLost {
			t.Errorf("claimed before the beat and not held: %v %v", rows[0].Status, rows[0].FailureReason)
		}
		if rows[1].Status != execution.Running {
			t.Errorf("claimed after the beat's snapshot: %v", rows[1].Status)
		}
	})
}

// An earlier registration attempt that the network delayed does not supersede the later attempt of the same
// process.
func TestLateRegistrationHasNoEffect(t *testing.T) {
	within(t, func(b *fixture) {
		g := store.Registration{Process: 5, Attempt: 2, Name: "w", Runtimes: []string{"shell"}, Capacity: 1, Lease: lease}
		now, err := b.c.Register(b.ctx, g)
		b.must(err)
		g.Attempt = 1
		if late, err := b.c.Register(b.ctx, g); !errors.Is(err, store.ErrLost) {
			t.Errorf("the older attempt came later and got %v, %v", late, err)
		}
		if _, err := b.c.Heartbeat(b.ctx, store.Beat{WorkerKey: now.WorkerKey, Number: 1, Lease: lease}); err != nil {
			t.Errorf("the newer incarnation is gone: %v", err)
		}
	})
}

// The error of a call shows whether the call may have been applied.
func TestNetworkErrorsShowWhetherCallApplied(t *testing.T) {
	within(t, func(b *fixture) {
		b.db.Stop()
		if _, err := b.c.Workers(b.ctx, nil); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a database that is down: %v", err)
		}
		b.db.Start()
		_, err := b.c.Workers(b.ctx, nil) // this call makes the connection
		b.must(err)
		b.net.Cut(Server, "test", "cut")
		ctx, cancel := b.h.WithTimeout(b.ctx, time.Second)
		defer cancel()
		err = b.c.PutActions(ctx, []execution.Action{{Ref: "lost reply"}})
		if !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("a reply that was lost: %v", err)
		}
		if _, applied := b.db.actions["lost reply"]; !applied {
			t.Error("the step whose reply was lost was not applied")
		}
	})
}
