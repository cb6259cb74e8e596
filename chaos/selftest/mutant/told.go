package mutant

import (
	"context"
	"errors"
	"slices"

	"handoff/core/store"
)

func init() {
	registerMutants(
		Mutant{
			Name: "claims-unheeded", Source: "D12", Expected: 4, Scenario: "two-processes-of-one-name",
			About: "a worker goes on after a claim's answer that its incarnation is over, until a heartbeat says so",
			Store: func(p Process, s store.Store) store.Store {
				if !p.Worker {
					return s
				}
				return &claimErrorStore{s, p, []error{store.ErrSuperseded, store.ErrLost}, "incarnation"}
			},
		},
		Mutant{
			Name: "lease-over-unheeded", Source: "D15", Expected: 21, Scenario: "clock-step-within-grace",
			About: "a worker does not renew its lease before the next heartbeat is due, although a claim was refused because the lease is over",
			Store: func(p Process, s store.Store) store.Store {
				if !p.Worker {
					return s
				}
				return &claimErrorStore{s, p, []error{store.ErrLeaseOver}, "lease"}
			},
		},
		Mutant{
			Name: "successor-unheeded", Source: "D14", Expected: 4, Scenario: "two-processes-of-one-name",
			About: "a worker that was told of a successor with its name registers again, and takes the name back",
			Store: func(p Process, s store.Store) store.Store {
				if !p.Worker {
					return s
				}
				return &successorHidingStore{s, p}
			},
		},
		Mutant{
			Name: "dispatches-not-asked-again", Source: "D9", Expected: 29, Scenario: "database-outage",
			About: "an executor does not check whether a dispatch of unknown outcome was written",
			Store: func(p Process, s store.Store) store.Store {
				if !p.Executor() {
					return s
				}
				return &noUnknownStore{s, p}
			},
		},
	)
}

// claimErrorStore is a worker's store whose claims hide one kind of refusal: they seem to have no answer.
type claimErrorStore struct {
	store.Store
	p       Process
	unheard []error
	what    string
}

// Claim implements store.Worker.
func (c *claimErrorStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := c.Store.Claim(ctx, w, cs)
	if slices.ContainsFunc(c.unheard, func(of error) bool { return errors.Is(err, of) }) {
		c.p.Acted("treated the answer that its " + c.what + " is over as no answer")
		return nil, store.ErrUnavailable
	}
	return results, err
}

// successorHidingStore is a worker's store that reports a successor as a lost lease.
type successorHidingStore struct {
	store.Store
	p Process
}

// Heartbeat implements store.Worker.
func (s *successorHidingStore) Heartbeat(ctx context.Context, b store.Beat) (store.BeatReply, error) {
	reply, err := s.Store.Heartbeat(ctx, b)
	return reply, s.disguiseSuccessor(err)
}

// Claim implements store.Worker.
func (s *successorHidingStore) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, err := s.Store.Claim(ctx, w, cs)
	return results, s.disguiseSuccessor(err)
}

func (s *successorHidingStore) disguiseSuccessor(err error) error {
	if errors.Is(err, store.ErrSuperseded) {
		s.p.Acted("treated a successor as a lost lease")
		return store.ErrLost
	}
	return err
}

// noUnknownStore is an executor's store whose dispatches have no unknown outcome: they seem to have failed
// permanently.
type noUnknownStore struct {
	store.Store
	p Process
}

// DispatchDue implements store.Store.
func (n *noUnknownStore) DispatchDue(context.Context, store.DueDispatch) (store.DueDispatched, error) {
	return inTwoSteps()
}

// Dispatch implements store.Executor.
func (n *noUnknownStore) Dispatch(ctx context.Context, by string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	results, err := n.Store.Dispatch(ctx, by, ds)
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
		n.p.Acted("treated a dispatch of unknown outcome as failed")
		return nil, errors.New(err.Error())
	}
	return results, err
}
