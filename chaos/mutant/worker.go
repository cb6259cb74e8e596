package mutant

import (
	"context"
	"errors"

	"handoff/core/execution"
	"handoff/core/store"
)

// heartless is a store in which no heartbeat arrives once the worker drains.
type heartless struct {
	store.Store
	draining bool
}

// SetLifecycle implements store.Store.
func (s *heartless) SetLifecycle(ctx context.Context, w store.WorkerKey, to execution.Lifecycle) error {
	err := s.Store.SetLifecycle(ctx, w, to)
	s.draining = s.draining || err == nil && to == execution.Draining
	return err
}

// Heartbeat implements store.Store.
func (s *heartless) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	if s.draining {
		return store.BeatReply{}, store.ErrUnavailable
	}
	return s.Store.Heartbeat(ctx, b)
}

func heartbeatStopsFirst() *Mutant {
	return &Mutant{
		Name: "heartbeat-stops-first", Source: "D38", Expected: 10, Scenario: "worker-stops-gracefully",
		About: "a stopping worker ends its heartbeat before its running work, which then looks dead",
		Store: func(p Process, c Database) store.Store {
			if !p.Worker {
				return c
			}
			return &heartless{Store: c}
		},
	}
}

// hurried is a store that gives each heartbeat and each registration the same time.
type hurried struct {
	store.Store
	p Process
}

// Heartbeat implements store.Store.
func (s *hurried) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	ctx, cancel := s.p.Host.WithTimeout(ctx, s.p.Config.Worker.StatementTimeout)
	defer cancel()
	return s.Store.Heartbeat(ctx, b)
}

// Register implements store.Store.
func (s *hurried) Register(ctx context.Context, g store.Registration) (store.Registered, error) {
	ctx, cancel := s.p.Host.WithTimeout(ctx, s.p.Config.Worker.StatementTimeout)
	defer cancel()
	return s.Store.Register(ctx, g)
}

func heartbeatGivesUpEarly() *Mutant {
	return &Mutant{
		Name: "heartbeat-gives-up-early", Source: "D47", Expected: 15, Scenario: "slow-road-to-the-database",
		About: "each attempt to renew a lease has the same short time, so a database that is slower than that costs the whole fleet",
		Store: func(p Process, c Database) store.Store {
			if !p.Worker {
				return c
			}
			return &hurried{c, p}
		},
	}
}

// results is a store that is told other results than the worker's.
type results struct {
	store.Store
	change func(*store.Finish)
	// after turns an error into another one.
	after func(error) error
}

// Finish implements store.Store.
func (s *results) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	if s.change != nil {
		for i := range fs {
			s.change(&fs[i])
		}
	}
	outcomes, err := s.Store.Finish(ctx, w, fs)
	if err != nil && s.after != nil {
		err = s.after(err)
	}
	return outcomes, err
}

func killedIsCompleted() *Mutant {
	return &Mutant{
		Name: "killed-is-completed", Source: "D40", Expected: 13, Scenario: "shutdown-timeout",
		About: "an action that its worker has ended counts as completed, because its process is gone and left no error",
		Store: func(_ Process, c Database) store.Store {
			return &results{Store: c, change: func(f *store.Finish) {
				if f.Reason == execution.WorkerShutdown || f.Reason == execution.HeartbeatStale {
					f.To, f.Reason, f.Result = execution.Completed, execution.NoReason, execution.Result{}
				}
			}}
		},
	}
}

func resultGivenUp() *Mutant {
	return &Mutant{
		Name: "result-given-up", Source: "D23", Expected: 13, Scenario: "database-outage",
		About: "a worker that does not hear whether its result was stored gives it up, and its next heartbeat calls the execution lost",
		Store: func(_ Process, c Database) store.Store {
			return &results{Store: c, after: func(error) error { return errGivenUp }}
		},
	}
}

var errGivenUp = errors.New("giving up")
