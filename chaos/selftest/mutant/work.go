package mutant

import (
	"context"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// This file plants processes whose work is correct, but far too much, or too little in each pass.

func init() {
	registerMutants(
		Mutant{
			Name: "unbounded-park", Source: "D21", Expected: 18, Scenario: "slots-without-workers",
			About: "after giving back an execution for which there is no worker, the scheduler claims it again at once, without ever waiting",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker || p.Client {
					return c
				}
				return &restlessStore{Store: c, p: p}
			},
		},
		Mutant{
			Name: "parks-what-waits", Source: "D21", Expected: 18, Scenario: "overload",
			About: "each pass of the scheduler claims all waiting executions, whether or not a worker has room, and gives them back",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker || p.Client {
					return c
				}
				return &greedyStore{c, p}
			},
		},
		Mutant{
			Name: "polls-too-often", Source: "D21", Expected: 18, Scenario: "long-runs",
			About:  "every reconciler queries the database ten times as often as its interval says, even if there is nothing to do",
			Config: func(c *config.Config) { c.Executor.ReconcileInterval /= 10 },
		},
		Mutant{
			Name: "sent-twice", Source: "D9", Expected: 18, Scenario: "overload",
			About: "every dispatch is published twice: the second one is refused at its claim, so only its cost shows",
			Broker: func(p Process, b broker.Broker) broker.Broker {
				if p.Worker {
					return b
				}
				return &sessionWrapper{b, func(s broker.Session) broker.Session { return &stammeringSession{s, p} }}
			},
		},
		Mutant{
			Name: "batches-cut-short", Source: "D21", Expected: 12, Scenario: "more-than-a-batch",
			About: "each pass of a reconciler handles one batch, and all other rows wait for the next pass, however many there are",
			Store: func(p Process, c store.Store) store.Store {
				if p.Worker || p.Client {
					return c
				}
				asked := make(map[store.ReclaimCause]time.Duration)
				return &searchStore{Store: c, find: func(_ context.Context, f store.Finding, found []execution.Execution) []execution.Execution {
					now := p.Host.Monotonic()
					if last, known := asked[f.Cause]; known && now-last < p.Config.Executor.ReconcileInterval/2 {
						if len(found) > 0 {
							p.Acted("left the other rows to its next pass", rowIDs(found)...)
						}
						return nil
					}
					asked[f.Cause] = now
					return found
				}}
			},
		},
	)
}

// restlessStore claims executions that it has just requeued, in a loop that never sleeps.
type restlessStore struct {
	store.Store
	p      Process
	parked bool
}

// Park implements store.Store.
func (r *restlessStore) Park(ctx context.Context, executor string, ps []store.Park) ([]store.Outcome, error) {
	outcomes, err := r.Store.Park(ctx, executor, ps)
	r.parked = r.parked || err == nil && len(ps) > 0
	return outcomes, err
}

// DispatchDue implements store.Store.
func (r *restlessStore) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// ClaimForScheduling implements store.Store.
func (r *restlessStore) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	if r.parked {
		r.p.Acted("claimed an execution at once that it had just given back")
	}
	for r.parked && ctx.Err() == nil {
		_ = r.p.Host.Sleep(ctx, 0)
	}
	return r.Store.ClaimForScheduling(ctx, c)
}

// greedyStore claims more executions than there is capacity for.
type greedyStore struct {
	store.Store
	p Process
}

// DispatchDue implements store.Store.
func (g *greedyStore) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// ClaimForScheduling implements store.Store.
func (g *greedyStore) ClaimForScheduling(ctx context.Context, c store.SchedulingClaim) ([]execution.Execution, error) {
	more := false
	for i := range c.Demands {
		more = more || c.Demands[i].Limit < c.Others
		c.Demands[i].Limit = c.Others
	}
	for i := range c.Pools {
		more = more || c.Pools[i] < c.Others
		c.Pools[i] = c.Others
	}
	if more {
		g.p.Acted("claimed executions that no worker has room for")
	}
	return g.Store.ClaimForScheduling(ctx, c)
}

// stammeringSession is a session that sends every dispatch twice.
type stammeringSession struct {
	broker.Session
	p Process
}

// Publish implements broker.Session.
func (s *stammeringSession) Publish(ctx context.Context, ms []broker.Message) []broker.Outcome {
	var again []broker.Message
	for i := range ms {
		if ms[i].Envelope.Type == broker.ExecutionScheduled {
			again = append(again, ms[i])
			s.p.Acted("published a dispatch twice", dispatchedIDs(ms[i].Envelope)...)
		}
	}
	if len(again) > 0 {
		s.Session.Publish(ctx, again)
	}
	return s.Session.Publish(ctx, ms)
}
