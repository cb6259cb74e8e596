// Package api is how executions come into being: what the REST handlers stand on, without HTTP.
package api

import (
	"context"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// Submitter creates executions and hints that they exist.
type Submitter struct {
	Host     host.Host
	Store    store.Client
	Notifier *broker.Notifier
	// Timeout bounds one attempt to write.
	Timeout time.Duration
}

// Submit creates the executions. Accepted means committed. While the database is away, or when the
// outcome of an attempt is unknown, it tries again until ctx ends; items without an idempotency key
// could be created twice then, so it refuses to repeat those after an unknown outcome and returns
// the error.
func (s *Submitter) Submit(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	repeatable := true
	for _, item := range items {
		repeatable = repeatable && item.IdempotencyKey != ""
	}
	backoff := broker.NewBackoff(s.Host, 100*time.Millisecond, 5*time.Second)
	for {
		created, err := s.create(items)
		if err == nil {
			var keys []execution.Key
			for _, c := range created {
				if !c.UnknownAction && !c.Existed {
					keys = append(keys, execution.Key{ID: c.ID})
				}
			}
			s.Notifier.Requested(keys...)
			return created, nil
		}
		if !store.Retriable(err) || !repeatable {
			return nil, err
		}
		if werr := backoff.Wait(ctx); werr != nil {
			return nil, err
		}
	}
}

func (s *Submitter) create(items []store.NewExecution) ([]store.Created, error) {
	ctx, cancel := s.Host.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	return s.Store.Create(ctx, items)
}
