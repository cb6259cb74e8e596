package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"handoff/chaos/soak"
)

// load submits executions through the executors' API, in batches, at a given rate. It retries an unanswered
// request with the same idempotency key, at one executor after another, until there is an answer.
type load struct {
	x         *soakRun
	executors []string
	client    *http.Client
	ctx       context.Context //nolint:containedctx // of the requests
	end       context.CancelFunc
	tasks     sync.WaitGroup
	batches   chan []int
	// target is the rate of the soak; findRate sets it.
	target float64

	accepted atomic.Int64
	// sent counts the numbered requests, including requests that still wait to be sent.
	sent atomic.Int64

	mu      sync.Mutex
	current float64
	held    bool
	heldFor time.Duration
	book    soak.Accepted
}

const (
	// loadTick is the interval between batches, and senders the number of batches sent concurrently.
	loadTick = 200 * time.Millisecond
	senders  = 4
	// answeredWithin limits one request.
	answeredWithin = 5 * time.Second
	largestBatch   = 200
)

func newLoad(x *soakRun) *load {
	l := &load{x: x, client: &http.Client{Timeout: answeredWithin}, batches: make(chan []int, senders)}
	for _, p := range x.w.allProcesses() {
		if p.spec == nil {
			l.executors = append(l.executors, p.daemon.URL)
		}
	}
	l.ctx, l.end = context.WithCancel(x.w.ctx)
	l.tasks.Go(l.makeBatches)
	for n := range senders {
		l.tasks.Go(func() { l.sendBatches(n) })
	}
	return l
}

// setRate sets the rate; 0 stops the load.
func (l *load) setRate(perSecond float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current = perSecond
}

// currentRate returns the current rate, and whether the backlog holds the load back.
func (l *load) currentRate() (float64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current, l.held
}

// openExecutions returns the number of accepted executions not known to have ended.
func (l *load) openExecutions() int { return int(l.accepted.Load() - l.x.done.Load()) }

// unansweredRequests returns the number of numbered requests without an answer.
func (l *load) unansweredRequests() int { return int(l.sent.Load() - l.accepted.Load()) }

// stop ends the load's goroutines and waits for them.
func (l *load) stop() {
	l.end()
	l.tasks.Wait()
}

// makeBatches makes a batch every tick, unless too many executions are open.
func (l *load) makeBatches() {
	tick := time.NewTicker(loadTick)
	defer tick.Stop()
	owed, last := 0.0, time.Now()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-tick.C:
		}
		passed := time.Since(last)
		last = time.Now()
		rate, _ := l.currentRate()
		held := rate > 0 && l.openExecutions()+l.unansweredRequests() > soak.Backlog(rate)
		l.mu.Lock()
		if l.held = held; held {
			l.heldFor += passed
		}
		l.mu.Unlock()
		if held || rate == 0 {
			owed = 0 // requests that were not sent in time are dropped, so that they are not sent all at once later
			continue
		}
		owed += min(passed, time.Second).Seconds() * rate
		n := min(int(owed), largestBatch)
		if n == 0 {
			continue
		}
		owed -= float64(n)
		first := int(l.sent.Add(int64(n))) - n
		batch := make([]int, n)
		for i := range batch {
			batch[i] = first + i
		}
		select {
		case l.batches <- batch:
		case <-l.ctx.Done():
			return
		}
	}
}

// sendBatches sends batches, and repeats each one until all of its requests are answered.
func (l *load) sendBatches(n int) {
	for at := n; ; {
		var batch []int
		select {
		case <-l.ctx.Done():
			return
		case batch = <-l.batches:
		}
		for len(batch) > 0 && l.ctx.Err() == nil {
			left, err := l.postBatch(l.executors[at%len(l.executors)], batch)
			at++
			if err != nil || len(left) > 0 {
				waitFor(l.ctx, 200*time.Millisecond)
			}
			batch = left
		}
	}
}

// batchItem is one execution of a batch.
type batchItem struct {
	Action string `json:"action_ref"`
	Key    string `json:"idempotency_key"`
}

// postBatch sends a batch to one executor, and returns the requests that must be retried.
func (l *load) postBatch(executor string, batch []int) (left []int, err error) {
	items := make([]batchItem, len(batch))
	for i, n := range batch {
		items[i] = batchItem{soak.Action, soak.KeyPrefix + strconv.Itoa(n)}
	}
	body, err := json.Marshal(map[string]any{"executions": items})
	if err != nil {
		return batch, err
	}
	request, err := http.NewRequestWithContext(l.ctx, http.MethodPost, executor+"/api/v1/executions/batch", bytes.NewReader(body))
	if err != nil {
		return batch, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := l.client.Do(request)
	if err != nil {
		return batch, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return batch, err
	}
	if response.StatusCode != http.StatusOK {
		l.noteRefusal(response.StatusCode, string(text))
		return batch, errors.New(response.Status)
	}
	var answer struct {
		Results []struct {
			Status    int             `json:"status"`
			Execution json.RawMessage `json:"execution"`
			Problem   json.RawMessage `json:"problem"`
		} `json:"results"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Results) != len(batch) {
		return batch, fmt.Errorf("an answer for %d requests has %d results: %w", len(batch), len(answer.Results), err)
	}
	l.mu.Lock()
	for i, r := range answer.Results {
		if len(r.Execution) > 0 {
			l.book.Add(batch[i])
			continue
		}
		left = append(left, batch[i])
	}
	l.accepted.Store(int64(l.book.N))
	l.mu.Unlock()
	for _, r := range answer.Results {
		if len(r.Execution) == 0 {
			l.noteRefusal(r.Status, string(r.Problem))
			break
		}
	}
	return left, nil
}

// noteRefusal fails the run if an answer shows that the request itself is wrong, which makes a retry pointless.
func (l *load) noteRefusal(status int, why string) {
	if status < 400 || status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
		return
	}
	l.x.w.failRun(fmt.Sprintf("the system refused a part of the load with status %d: %s", status, why))
}
