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

// The sizes of the rows with which the lists are filled.
const (
	bigParameters = 255 << 10
	bigRows       = 500
	batchOf       = 30
	bigMessage    = 20 << 20
	bigMessages   = 3
	fullMessage   = 1000 << 10 // a little less than the limit of a message
	fullMessages  = 60
)

// bigLists asks for lists of large rows, one at a time and many at once, and measures the memory of
// the executor.
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
	var letter int64
	if err := s.db.QueryRow(ctx, "select coalesce((select id from dead_letter order by octet_length(body) desc limit 1), 0)").Scan(&letter); err != nil {
		return err
	}
	for _, list := range []struct{ what, path string }{
		{"500 executions of 255 KB", "/api/v1/executions?action_ref=attack.big&limit=500"},
		{"a chain of 101 executions of 255 KB", fmt.Sprintf("/api/v1/executions/%d/chain", chain)},
		{"actions with long entry points", "/api/v1/actions?limit=500"},
		{"dead letters with bodies of 1 and 20 MB", "/api/v1/dead-letters?limit=500"},
		{"the longest dead letter", fmt.Sprintf("/api/v1/dead-letters/%d", letter)},
	} {
		get := func() answer { return s.get(ctx, list.path) }
		if err := s.atOnce(ctx, r, list.what, get, 1, requestMemory); err != nil {
			return err
		}
		if err := s.atOnce(ctx, r, list.what, get, crowd, crowdMemory); err != nil {
			return err
		}
	}
	if err := s.bodiesAtOnce(ctx, r); err != nil {
		return err
	}
	return s.restartExecutor(ctx)
}

// bodiesAtOnce has many clients send the largest batches that are accepted.
func (s *system) bodiesAtOnce(ctx context.Context, r *result) error {
	for _, b := range []struct {
		what string
		n    int
		of   func(int) (string, []byte)
	}{
		{"batches with mistakes", 1_300_000, func(n int) (string, []byte) {
			return batchPath, text(`{"executions":[{"action_ref":"attack.none",`, listOf(`"x":1`, n), `}]}`)
		}},
		{"batches of good items", 1000, batch(`{"action_ref":"attack.big","parameters":{"p":"` + strings.Repeat("p", 7_700) + `"}}`)},
	} {
		if err := s.restartExecutor(ctx); err != nil {
			return err
		}
		n := b.n
		path, body := b.of(n)
		post := func() answer {
			within, cancel := context.WithTimeout(ctx, 2*patience)
			defer cancel()
			return s.ask(within, http.MethodPost, path, body, nil)
		}
		for n > 1 && post().tooLarge() {
			n /= 2
			path, body = b.of(n)
		}
		if err := s.atOnce(ctx, r, fmt.Sprintf("%s, %s each", b.what, shownBytes(int64(len(body)))), post, crowd, crowdMemory); err != nil {
			return err
		}
	}
	return nil
}

// fillExecutions creates the rows, and a chain of a hundred retries. It returns the chain's first
// row.
func (s *system) fillExecutions(ctx context.Context) (int64, error) {
	if err := s.action(ctx, "attack.big", unoffered, "none", 60); err != nil {
		return 0, err
	}
	item := `{"action_ref":"attack.big","parameters":{"p":"` + strings.Repeat("p", bigParameters) + `"}}`
	for made, size := 0, batchOf; made < bigRows; {
		a := s.ask(ctx, http.MethodPost, batchPath, text(`{"executions":[`, listOf(item, size), `]}`), nil)
		switch {
		case a.status == http.StatusOK:
			made += size
		case a.tooLarge() && size > 1:
			size /= 2
		case a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests:
			pause(ctx, 200*time.Millisecond)
		default:
			return 0, fmt.Errorf("creating a batch of large executions: %v %v %s", a, a.err, a.head)
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	var first int64
	err := s.db.QueryRow(ctx, "select max(id) from execution where action_ref = 'attack.big'").Scan(&first)
	if err != nil {
		return 0, err
	}
	// The same rows as after a hundred retries, which would each wait for their turn.
	_, err = s.db.Exec(ctx, `insert into execution (action, action_ref, runtime, entrypoint, max_retries, parameters, due_at, created, written_by, original_execution, retry_count)
		select action, 'attack.retried', runtime, entrypoint, 100, parameters, now() + interval '1 day', now(), 'retry_manager', id, n
		  from execution, generate_series(1, 100) n where id = $1`, first)
	return first, err
}

// fillActions stores actions with the longest entry points that are allowed.
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

// fillDeadLetters sends messages that are not dispatches to a queue of the executors, and waits
// until they are stored.
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

// atOnce has several clients send a request at the same time to an executor that has just started.
func (s *system) atOnce(ctx context.Context, r *result, what string, ask func() answer, clients int, most int64) error {
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
		all.Go(func() { answers[i] = ask() })
	}
	peak, stopped := s.watchMemory(ctx, p, all.Wait)
	statuses, largest := map[string]int{}, int64(0)
	for _, a := range answers {
		statuses[a.String()]++
		largest = max(largest, a.bytes)
	}
	shown := strings.Trim(strings.TrimPrefix(fmt.Sprint(statuses), "map"), "[]")
	if stopped {
		shown += ", ended there"
	}
	if clients == 1 {
		// An error answer has no large body.
		r.expect(what+": answer", shown, "200", answers[0].status == http.StatusOK || stopped)
		r.memory(fmt.Sprintf("%s (%s): memory added", what, shownBytes(largest)), peak-memory, most)
		r.duration(what+": processor time", processor(p)-used, requestProcessor)
		return ctx.Err()
	}
	r.memory(fmt.Sprintf("%s, %d clients (%s, %s): memory added", what, clients, shown, shownDuration(time.Since(began))), peak-memory, most)
	return ctx.Err()
}

// tooMuch ends an attack on memory: it is far above the threshold, and the machine has other work.
const tooMuch = 2 << 30

// watchMemory waits for the end of wait and returns the largest memory of the process. It kills a
// process that takes far too much.
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
			s.executor.Instance().Kill()
			stopped = true
		}
		pause(ctx, 20*time.Millisecond)
	}
}
