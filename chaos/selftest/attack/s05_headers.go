//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
	"handoff/core/execution"
)

// hostileDeaths is an x-death header on which RabbitMQ 3.10 fails when it adds a death to it.
func hostileDeaths() amqp.Table {
	return amqp.Table{"x-death": []any{
		amqp.Table{"queue": "q", "reason": int32(5), "count": "x", "time": "y"}, int32(3), nil,
	}}
}

// plainGarbage is how many messages follow the hostile one that are only unreadable.
const plainGarbage = 9

// hostileHeaders sends a message whose headers end dead lettering on the node, and checks which
// messages still arrive. It has its own broker, which is useless afterwards.
func hostileHeaders(ctx context.Context, l *lab, r *result) error {
	s, err := l.up(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = s.close() }() // a system that was broken on purpose
	w, err := s.worker(ctx, workerOptions{name: "worker-1"})
	if err != nil {
		return err
	}
	id, err := s.workerID(ctx, "worker-1")
	if err != nil {
		return err
	}
	queue := broker.WorkerQueue(execution.WorkerID(id))
	arrived, err := s.sendGarbage(ctx, queue, plainGarbage, nil, "")
	if err != nil {
		return err
	}
	r.expect("plain garbage, before: dead letters of 9", fmt.Sprint(arrived), "9", arrived == plainGarbage)

	if _, err := s.sendGarbage(ctx, queue, 1, hostileDeaths(), ""); err != nil {
		return err
	}
	if arrived, err = s.sendGarbage(ctx, queue, plainGarbage, nil, ""); err != nil {
		return err
	}
	r.expect("plain garbage, behind hostile headers: dead letters of 9", fmt.Sprint(arrived), "every one", arrived == plainGarbage)
	e, err := s.ordinary(ctx)
	r.expect("an execution behind them", fmt.Sprintf("%s %v", e.Status, err), "completed", e.Status == "completed")

	// The broker itself dead-letters this message, whatever a worker would do with it.
	s.stopWorker(ctx, w)
	if _, err := s.sendGarbage(ctx, queue, 1, hostileDeaths(), "50"); err != nil {
		return err
	}
	if arrived, err = s.sendGarbage(ctx, queue, plainGarbage, nil, "50"); err != nil {
		return err
	}
	r.tell("expiring garbage, behind hostile headers that expire: dead letters of 9", "%d", arrived)
	if arrived == plainGarbage {
		return nil // this broker does not have the defect
	}
	began := time.Now()
	const canaryWait = 10 * time.Second
	var a answer
	if !until(ctx, canaryInterval+canaryWait, func() bool {
		a = s.get(ctx, "/readyz")
		pause(ctx, time.Second)
		return a.err == nil && a.status != http.StatusOK
	}) {
		r.expect("the broken path shows in /readyz after", "never", "≤ "+shownDuration(canaryInterval), false)
		return nil
	}
	r.duration("the broken path shows in /readyz after", time.Since(began), canaryInterval+canaryWait)
	return nil
}

// sendGarbage publishes unreadable messages to a queue, and returns how many of them were stored as
// dead letters soon after. expire is the time after which they expire, in milliseconds; empty for
// never.
func (s *system) sendGarbage(ctx context.Context, queue string, n int, headers amqp.Table, expire string) (int, error) {
	conn, ch, err := s.amqp()
	if err != nil {
		return 0, err
	}
	defer conn.Close() //nolint:errcheck // what was published is counted
	before, err := s.number(ctx, "select count(*) from dead_letter")
	if err != nil {
		return 0, err
	}
	for range n {
		if err := ch.PublishWithContext(ctx, "", queue, false, false, amqp.Publishing{Body: []byte("garbage"), Headers: headers, Expiration: expire, DeliveryMode: amqp.Persistent}); err != nil {
			return 0, err
		}
	}
	after := before
	until(ctx, 8*time.Second, func() bool {
		after, err = s.number(ctx, "select count(*) from dead_letter")
		return err == nil && after >= before+n
	})
	return after - before, err
}

// ordinary runs a harmless action.
func (s *system) ordinary(ctx context.Context) (ran, error) {
	return s.run(ctx, "attack.ordinary", "echo done", 20, 0, 20*time.Second)
}
