// Package submission creates and cancels executions, and publishes hints about them. It is below the
// HTTP API (core/api), so that a client without HTTP, such as the simulator, does the same.
package submission

import (
	"context"
	"errors"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// Submitter creates executions and publishes hints about them.
type Submitter struct {
	Host     host.Host
	Store    store.Client
	Notifier *broker.Notifier
	// Wake notifies the scheduler of the same process that work is due, before the hint arrives through the
	// broker; nil if there is no scheduler. It must not block.
	Wake func()
	// Timeout bounds one attempt to write.
	Timeout time.Duration
}

// Submit creates the executions. Accepted means committed. While the database is unavailable, or the outcome
// of an attempt is unknown, it retries until ctx ends. If an item has no idempotency key, a retry could
// create it twice, so it returns the error instead.
func (s *Submitter) Submit(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	repeatable := true
	for _, item := range items {
		repeatable = repeatable && item.IdempotencyKey != ""
	}
	backoff := broker.NewBackoff(s.Host, 100*time.Millisecond, 5*time.Second)
	for {
		created, err := s.createOnce(items)
		if err == nil {
			s.announceCreated(created)
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

// announceCreated publishes hints about created executions: that work is due, or that a child was skipped at
// its creation, because its parent's chain had already ended.
func (s *Submitter) announceCreated(created []store.Created) {
	var keys []execution.Key
	var ends []broker.Change
	for _, c := range created {
		switch key := (execution.Key{ID: c.ID}); {
		case c.ID == 0 || c.Existed:
		case c.Skipped:
			ends = append(ends, broker.Change{Key: key, From: execution.Requested, To: execution.Cancelled})
		default:
			keys = append(keys, key)
		}
	}
	s.AnnounceWork(keys...)
	s.Notifier.Changed(ends...)
}

// AnnounceWork announces requested executions: to the scheduler of this process at once, and to all others by
// a hint.
func (s *Submitter) AnnounceWork(keys ...execution.Key) {
	if s.Wake != nil && len(keys) > 0 {
		s.Wake()
	}
	s.Notifier.Requested(keys...)
}

func (s *Submitter) createOnce(items []store.NewExecution) ([]store.Created, error) {
	ctx, cancel := s.Host.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	return s.Store.Create(ctx, items)
}

// Cancel requests the end of a chain, named by any of its rows, and publishes hints about it. actor is the
// sender of the request. Accepted means committed. While the database is unavailable it retries until ctx
// ends: a repetition is harmless.
func (s *Submitter) Cancel(ctx context.Context, id execution.ID, actor string) (store.Cancellation, error) {
	backoff := broker.NewBackoff(s.Host, 100*time.Millisecond, 5*time.Second)
	uncertain := false
	for {
		answer, err := s.cancelOnce(id, actor)
		if err == nil {
			// An earlier attempt whose outcome is unknown may have cancelled the execution.
			answer.Applied = answer.Applied || uncertain && answer.Row.Status == execution.Cancelled
			s.announceCancellation(&answer)
			return answer, nil
		}
		uncertain = uncertain || errors.Is(err, store.ErrUnknownOutcome)
		if !store.Retriable(err) {
			return store.Cancellation{}, err
		}
		if werr := backoff.Wait(ctx); werr != nil {
			return store.Cancellation{}, err
		}
	}
}

func (s *Submitter) cancelOnce(id execution.ID, actor string) (store.Cancellation, error) {
	ctx, cancel := s.Host.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	answers, err := s.Store.Cancel(ctx, []execution.ID{id}, actor)
	if err != nil {
		return store.Cancellation{}, err
	}
	return answers[0], nil
}

func (s *Submitter) announceCancellation(c *store.Cancellation) {
	if !c.Applied {
		return
	}
	switch row := &c.Row; row.Status {
	case execution.Cancelled:
		s.Notifier.Changed(broker.Change{Key: row.Key(), From: c.From, To: row.Status})
	case execution.Canceling:
		s.Notifier.Changed(broker.Change{Key: row.Key(), From: c.From, To: row.Status})
		s.Notifier.Cancel(row.Worker, row.Key())
	default:
	}
}
