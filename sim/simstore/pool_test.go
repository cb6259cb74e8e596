package simstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/sim/simnet"
)

// fillPool gives the client a pool of n connections, all open and idle.
func (f *fixture) fillPool(n int, d config.Database) {
	f.t.Helper()
	d.Connections = n
	f.c.Configure(d)
	ready := f.h.NewSignal()
	f.net.SetLatency(time.Millisecond, time.Millisecond)
	left := n
	for range n {
		f.p.Go("filler", func() {
			if _, err := f.c.Workers(f.ctx, nil); err != nil {
				f.t.Errorf("filling the pool: %v", err)
			}
			if left--; left == 0 {
				ready.Set()
			}
		})
	}
	if _, err := ready.Wait(f.ctx, time.Minute); err != nil || len(f.c.work.idle) != n || f.c.work.taken != 0 {
		f.t.Fatalf("the pool has %d connections and %d in use, want %d: %v", len(f.c.work.idle), f.c.work.taken, n, err)
	}
}

// A call over a pool whose connections are silent is answered within the time limit of a ping, over a new
// connection. Without a ping it loses its whole time on each connection.
func TestSilentPoolIsDiscarded(t *testing.T) {
	for _, ping := range []time.Duration{500 * time.Millisecond, 0} {
		within(t, func(b *fixture) {
			var touched []simnet.Touched
			b.net.OnTouch(func(x simnet.Touched) { touched = append(touched, x) })
			b.fillPool(16, config.Database{PingTimeout: ping})
			b.sleep(2 * time.Second)
			b.net.Silence("test", Server, "silence")
			b.net.Silence(Server, "test", "silence")
			calls, began := 0, b.k.Now()
			for {
				calls++
				ctx, cancel := b.h.WithTimeout(b.ctx, time.Second)
				_, err := b.c.Workers(ctx, nil)
				cancel()
				if err == nil {
					break
				}
			}
			if took := b.k.Now() - began; ping > 0 && (calls != 1 || took > ping+50*time.Millisecond) {
				t.Errorf("with a ping of %v: %d calls and %v until one was answered", ping, calls, took)
			} else if ping == 0 && calls != 17 {
				t.Errorf("with a ping without a time limit: %d calls until one was answered, want 17", calls)
			}
			if len(touched) == 0 || touched[0].Fault != "silence" || touched[0].Process != "test" {
				t.Errorf("the evidence is %+v", touched)
			}
		})
	}
}

// A slow path is not mistaken for a silent path: the answer comes before a new connection is made.
func TestSlowPoolIsKept(t *testing.T) {
	within(t, func(b *fixture) {
		b.fillPool(4, config.Default(config.Hardened).Database)
		b.sleep(2 * time.Second)
		b.net.SetSlow("test", Server, time.Second, time.Second, "slow")
		began := b.k.Now()
		_, err := b.c.Workers(b.ctx, nil)
		b.must(err)
		if took := b.k.Now() - began; took < 2*time.Second || took > 2*time.Second+50*time.Millisecond {
			t.Errorf("a ping and a statement took %v, want 2 s", took)
		}
		if len(b.c.work.idle) != 4 {
			t.Errorf("%d connections are left of 4", len(b.c.work.idle))
		}
	})
}

// A request over a silent connection is not applied; when the silence ends, its caller learns that the
// connection is broken.
func TestSilentConnectionBreaksAfterSilence(t *testing.T) {
	within(t, func(b *fixture) {
		b.fillPool(1, config.Database{})
		b.net.Silence("test", Server, "silence")
		b.k.After(time.Minute, func() { b.net.EndSilence("test", Server, "silence") })
		began := b.k.Now()
		err := b.c.PutActions(b.ctx, []execution.Action{{Ref: "lost"}})
		if !errors.Is(err, store.ErrUnknownOutcome) || b.k.Now()-began < time.Minute {
			t.Errorf("after %v: %v", b.k.Now()-began, err)
		}
		if _, applied := b.db.actions["lost"]; applied {
			t.Error("a request over the silent connection was applied")
		}
		b.must(b.c.PutActions(b.ctx, []execution.Action{{Ref: "kept"}}))
	})
}

// A pool with one connection handles one call at a time, and a call that gives up waiting has applied
// nothing.
func TestExhaustedPoolMakesCallsWait(t *testing.T) {
	within(t, func(b *fixture) {
		b.fillPool(1, config.Database{})
		b.net.SetSlow("test", Server, time.Second, time.Second, "slow")
		done := b.h.NewSignal()
		b.p.Go("first", func() {
			b.must(b.c.PutActions(b.ctx, []execution.Action{{Ref: "first"}}))
			done.Set()
		})
		b.sleep(10 * time.Millisecond)
		ctx, cancel := b.h.WithTimeout(b.ctx, 100*time.Millisecond)
		defer cancel()
		err := b.c.PutActions(ctx, []execution.Action{{Ref: "impatient"}})
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a call that got no connection gives %v", err)
		}
		began := b.k.Now()
		b.must(b.c.PutActions(b.ctx, []execution.Action{{Ref: "patient"}}))
		if waited := b.k.Now() - began; waited < 1500*time.Millisecond {
			t.Errorf("a call during another one took %v: it had a connection beyond the limit", waited)
		}
		if _, err := done.Wait(b.ctx, 0); err != nil {
			t.Error(err)
		}
		if _, applied := b.db.actions["impatient"]; applied {
			t.Error("a call that got no connection was applied")
		}
	})
}

// After a hang, a database applies all requests that have arrived, even abandoned requests.
func TestHungDatabaseAppliesRequestsAfterwards(t *testing.T) {
	within(t, func(b *fixture) {
		b.fillPool(1, config.Default(config.Hardened).Database)
		b.db.SetHang("hang")
		ctx, cancel := b.h.WithTimeout(b.ctx, time.Second)
		defer cancel()
		if err := b.c.PutActions(ctx, []execution.Action{{Ref: "late"}}); !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("a call without an answer gives %v", err)
		}
		if _, applied := b.db.actions["late"]; applied {
			t.Error("a database that hangs has applied something")
		}
		ctx, cancel = b.h.WithTimeout(b.ctx, time.Second)
		defer cancel()
		if _, err := b.c.Workers(ctx, nil); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a call without a connection gives %v: none can be made", err)
		}
		b.db.SetHang("")
		if _, applied := b.db.actions["late"]; !applied {
			t.Error("an arrived request was not applied at the end")
		}
		_, err := b.c.Workers(b.ctx, nil)
		b.must(err)
	})
}

// Calls reuse the memory of answered calls. A call that its caller gave up may still be applied: it then uses
// its own arguments, and does not write to memory that another call uses by now.
func TestLateCallKeepsItsMemory(t *testing.T) {
	within(t, func(b *fixture) {
		first, second := b.worker("first"), b.worker("second")
		b.must(b.c.PutActions(b.ctx, []execution.Action{{Ref: "a", Runtime: "shell"}}))
		created, err := b.c.Create(b.ctx, []store.NewExecution{{ActionRef: "a"}})
		b.must(err)
		read, err := b.c.Workers(b.ctx, nil)
		b.must(err)
		// giveUp makes calls, one after the other, to a database that hangs until they are over.
		giveUp := func(calls ...func(ctx context.Context) error) {
			t.Helper()
			b.fillPool(1, config.Default(config.Hardened).Database)
			b.db.SetHang("hang")
			for i, call := range calls {
				ctx, cancel := b.h.WithTimeout(b.ctx, time.Second)
				// Only the first call is sent, over the only connection.
				if err := call(ctx); err == nil || i == 0 && !errors.Is(err, store.ErrUnknownOutcome) {
					t.Errorf("call %d to a database that hangs gives %v", i+1, err)
				}
				cancel()
			}
			b.db.SetHang("")
		}
		dispatch := func(w store.WorkerKey) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				free := []store.Place{{Worker: w}}
				_, err := b.c.DispatchDue(ctx, store.DueDispatch{
					Executor: "e", Expiry: time.Second, Timeout: time.Minute, Offers: []store.Offer{{Runtimes: []string{"shell"}, Spread: free, Packed: free}},
				})
				return err
			}
		}
		giveUp(dispatch(first), dispatch(second))
		if row, _ := b.db.Execution(created[0].ID); row.Worker != first.ID {
			t.Errorf("the execution is at worker %d, and the call that was applied offered a place at worker %d", row.Worker, first.ID)
		}
		giveUp(func(ctx context.Context) error {
			_, err := b.c.Workers(ctx, read)
			read[0].Name = "in use for something else"
			return err
		})
		if read[0].Name != "in use for something else" {
			t.Error("an abandoned read has written into the memory of its caller")
		}
	})
}
