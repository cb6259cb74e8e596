package sim

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/selftest/mutant"
	"handoff/core/config"
	"handoff/core/store"
	"handoff/scenarios"
)

type recording []history.Event

// Observe implements history.Sink.
func (r *recording) Observe(e *history.Event) { *r = append(*r, *e) }

// Recording does not change a run: a recorded replay has the hash and the steps of the original run.
func TestRecordingChangesNothing(t *testing.T) {
	s, err := scenarios.Find("everything-at-once")
	if err != nil {
		t.Fatal(err)
	}
	for seed := uint64(1); seed <= 10; seed++ {
		var events recording
		swept := Run(s, config.Hardened, Options{Seed: seed})
		replayed := Run(s, config.Hardened, Options{Seed: seed, Record: &events})
		if swept.Hash != replayed.Hash || swept.Steps != replayed.Steps {
			t.Errorf("seed %d: hash %x after %d steps, and %x after %d steps when it is recorded", seed, swept.Hash, swept.Steps, replayed.Hash, replayed.Steps)
		}
		logged := slices.ContainsFunc(events, func(e history.Event) bool { return e.Kind == history.Logged })
		if len(events) == 0 || !logged {
			t.Errorf("seed %d: %d events were recorded, the core's log lines among them: %v", seed, len(events), logged)
		}
	}
}

func TestDifferentSeedsGiveDifferentHistories(t *testing.T) {
	s, err := scenarios.Find("crash-after-heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[uint64]uint64)
	for seed := uint64(1); seed <= 50; seed++ {
		hash := Run(s, config.Hardened, Options{Seed: seed}).Hash
		if other, twice := seen[hash]; twice {
			t.Errorf("seeds %d and %d have the same history", other, seed)
		}
		seen[hash] = seed
	}
}

// The simulated world offers everything that each kind of fault needs.
func TestSimulatorSupportsEveryFaultKind(t *testing.T) {
	for _, k := range fault.Kinds() {
		if why := k.Lacks(reflect.TypeFor[*world]()); why != "" {
			t.Errorf("%s: %s", k.Name, why)
		}
	}
}

// panicking is a store that returns a reply that makes the core panic.
type panicking struct{ store.Store }

// Clock implements store.Store: only one part calls it.
func (panicking) Clock(context.Context) (time.Time, error) { panic("planted") }

// A panic of the core fails the run, with the process, the place and the stack. It does not end the harness.
func TestCorePanicFailsTheRun(t *testing.T) {
	s, err := scenarios.Find("crash-after-heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	planted := &mutant.Mutant{Name: "panics", Store: func(_ mutant.Process, c store.Store) store.Store { return panicking{c} }}
	r := Run(s, config.Hardened, Options{Seed: 1, Mutant: planted})
	for _, part := range []string{"planted", "executor-1", "monitorTimeouts"} {
		if !strings.Contains(r.Panic, part) {
			t.Errorf("the panic does not name %q: %s", part, r.Panic)
		}
	}
}
