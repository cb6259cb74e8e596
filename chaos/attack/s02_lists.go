//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
)

// The sizes of what the lists are filled with.
const (
	bigParameters = 255 << 10
	bigRows       = 500
	batchOf       = 30
	bigMessage    = 20 << 20
	bigMessages   = 3
	fullMessage   = 1000 << 10 // a little less than what a message may have
	fullMessages  = 60
)

// bigLists asks for lists of large rows, one at a time and many at once, and looks at the memory of the executor.
func bigLists(ctx context.Context, l *lab, r *result) error {
	s, err := l.common(ctx)
	if err != nil {
		return err
	}
	chain, err := s.fillExecutions(ctx)
	if err != nil {
		return err
	}
	if err := s.fillActions(ctx, r); err != nil {
		return err
	}
	if err := s.fillDeadLetters(ctx, r); err != nil {
		return err
	}
	for _, list := range []struct{ what, path string }{
		{"500 executions of 255 KB", "/api/v1/executions?action_ref=attack.big&limit=500"},
		{"a chain of 101 executions of 255 KB", fmt.Sprintf("/api/v1/executions/%d/chain", chain)},
		{"actions with long entry points", "/api/v1/actions?limit=500"},
		{"dead letters with bodies of 1 and 20 MB", "/api/v1/dead-letters?limit=500"},
	} {
		if err := s.readAtOnce(ctx, r, list.what, list.path, 1, requestMemory); err != nil {
			return err
		}
		if err := s.readAtOnce(ctx, r, list.what, list.path, crowd, crowdMemory); err != nil {
			return err
		}
	}
	return s.restartExecutor(ctx)
}

// fillExecutions creates the rows, and a chain of a hundred retries. It returns the chain's first row.
func (s *system) fillExecutions(ctx context.Context) (int64, error) {
	if err := s.action(ctx, "attack.big", unoffered, "none", 60); err != nil {
		return 0, err
	}
	item := `{"action_ref":"attack.big","parameters":{"p":"` + strings.Repeat("p", bigParameters) + `"}}`
	for made := 0; made < bigRows; made += batchOf {
		a := s.ask(ctx, http.MethodPost, batchPath, text(`{"executions":[`, listOf(item, min(batchOf, bigRows-made)), `]}`), nil)
		if a.status != http.StatusOK {
			return 0, fmt.Errorf("creating a batch of large executions: %v %s", a, a.head)
		}
	}
	var first int64
	err := s.db.QueryRow(ctx, "select max(id) from execution where action_ref = 'attack.big'").Scan(&first)
	if err != nil {
		return 0, err
	}
	// As after a hundred retries; each of them would wait for its turn.
	_, err = s.db.Exec(ctx, `insert into execution (action, action_ref, runtime, entrypoint, max_retries, parameters, due_at, created, written_by, original_execution, retry_count)
		select action, 'attack.retried', runtime, entrypoint, 100, parameters, now() + interval '1 day', now(), 'retry_manager', id, n
		  from execution, generate_series(1, 100) n where id = $1`, first)
	return first, err
}

// fillActions stores actions with entry points as long as they may be.
func (s *system) fillActions(ctx context.Context, r *result) error {
	for _, size := range []int{1_000_000, 250_000, 64_000, 16_000, 4_000} {
		stored := 0
		for i := range 60 {
			a := s.post(ctx, "/api/v1/actions", fields{"ref": fmt.Sprintf("attack.long%d", i), "runtime": unoffered, "entrypoint": strings.Repeat("e", size), "max_retries": 0})
			if a.status != http.StatusOK {
				break
			}
			stored++
		}
		if stored > 0 {
			r.tell("actions stored", "%d of %s", stored, shownBytes(int64(size)))
			return nil
		}
	}
	return nil
}

// fillDeadLetters sends what is no message to a queue of the executors and waits until it is stored.
func (s *system) fillDeadLetters(ctx context.Context, r *result) error {
	conn, ch, err := s.amqp()
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // what was published is counted below
	send := func(n, size int) error {
		body := bytes.Repeat([]byte("x"), size)
		for range n {
			if err := ch.PublishWithContext(ctx, "", broker.QueueRequested, false, false, amqp.Publishing{Body: body}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := send(bigMessages, bigMessage); err != nil {
		return err
	}
	if err := send(fullMessages, fullMessage); err != nil {
		return err
	}
	var rows, bytes int
	until(ctx, 15*time.Second, func() bool {
		err = s.db.QueryRow(ctx, "select count(*), coalesce(sum(octet_length(body)), 0) from dead_letter").Scan(&rows, &bytes)
		return err == nil && rows >= bigMessages+fullMessages
	})
	r.tell("dead letters stored", "%d, %s", rows, shownBytes(int64(bytes)))
	return err
}

// readAtOnce has so many clients read a path at once from an executor that was just started.
func (s *system) readAtOnce(ctx context.Context, r *result, what, path string, clients int, most int64) error {
	if err := s.restartExecutor(ctx); err != nil {
		return err
	}
	p := pid(s.executor)
	if err := resetPeak(p); err != nil {
		return err
	}
	memory, used, began := memoryOf(p, "VmRSS"), processor(p), time.Now()
	answers := make([]answer, clients)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = s.get(ctx, path) })
	}
	peak, stopped := s.watchMemory(ctx, p, all.Wait)
	statuses, largest := map[string]int{}, int64(0)
	for _, a := range answers {
		statuses[a.String()]++
		largest = max(largest, a.bytes)
	}
	shown := strings.TrimPrefix(fmt.Sprint(statuses), "map")
	if stopped {
		shown += ", ended there"
	}
	if clients == 1 {
		r.memory(fmt.Sprintf("%s (%s, %s): memory added", what, shown, shownBytes(largest)), peak-memory, most)
		r.duration(what+": processor time", processor(p)-used, requestProcessor)
		return ctx.Err()
	}
	r.memory(fmt.Sprintf("%s, %d clients (%s, %s): memory added", what, clients, shown, shownDuration(time.Since(began))), peak-memory, most)
	return ctx.Err()
}

// tooMuch ends an attack on memory: the threshold is long behind, and the machine has other things to do.
const tooMuch = 2 << 30

// watchMemory waits for the end of something and returns the most memory that the process had. A process that takes far
// too much is killed.
func (s *system) watchMemory(ctx context.Context, p int, wait func()) (peak int64, stopped bool) {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	for {
		select {
		case <-done:
			return max(peak, memoryOf(p, "VmHWM")), stopped
		default:
		}
		if peak = max(peak, memoryOf(p, "VmHWM")); peak > tooMuch && !stopped {
			s.executor.Process().Kill()
			stopped = true
		}
		pause(ctx, 20*time.Millisecond)
	}
}
