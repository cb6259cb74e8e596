package daemon

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/executor"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// database holds one execution, and one worker that renews its lease and never claims. It implements the
// methods of store.Executor that can affect this row, with their guards, and finds nothing for other causes.
type database struct {
	host host.Host

	mu  sync.Mutex
	row execution.Execution
}

var silent = store.WorkerKey{ID: 1, Incarnation: 1}

func (d *database) read() execution.Execution {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.row
}

func (d *database) Executions(context.Context, []execution.ID) ([]execution.Execution, error) {
	return []execution.Execution{d.read()}, nil
}

func (d *database) Workers(context.Context, []store.WorkerRow) ([]store.WorkerRow, error) {
	return []store.WorkerRow{{
		WorkerKey: silent, Name: "silent", Lifecycle: execution.Active, Runtimes: []string{"shell"}, Capacity: 1, ConsumerAlive: true,
	}}, nil
}

func (d *database) ClaimForScheduling(_ context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.row.Status != execution.Requested {
		return nil, nil
	}
	d.row.Status, d.row.SchedulingBy = execution.Scheduling, c.Executor
	return []execution.Execution{d.row}, nil
}

func (d *database) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return store.DueDispatched{Others: true}, nil
}

func (d *database) Dispatch(_ context.Context, executor string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.row.Status != execution.Scheduling || d.row.Key() != ds[0].Key || d.row.SchedulingBy != executor {
		return []store.DispatchResult{{Outcome: store.Outcome{Row: d.row}}}, nil
	}
	d.row.Status, d.row.ScheduledAt = execution.Scheduled, d.host.Now()
	d.row.Worker, d.row.Incarnation = ds[0].Worker.ID, ds[0].Worker.Incarnation
	d.row.Epoch++
	return []store.DispatchResult{{Outcome: store.Outcome{Applied: true, Row: d.row}}}, nil
}

func (d *database) MarkPublished(_ context.Context, keys []execution.Key) ([]execution.Key, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.row.Key() == keys[0] && d.row.Status == execution.Scheduled {
		d.row.PublishedAt = d.host.Now()
	}
	return nil, nil
}

func (d *database) Find(_ context.Context, f store.Finding) ([]execution.Execution, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f.Cause == store.Unclaimed && d.unclaimed(f.Age) {
		return []execution.Execution{d.row}, nil
	}
	return nil, nil
}

func (d *database) unclaimed(age time.Duration) bool {
	return d.row.Status == execution.Scheduled && d.host.Now().Sub(d.row.ScheduledAt) >= age
}

func (d *database) Reclaim(_ context.Context, rs []store.Reclaim) ([]store.Outcome, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := rs[0]
	if d.row.Key() != r.Key || r.Cause != store.Unclaimed || !d.unclaimed(r.Age) || r.Policy != config.Fail {
		return []store.Outcome{{Row: d.row}}, nil
	}
	d.row.Status, d.row.FailureReason, d.row.Result, d.row.Ended = execution.Failed, r.Reason, r.Result, d.host.Now()
	d.row.Epoch++
	return []store.Outcome{{Applied: true, Row: d.row}}, nil
}

func (d *database) Orchestrate(context.Context, []store.Orchestration) ([]store.Orchestrated, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.row.OrchestratedAt = d.host.Now()
	return []store.Orchestrated{{Applied: true}}, nil
}

func (d *database) Park(_ context.Context, _ string, ps []store.Park) ([]store.Outcome, error) {
	return make([]store.Outcome, len(ps)), nil
}

func (d *database) Reap(_ context.Context, rs []store.Reap) ([]bool, error) {
	return make([]bool, len(rs)), nil
}

func (d *database) Clock(context.Context) (time.Time, error) { return d.host.Now(), nil }

func (d *database) FreeSlots(context.Context, int) ([]execution.ID, error) { return nil, nil }

func (d *database) SettleChildren(context.Context, []execution.ID, int) ([]store.Settled, error) {
	return nil, nil
}

func (d *database) ForgetKeys(context.Context, time.Duration, int) (int, error) { return 0, nil }

func (d *database) StoreDeadLetters(context.Context, ...store.DeadLetter) error { return nil }

func (d *database) PurgeDeadLetters(context.Context, time.Duration, int) (int, error) { return 0, nil }

func (d *database) ObserveReclaims(context.Context, []store.Reclaim) ([]store.Observed, error) {
	return nil, nil
}

func (d *database) ObserveWorkers(context.Context, []store.ProbedWorker) ([]bool, error) {
	return nil, nil
}

func (d *database) MarkQueuesDeleted(context.Context, []store.WorkerKey) ([]bool, error) {
	return nil, nil
}

func (d *database) PurgeObservations(context.Context, time.Duration, int) (int, error) { return 0, nil }

func (d *database) Purge(context.Context, store.Purge) (store.Purged, error) {
	return store.Purged{}, nil
}

func (d *database) Survey(context.Context) (store.Survey, error) { return store.Survey{}, nil }

// queues confirms messages and forwards the hints about completion. Its worker queues keep messages
// permanently, so that only the timeout monitor detects the stuck execution.
type queues struct {
	hints chan broker.Delivery

	mu         sync.Mutex
	dispatched int
}

func (q *queues) Connect(context.Context) (broker.Session, error) { return q, nil }
func (q *queues) Declare(context.Context, broker.Topology) error  { return nil }
func (q *queues) Limited() []string                               { return nil }
func (q *queues) DeleteIdle(context.Context, broker.Queue) (broker.QueueFate, error) {
	return broker.QueueInUse, nil
}

func (q *queues) QueueState(context.Context, string) (broker.QueueState, error) {
	return broker.QueueState{Exists: true, Consumers: 1}, nil
}
func (q *queues) Blocked() bool { return false }
func (q *queues) Closed() bool  { return false }
func (q *queues) Wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
func (q *queues) Close() {}
func (q *queues) Consume(_ context.Context, queue string, _ int) (broker.Consumer, error) {
	if queue == broker.QueueCompleted {
		return consumer{q.hints}, nil
	}
	return consumer{}, nil
}

func (q *queues) Publish(_ context.Context, ms []broker.Message) []broker.Outcome {
	outcomes := make([]broker.Outcome, len(ms))
	for i, m := range ms {
		outcomes[i] = broker.Confirmed
		switch m.Envelope.Type {
		case broker.ExecutionScheduled:
			q.mu.Lock()
			q.dispatched++
			q.mu.Unlock()
		case broker.ExecutionCompleted:
			q.hints <- broker.Delivery{Envelope: m.Envelope}
		}
	}
	return outcomes
}

type consumer struct{ deliveries chan broker.Delivery }

func (c consumer) Receive(ctx context.Context) (broker.Delivery, error) {
	select {
	case d := <-c.deliveries:
		return d, nil
	case <-ctx.Done():
		return broker.Delivery{}, ctx.Err()
	}
}
func (c consumer) Ack(broker.Delivery)          {}
func (c consumer) Reject(broker.Delivery, bool) {}
func (c consumer) Cancel(context.Context) error { return nil }

// neverPickedUp runs an executor with the `documented` profile and one execution, on a mock clock, and calls
// script. Then it stops the executor, which must leave no goroutine behind.
func neverPickedUp(t *testing.T, row execution.Execution, script func(m *clock.Mock, d *database, q *queues)) {
	synctest.Test(t, func(t *testing.T) {
		m := clock.NewMock()
		h := New(Options{Clock: m})
		row.Created = h.Now()
		if row.Status == execution.Scheduled {
			row.ScheduledAt, row.PublishedAt = h.Now(), h.Now()
		}
		d, q := &database{host: h, row: row}, &queues{hints: make(chan broker.Delivery, 10)}
		service := executor.New(executor.Options{
			Name: "executor", Host: h, Store: d, Broker: q, Config: config.Default(config.Documented),
			Log: slog.New(slog.DiscardHandler), Recorder: telemetry.Discard{},
		})
		ctx, stop := h.WithCancel(context.Background())
		running := h.Go("executor", func() { service.Run(ctx) })
		synctest.Wait()
		script(m, d, q)
		stop()
		if err := running.Wait(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func checkNotPickedUp(t *testing.T, row execution.Execution) {
	t.Helper()
	if row.Status != execution.Failed || row.FailureReason != execution.DispatchTimeout {
		t.Errorf("status %v, reason %v", row.Status, row.FailureReason)
	}
	if want := "Execution timeout: worker did not pick up task within timeout"; row.Result.Error != want {
		t.Errorf("error %q, want %q", row.Result.Error, want)
	}
	if row.Result.FailedBy != execution.TimeoutMonitor {
		t.Errorf("failed by %v", row.Result.FailedBy)
	}
	if row.OrchestratedAt != row.Ended {
		t.Errorf("ended at %v, handled at %v", row.Ended, row.OrchestratedAt)
	}
}

// TestExecutionTimeoutOnWorkerDown is the integration test from the source documents: an execution is
// scheduled to a worker that never picks it up. 310 seconds later, it has failed with a timeout.
func TestExecutionTimeoutOnWorkerDown(t *testing.T) {
	row := execution.Execution{
		ID: 7, Action: execution.Action{Ref: "core.echo", Runtime: "shell"}, Status: execution.Scheduled, Epoch: 1,
		Worker: silent.ID, Incarnation: silent.Incarnation,
	}
	neverPickedUp(t, row, func(m *clock.Mock, d *database, _ *queues) {
		m.Add(310 * time.Second)
		row := d.read()
		checkNotPickedUp(t, row)
		if after := row.Ended.Sub(row.ScheduledAt); after != 300*time.Second {
			t.Errorf("it failed %v after it was scheduled", after)
		}
	})
}

// Here the executor itself hands off the execution. The monitor checks once a minute from its own start, so
// the row fails at the first check after the 300 seconds.
func TestNeverPickedUpAfterRequest(t *testing.T) {
	row := execution.Execution{ID: 7, Action: execution.Action{Ref: "core.echo", Runtime: "shell"}, Status: execution.Requested}
	neverPickedUp(t, row, func(m *clock.Mock, d *database, q *queues) {
		for d.read().PublishedAt.IsZero() && m.Now().Unix() < 60 {
			m.Add(time.Second)
		}
		scheduled := d.read().ScheduledAt
		m.Add(scheduled.Add(300*time.Second - 1).Sub(m.Now()))
		if row := d.read(); row.Status != execution.Scheduled {
			t.Fatalf("%v before its time", row.Status)
		}
		m.Add(61 * time.Second)
		row := d.read()
		checkNotPickedUp(t, row)
		if after := row.Ended.Sub(scheduled); after < 300*time.Second || after > 360*time.Second {
			t.Errorf("it failed %v after it was scheduled", after)
		}
		if q.dispatched != 1 {
			t.Errorf("dispatched %d times", q.dispatched)
		}
	})
}
