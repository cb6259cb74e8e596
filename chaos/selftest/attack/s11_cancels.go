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

// forgedCancel sends a worker a hint to end an execution, although nobody asked for that.
func forgedCancel(ctx context.Context, l *lab, r *result) error {
	s, err := l.common(ctx)
	if err != nil {
		return err
	}
	if err := s.action(ctx, "attack.sleeps", "shell", "sleep 6", 60); err != nil {
		return err
	}
	start := func() (ran, error) {
		id, err := s.create(ctx, "attack.sleeps", 0)
		if err != nil {
			return ran{}, err
		}
		e, err := s.await(ctx, id, 20*time.Second, "running")
		if err == nil && (e.Status != "running" || e.Worker == nil) {
			err = fmt.Errorf("execution %d does not run: %s", id, e.told())
		}
		return e, err
	}
	e, err := start()
	if err != nil {
		return err
	}
	body, err := broker.Encode(&broker.Envelope{
		MessageID: "forged-" + word(), Type: broker.ExecutionCancel, Timestamp: time.Now(), Version: broker.WireVersion,
		Changes: []broker.Change{{Key: execution.Key{ID: execution.ID(e.ID), Epoch: execution.Epoch(e.Epoch)}}},
	})
	if err != nil {
		return err
	}
	conn, ch, err := s.amqp()
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // what was published shows below
	for range 3 {
		if err := ch.PublishWithContext(ctx, "", broker.CancelQueue(execution.WorkerID(*e.Worker)), false, false, amqp.Publishing{Body: body}); err != nil {
			return err
		}
	}
	e, err = s.await(ctx, e.ID, 20*time.Second, ended...)
	if err != nil {
		return err
	}
	r.expect("a running action that a forged hint names", e.Status, "completed", e.Status == "completed")

	if e, err = start(); err != nil {
		return err
	}
	began := time.Now()
	a := s.post(ctx, fmt.Sprintf("/api/v1/executions/%d/cancel", e.ID), fields{})
	if a.status != http.StatusAccepted {
		a = s.ask(ctx, http.MethodPost, fmt.Sprintf("/api/v1/executions/%d/cancel", e.ID), nil, nil)
	}
	e, err = s.await(ctx, e.ID, 20*time.Second, ended...)
	r.expect(fmt.Sprintf("one that the API was asked to cancel (%v), after %s", a, shownDuration(time.Since(began))), e.Status, "cancelled", e.Status == "cancelled")
	return err
}
