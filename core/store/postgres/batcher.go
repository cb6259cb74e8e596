package postgres

import (
	"context"
	"slices"
	"sync"
	"time"
)

// batcher combines simultaneous calls of one kind into one statement, as group commit does. A call is sent at
// once, alone, if no batch is under way. While a batch is under way the next one collects calls; it is sent
// when the first has returned, or when it is full. If calls with one row each arrive in quick succession,
// this would make statements of a few rows each. A statement costs far more than a row. So after a batch of
// several calls the next one waits briefly, to collect several again.
//
// A delayed batch may be overtaken: after BatchPatience the next batch is sent, because its predecessor may
// wait for the lock of a row that no other batch needs.
//
// A batch does not belong to a caller: it continues when a caller gives up. A caller that gives up before its
// batch is sent knows that nothing was applied; later, the outcome is unknown.
type batcher[Q, R any] struct {
	run         func(ctx context.Context, items []Q) ([]R, []error)
	limit       int
	wait        time.Duration
	patience    time.Duration
	maxUnderWay int

	mu       sync.Mutex
	queue    []*call[Q, R]
	rows     int
	underWay int
	// crowded reports whether the last batch consisted of several calls.
	crowded bool
	// since is when the queue began to wait. timer launches the batch when it has waited long enough.
	since time.Time
	timer *time.Timer
}

type call[Q, R any] struct {
	items []Q
	sent  bool
	done  chan struct{}

	results []R
	err     error
}

func newBatcher[Q, R any](o Options, run func(context.Context, []Q) ([]R, []error)) *batcher[Q, R] {
	return &batcher[Q, R]{run: run, limit: o.BatchRows, wait: o.BatchWait, patience: o.BatchPatience, maxUnderWay: inFlight}
}

// submitItems queues the items of one call and waits for their results.
func (b *batcher[Q, R]) submitItems(ctx context.Context, op string, items []Q) ([]R, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, unavailableError(op, err)
	}
	c := &call[Q, R]{items: items, done: make(chan struct{})}
	b.mu.Lock()
	if len(b.queue) == 0 {
		b.since = time.Now()
	}
	b.queue = append(b.queue, c)
	b.rows += len(items)
	b.launchBatches()
	b.mu.Unlock()
	select {
	case <-c.done:
		return c.results, c.err
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.sent {
		select {
		case <-c.done:
			return c.results, c.err
		default:
			return nil, unknownOutcomeError(op, ctx.Err())
		}
	}
	b.rows -= len(items)
	b.queue = slices.DeleteFunc(b.queue, func(q *call[Q, R]) bool { return q == c })
	return nil, unavailableError(op, ctx.Err())
}

// launchBatches sends the batches that are due. The caller holds the lock.
func (b *batcher[Q, R]) launchBatches() {
	for len(b.queue) > 0 && b.underWay < b.maxUnderWay {
		if left := b.holdBack() - time.Since(b.since); left > 0 && b.rows < b.limit {
			if b.timer == nil {
				b.timer = time.AfterFunc(left, b.launchOnTimer)
			}
			return
		}
		batch := b.takeBatch()
		b.underWay++
		go b.sendBatch(batch)
	}
}

// holdBack returns how long the queue may collect calls before they are sent.
func (b *batcher[Q, R]) holdBack() time.Duration {
	switch {
	case b.underWay > 0:
		return b.patience
	case b.crowded:
		return b.wait
	}
	return 0
}

// takeBatch removes one batch from the queue. A call that is larger than the limit is a batch of its own.
func (b *batcher[Q, R]) takeBatch() []*call[Q, R] {
	n, rows := 0, 0
	for n < len(b.queue) && (n == 0 || rows+len(b.queue[n].items) <= b.limit) {
		b.queue[n].sent = true
		rows += len(b.queue[n].items)
		n++
	}
	batch := slices.Clone(b.queue[:n])
	b.queue = slices.Delete(b.queue, 0, n)
	b.rows -= rows
	b.crowded = n > 1
	b.since = time.Now()
	b.stopTimer()
	return batch
}

func (b *batcher[Q, R]) stopTimer() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
}

// launchOnTimer runs when the timer fires. By then its queue may have been sent and another one begun, so
// launchBatches checks the time again.
func (b *batcher[Q, R]) launchOnTimer() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopTimer()
	b.launchBatches()
}

// sendBatch sends one batch and passes each call its part of the answer.
func (b *batcher[Q, R]) sendBatch(batch []*call[Q, R]) {
	items := batch[0].items
	if len(batch) > 1 {
		items = nil
		for _, c := range batch {
			items = append(items, c.items...)
		}
	}
	results, errs := b.run(context.Background(), items)
	b.mu.Lock()
	defer b.mu.Unlock()
	at := 0
	for _, c := range batch {
		end := at + len(c.items)
		c.results, c.err = combineErrors(results[at:end:end], errs[at:end])
		close(c.done)
		at = end
	}
	b.underWay--
	b.stopTimer()
	b.launchBatches()
}
