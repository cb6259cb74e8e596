package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"handoff/core/store"
	"handoff/core/testenv"
)

// gate has a run function whose batches block until the test releases them.
type gate struct {
	mu      sync.Mutex
	batches [][]int
	entered chan []int
	let     chan struct{}
}

func newGate() *gate { return &gate{entered: make(chan []int, 100), let: make(chan struct{})} }

// run returns the double of each item, and an error for 13.
func (g *gate) run(_ context.Context, items []int) ([]int, []error) {
	g.mu.Lock()
	g.batches = append(g.batches, slices.Clone(items))
	g.mu.Unlock()
	g.entered <- items
	<-g.let
	results, errs := make([]int, len(items)), make([]error, len(items))
	for i, n := range items {
		results[i] = 2 * n
		if n == 13 {
			errs[i] = errors.New("unlucky")
		}
	}
	return results, errs
}

func (b *batcher[Q, R]) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rows
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 5000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%s did not happen", what)
}

// A single call is sent at once. Calls made meanwhile are sent together when it has returned. Each gets its
// own answer or error.
func TestBatcherCombinesCallsWhileBusy(t *testing.T) {
	g := newGate()
	b := newBatcher(Options{BatchRows: 100, BatchWait: time.Millisecond, BatchPatience: time.Hour}, g.run)
	var wg sync.WaitGroup
	call := func(items ...int) {
		wg.Go(func() {
			results, err := b.submitItems(t.Context(), "doubling", items)
			if bad := slices.Contains(items, 13); (err != nil) != bad {
				t.Errorf("%v: %v", items, err)
			}
			for i, n := range items {
				if results[i] != 2*n {
					t.Errorf("%v became %v", items, results)
				}
			}
		})
	}
	call(1)
	<-g.entered
	for n := range 9 {
		call(10+n, 20+n)
	}
	until(t, "a queue of 18", func() bool { return b.waiting() == 18 })
	close(g.let)
	wg.Wait()
	if len(g.batches) != 2 || len(g.batches[1]) != 18 {
		t.Errorf("batches: %v", g.batches)
	}
}

// A batch that is full, or has waited for BatchPatience, is sent although another is under way. A call larger
// than a batch is sent as a batch of its own.
func TestFullOrPatientBatchesAreSentConcurrently(t *testing.T) {
	for name, o := range map[string]Options{
		"when full":               {BatchRows: 3, BatchPatience: time.Hour},
		"when it has waited long": {BatchRows: 100, BatchPatience: time.Millisecond},
	} {
		g := newGate()
		b := newBatcher(o, g.run)
		var wg sync.WaitGroup
		for n := range 4 {
			wg.Go(func() { _, _ = b.submitItems(t.Context(), "doubling", []int{n}) })
			if n == 0 {
				<-g.entered
			}
		}
		select {
		case <-g.entered:
		case <-time.After(testenv.Patience()):
			t.Errorf("%s: no second batch while the first is under way", name)
		}
		close(g.let)
		wg.Wait()
	}
	g := newGate()
	close(g.let)
	b := newBatcher(Options{BatchRows: 3, BatchPatience: time.Hour}, g.run)
	if results, err := b.submitItems(t.Context(), "doubling", []int{1, 2, 3, 4, 5}); err != nil || len(results) != 5 {
		t.Errorf("%v, %v", results, err)
	}
}

// After a batch of several calls the next call waits BatchWait for others to join it. After a batch of one it
// does not.
func TestCallWaitsOnlyAfterCrowdedBatch(t *testing.T) {
	g := newGate()
	b := newBatcher(Options{BatchRows: 3, BatchWait: time.Hour, BatchPatience: time.Hour}, g.run)
	var wg sync.WaitGroup
	call := func(n int) { wg.Go(func() { _, _ = b.submitItems(t.Context(), "doubling", []int{n}) }) }
	landed := func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.underWay == 0 }
	call(1)
	<-g.entered
	g.let <- struct{}{}
	until(t, "the first batch's return", landed)
	call(2)
	<-g.entered
	call(3)
	call(4)
	until(t, "a queue of 2", func() bool { return b.waiting() == 2 })
	call(5)
	<-g.entered
	close(g.let)
	until(t, "the return of all", landed)
	call(6)
	call(7)
	until(t, "a queue of 2", func() bool { return b.waiting() == 2 })
	call(8)
	wg.Wait()
	var sizes []int
	for _, batch := range g.batches {
		sizes = append(sizes, len(batch))
	}
	if !slices.Equal(sizes, []int{1, 1, 3, 3}) {
		t.Errorf("batches: %v", g.batches)
	}
}

// A caller that gives up before its batch is sent gets ErrUnavailable, because nothing was applied. After
// that it gets ErrUnknownOutcome.
func TestAbandonedCallReportsWhetherSent(t *testing.T) {
	g := newGate()
	b := newBatcher(Options{BatchRows: 100, BatchWait: time.Millisecond, BatchPatience: time.Hour}, g.run)
	first, cancelFirst := context.WithCancel(t.Context())
	second, cancelSecond := context.WithCancel(t.Context())
	errs := make(chan error)
	go func() { _, err := b.submitItems(first, "doubling", []int{1}); errs <- err }()
	<-g.entered
	go func() { _, err := b.submitItems(second, "doubling", []int{2}); errs <- err }()
	until(t, "a queue of 1", func() bool { return b.waiting() == 1 })
	cancelSecond()
	if err := <-errs; !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("given up in the queue: %v", err)
	}
	cancelFirst()
	if err := <-errs; !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("given up under way: %v", err)
	}
	close(g.let)
	if _, err := b.submitItems(first, "doubling", []int{1}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("called after its deadline: %v", err)
	}
	if got, err := b.submitItems(t.Context(), "doubling", []int{3}); err != nil || got[0] != 6 {
		t.Errorf("afterwards: %v, %v", got, err)
	}
	if len(g.batches) != 2 {
		t.Errorf("batches: %v", g.batches)
	}
}

func TestBatcherAnswersConcurrentCalls(t *testing.T) {
	b := newBatcher(Options{BatchRows: 50, BatchWait: 100 * time.Microsecond, BatchPatience: 200 * time.Microsecond}, func(_ context.Context, items []int) ([]int, []error) {
		if len(items) > 50 {
			t.Errorf("a batch of %d", len(items))
		}
		time.Sleep(50 * time.Microsecond)
		return items, make([]error, len(items))
	})
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for n := range 50 {
				ctx, cancel := t.Context(), func() {}
				if n%10 == 9 {
					ctx, cancel = context.WithTimeout(ctx, 20*time.Microsecond)
				}
				got, err := b.submitItems(ctx, "echo", []int{g, n})
				cancel()
				if err == nil && !slices.Equal(got, []int{g, n}) || err != nil && n%10 != 9 {
					t.Errorf("%d, %d became %v, %v", g, n, got, err)
				}
			}
		})
	}
	wg.Wait()
	// Batches return even if all their callers have given up.
	until(t, "an empty batcher", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.rows == 0 && b.underWay == 0
	})
}

// Items about the same row are in different rounds, in their order.
func TestItemsOfOneRowUseSeparateRounds(t *testing.T) {
	var statements []string
	st := step[string, string]{
		op:  "testing",
		row: func(s *string) any { return (*s)[:1] },
		run: func(_ context.Context, items []string, results []string) error {
			statements = append(statements, fmt.Sprint(items))
			if slices.Contains(items, "b2") {
				return errors.New("bad request")
			}
			copy(results, items)
			return nil
		},
	}
	results, err := st.runAll(t.Context(), []string{"a1", "b1", "a2", "c1", "b2", "a3"})
	if got := fmt.Sprint(statements); got != "[[a1 b1 c1] [a2 b2] [a2] [b2] [a3]]" {
		t.Error(got)
	}
	if err == nil || store.Retriable(err) || fmt.Sprint(results) != "[a1 b1 a2 c1  a3]" {
		t.Errorf("%v, %v", results, err)
	}
}

// The combined error is ErrUnavailable only if no item was applied.
func TestUnavailableOnlyIfNothingWasApplied(t *testing.T) {
	un, lost, bad := unavailableError("x", context.Canceled), unknownOutcomeError("x", context.Canceled), errors.New("bad")
	for _, c := range []struct {
		errs []error
		want error
	}{
		{[]error{nil, nil}, nil},
		{[]error{un, un}, store.ErrUnavailable},
		{[]error{nil, un}, store.ErrUnknownOutcome},
		{[]error{un, lost}, store.ErrUnknownOutcome},
		{[]error{lost}, store.ErrUnknownOutcome},
		{[]error{bad, un}, store.ErrUnavailable},
		{[]error{nil, bad}, bad},
	} {
		_, err := combineErrors(make([]int, len(c.errs)), c.errs)
		if !errors.Is(err, c.want) || errors.Is(err, store.ErrUnavailable) != errors.Is(c.want, store.ErrUnavailable) {
			t.Errorf("%v: %v", c.errs, err)
		}
	}
}
