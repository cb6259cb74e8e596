package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host/daemon"
	"handoff/core/store"
)

// gathering returns the results of a worker whose lease was renewed at 0, on a stopped clock.
func gathering() (*results, *clock.Mock) {
	at := clock.NewMock()
	h := daemon.New(daemon.Options{Clock: at})
	return &results{host: h, lease: newLease(h, config.Default(config.Hardened).Worker, h.Monotonic())}, at
}

// put adds a result with an output of the given size, and describes what happens to it.
func (r *results) put(bytes int) (*resultBatch, string) {
	one := new(result)
	one.Result.Output = make([]byte, bytes)
	b, wait := r.addResult(one)
	if b == nil {
		return nil, "joins"
	}
	return b, fmt.Sprintf("leads %d, waits %v", len(b.all), wait)
}

func wantResult(t *testing.T, r *results, want string) *resultBatch {
	t.Helper()
	b, got := r.put(10)
	if got != want {
		t.Errorf("a result %s; want that it %s", got, want)
	}
	return b
}

// A result is written at once, unless others are being written or were written together within the last
// window.
func TestIdleWorkerWritesResultAtOnce(t *testing.T) {
	r, _ := gathering()
	wantResult(t, r, "leads 1, waits 0s")
	b := wantResult(t, r, "leads 1, waits 2ms")
	wantResult(t, r, "joins")
	r.closeBatch(b)
	wantResult(t, r, "leads 1, waits 2ms")
	r, at := gathering()
	wantResult(t, r, "leads 1, waits 0s")
	r.noteWritten(1)
	wantResult(t, r, "leads 1, waits 0s")
	r.noteWritten(2)
	b = wantResult(t, r, "leads 1, waits 2ms")
	r.closeBatch(b)
	r.noteWritten(1)
	at.Add(config.ResultWindow)
	wantResult(t, r, "leads 1, waits 0s")
}

// A batch is written when it is full, in rows or in bytes; then the next batch begins.
func TestFullBatchIsWritten(t *testing.T) {
	for _, size := range []struct{ bytes, most int }{{10, mostRows}, {mostResultBytes / 4, 4}, {2 * mostResultBytes, 1}} {
		r, _ := gathering()
		wantResult(t, r, "leads 1, waits 0s")
		b, _ := r.put(size.bytes)
		for range size.most - 1 {
			if r.gathering != b {
				t.Fatalf("of %d bytes: the batch left with %d", size.bytes, len(b.all))
			}
			r.put(size.bytes)
		}
		if r.gathering != nil || len(b.all) != size.most {
			t.Errorf("of %d bytes: %d results, want %d and that they leave", size.bytes, len(b.all), size.most)
		}
		if size.most > 1 {
			if set, _ := b.leaves.Wait(t.Context(), 0); !set {
				t.Errorf("of %d bytes: nobody wakes the task that writes them", size.bytes)
			}
		}
		wantResult(t, r, "leads 1, waits 2ms")
	}
}

// No result waits beyond the fence: the first result that would is written at once, with the waiting batch.
func TestNoResultWaitsPastFence(t *testing.T) {
	r, at := gathering()
	fence, _ := r.lease.fenceDeadlines()
	at.Add(fence - config.ResultWindow - time.Nanosecond)
	wantResult(t, r, "leads 1, waits 0s")
	b := wantResult(t, r, "leads 1, waits 2ms")
	at.Add(time.Nanosecond)
	wantResult(t, r, "joins")
	if r.gathering != nil || len(b.all) != 2 {
		t.Errorf("%d results gather on", len(b.all))
	}
	wantResult(t, r, "leads 1, waits 0s")
	at.Add(time.Minute)
	wantResult(t, r, "leads 1, waits 0s")
}

// resultStore is a database that answers when the test lets it, and records which results came together.
type resultStore struct {
	store.Worker
	let     chan struct{}
	refuses func(fs []store.Finish) error
	stale   execution.ID

	mu   sync.Mutex
	came []int
	kept []execution.ID
}

// Finish implements store.Worker.
func (r *resultStore) Finish(_ context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	r.mu.Lock()
	r.came = append(r.came, len(fs))
	r.mu.Unlock()
	r.let <- struct{}{}
	if r.refuses != nil {
		if err := r.refuses(fs); err != nil {
			return nil, err
		}
	}
	outcomes := make([]store.Outcome, len(fs))
	for i, f := range fs {
		outcomes[i] = store.Outcome{Applied: f.Key.ID != r.stale, From: execution.Running, Row: execution.Execution{ID: f.Key.ID, Epoch: 1, Incarnation: w.Incarnation, Status: f.To}}
	}
	return outcomes, nil
}

// KeepRefusedResult implements store.Worker.
func (r *resultStore) KeepRefusedResult(_ context.Context, _ store.WorkerKey, f store.Finish) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, f.Key.ID)
	return nil
}

// ends ends runs 1 to n while the first one's result is being written, and waits until all slots are free.
func (r *resultStore) ends(t *testing.T, n int) *session {
	t.Helper()
	w := finishing(nil)
	w.store, w.held.capacity = r, n
	w.lease = newLease(w.host, w.config.Worker, w.host.Monotonic())
	w.results.lease = w.lease
	r.let = make(chan struct{})
	var held []*entry
	for id := range n {
		held = append(held, w.held.addEntry(execution.Key{ID: execution.ID(id + 1), Epoch: 1}))
	}
	for i, e := range held {
		w.host.Go("execution", func() { w.finishRun(e, store.Finish{Key: e.key, To: execution.Completed}, 0) })
		if i == 0 {
			// The other results come while the first one is being written.
			<-r.let
		}
	}
	w.host.Go("database", func() {
		for range r.let {
		}
	})
	defer close(r.let)
	if !w.awaitRegistry(time.Minute, func(held, _ int) bool { return held == 0 }) {
		t.Fatal("slots are still taken")
	}
	return w
}

func TestRefusedResultDoesNotAffectOthers(t *testing.T) {
	s := new(resultStore)
	s.refuses = func(fs []store.Finish) error {
		for i := range fs {
			if fs[i].Key.ID == 3 && fs[i].Result.Message == "" {
				return errors.New("value too long (54000)")
			}
		}
		return nil
	}
	s.ends(t, 5)
	if len(s.kept) != 0 {
		t.Errorf("kept %v as refused", s.kept)
	}
}

// After a call that was refused although each of its results was answered, no result is retried.
func TestFullyAnsweredRefusalNeedsOneResultStatement(t *testing.T) {
	w := finishing(nil)
	s := &resultStore{let: make(chan struct{}, 10), stale: 2}
	w.store, w.held.capacity = &replyingStore{s}, 2
	var all []*result
	for id := range execution.ID(2) {
		key := execution.Key{ID: id + 1, Epoch: 1}
		all = append(all, &result{Finish: store.Finish{Key: key, To: execution.Completed}, e: w.held.addEntry(key)})
	}
	refused := w.writeResults(all)
	if len(refused) != 1 || refused[0].Key.ID != 2 || fmt.Sprint(s.came) != "[2]" {
		t.Errorf("%d are refused, and the statements had %d results; want that 2 is, and one statement of both", len(refused), s.came)
	}
	if held, _ := w.held.countHeld(); held != 1 {
		t.Errorf("%d slots are taken, want that of the refused one until it is kept", held)
	}
}

// replyingStore is a database that refuses calls but answers each of their results.
type replyingStore struct{ *resultStore }

// Finish implements store.Worker.
func (r *replyingStore) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	outcomes, _ := r.resultStore.Finish(ctx, w, fs)
	return outcomes, errors.New("internal error (XX000)")
}

// When the process ends, the pause after an error is skipped, so the worker must not retry either.
func TestSeparateResultsAreAbandonedAtProcessEnd(t *testing.T) {
	closing, closed := context.WithCancel(context.Background())
	w := finishing(nil)
	w.closing = closing
	s := &resultStore{let: make(chan struct{}, 10), refuses: func([]store.Finish) error {
		closed()
		return errors.New("internal error (XX000)")
	}}
	w.store, w.held.capacity = s, 3
	var all []*result
	for id := range execution.ID(3) {
		key := execution.Key{ID: id + 1, Epoch: 1}
		all = append(all, &result{Finish: store.Finish{Key: key, To: execution.Completed}, e: w.held.addEntry(key)})
	}
	w.writeResults(all)
	if !w.awaitRegistry(time.Minute, func(held, _ int) bool { return held == 0 }) {
		t.Error("slots are still taken")
	}
	if got := fmt.Sprint(s.came); got != "[3]" {
		t.Errorf("the statements had %s results, want [3]", got)
	}
}

func TestLostExecutionResultDoesNotAffectOthers(t *testing.T) {
	s := &resultStore{stale: 3}
	w := s.ends(t, 5)
	if fmt.Sprint(s.kept) != "[3]" {
		t.Errorf("kept %v, want 3 alone", s.kept)
	}
	if total := w.record.sumFigures().Total; total != 4 {
		t.Errorf("%d runs count, want 4", total)
	}
}
