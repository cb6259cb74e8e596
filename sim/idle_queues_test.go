package sim

import (
	"context"
	"testing"

	"handoff/chaos/selftest/mutant"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/scenarios"
)

// fateBroker is a broker that records the deletions of idle queues.
type fateBroker struct {
	broker.Broker
	fates map[string]map[broker.QueueFate]int
}

func (f fateBroker) Connect(ctx context.Context) (broker.Session, error) {
	s, err := f.Broker.Connect(ctx)
	return fateSession{s, f.fates}, err
}

type fateSession struct {
	broker.Session
	fates map[string]map[broker.QueueFate]int
}

func (f fateSession) DeleteIdle(ctx context.Context, q broker.Queue) (broker.QueueFate, error) {
	fate, err := f.Session.DeleteIdle(ctx, q)
	if err == nil {
		if f.fates[q.Name] == nil {
			f.fates[q.Name] = make(map[broker.QueueFate]int)
		}
		f.fates[q.Name][fate]++
	}
	return fate, err
}

// The queues of workers that have been gone for longer than the retention are deleted, each by a single
// executor. No queue of a present worker is deleted.
func TestQueuesOfAbsentWorkersAreDeleted(t *testing.T) {
	scenario, err := scenarios.Find("workers-gone-for-long")
	if err != nil {
		t.Fatal(err)
	}
	for _, profile := range []config.Profile{config.Hardened, config.Documented} {
		fates := make(map[string]map[broker.QueueFate]int)
		listen := &mutant.Mutant{Name: "noted deletions", Broker: func(_ mutant.Process, b broker.Broker) broker.Broker { return fateBroker{b, fates} }}
		Run(scenario, profile, Options{Seed: 1, Mutant: listen})
		// Two workers were gone for longer than the retention, and two more may have returned too late.
		whole := 0
		for id := range execution.WorkerID(6) {
			work, cancels := fates[broker.WorkerQueue(id)], fates[broker.CancelQueue(id)]
			if work[broker.QueueDeleted] > 1 || cancels[broker.QueueDeleted] > 1 {
				t.Errorf("%s: queues of worker %d were deleted more than once: %v, %v", profile, id, work, cancels)
			}
			if work[broker.QueueDeleted] == 1 && cancels[broker.QueueDeleted] == 1 {
				whole++
			}
		}
		if whole < 2 || whole > 4 {
			t.Errorf("%s: both queues of %d workers were deleted: %v", profile, whole, fates)
		}
	}
}
