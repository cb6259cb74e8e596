package soak_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/scenario"
	"handoff/chaos/soak"
	"handoff/core/config"
)

func TestDrawIsDeterministic(t *testing.T) {
	draw := func(seed uint64, d time.Duration) string { return string(soak.Draw(seed, d, soak.Default()).YAML(0.2)) }
	if first, second := draw(7, time.Hour), draw(7, time.Hour); first != second {
		t.Error("two plans of one seed differ")
	}
	if draw(7, time.Hour) == draw(8, time.Hour) {
		t.Error("two seeds give one plan")
	}
}

// A plan of an hour strikes every part five times in every way, with time to recover after each strike.
func TestPlanStrikesEveryPartFiveTimes(t *testing.T) {
	for seed := range uint64(50) {
		p := soak.Draw(seed, time.Hour, soak.Default())
		if p.Short() != "" {
			t.Fatalf("an hour is too short: %s", p.Short())
		}
		counts := make(map[string]int)
		end := time.Duration(0)
		for _, s := range p.Strikes {
			counts[s.What+" "+s.Part]++
			if s.At < end+3*time.Second {
				t.Errorf("seed %d: %s %s at %v, and the one before ended at %v", seed, s.What, s.Part, s.At, end)
			}
			end = s.At + s.For
			if strings.HasSuffix(s.Part, "executors") && s.For < 6*time.Second {
				t.Errorf("seed %d: the health probes of %s are cut for %v, but are 6 s apart", seed, s.Part, s.For)
			}
		}
		if end > p.For-3*time.Second {
			t.Errorf("seed %d: the last strike ends at %v of %v", seed, end, p.For)
		}
		wanted := []string{}
		for _, part := range []string{"executor-1", "executor-2", "shell-1", "shell-2", "shell-3"} {
			wanted = append(wanted, "kill "+part, "pause "+part, "cut "+part+" – database", "cut "+part+" – broker")
		}
		for _, what := range append(wanted, "kill database", "kill broker", "pause database", "pause broker") {
			if counts[what] < soak.Wanted {
				t.Errorf("seed %d: %s only %d times", seed, what, counts[what])
			}
		}
	}
}

func TestShortPlanKillsEveryPartOnce(t *testing.T) {
	p := soak.Draw(1, soak.LeastFor, soak.Default())
	var killed []string
	for _, s := range p.Strikes {
		if s.What == soak.Kill {
			killed = append(killed, s.Part)
		}
	}
	slices.Sort(killed)
	if !slices.Equal(killed, []string{"broker", "database", "executor-1", "executor-2", "shell-1", "shell-2", "shell-3"}) {
		t.Errorf("killed: %v", killed)
	}
	if !strings.Contains(p.Short(), "too short for a round") {
		t.Errorf("Short is %q", p.Short())
	}
	if short := soak.Draw(1, 10*time.Minute, soak.Default()).Short(); short != "10m0s has room for 2 of 5 strikes of every kind on every part" {
		t.Errorf("ten minutes: %q", short)
	}
}

func TestMissedNamesIneffectiveStrikes(t *testing.T) {
	r := &soak.Result{}
	for _, s := range []struct {
		part    string
		touched bool
	}{{"shell-1", false}, {"shell-1", true}, {"shell-2", false}, {"shell-2", false}} {
		r.Strikes = append(r.Strikes, soak.Struck{Strike: soak.Strike{What: soak.Pause, Part: s.part}, Touched: s.touched})
	}
	if missed := r.Missed(); !slices.Equal(missed, []string{"pause shell-2"}) {
		t.Errorf("missed: %v", missed)
	}
}

// A plan of any allowed length is a scenario that the loader accepts, with the faults of its strikes in order.
func TestPlanIsValidScenario(t *testing.T) {
	for _, d := range []time.Duration{soak.LeastFor, 90 * time.Second, 10 * time.Minute, time.Hour, soak.MostFor} {
		p := soak.Draw(3, d, soak.Default())
		s, err := scenario.Parse("plan.yaml", p.YAML(0.2))
		if err != nil {
			t.Fatalf("%v: %v", d, err)
		}
		scaled, err := s.Scaled(0.2, config.Hardened)
		if err != nil {
			t.Fatalf("%v: %v", d, err)
		}
		n := 0
		for _, strike := range p.Strikes {
			for range strike.Faults() {
				f := &scaled.Faults[n]
				n++
				if off := f.When.Min - strike.At; off < -time.Millisecond || off > time.Millisecond {
					t.Errorf("%v: fault %d begins at %v, its strike at %v", d, n, f.When.Min, strike.At)
				}
				if f.Kind.Ends == fault.WithRestart && strike.What != soak.Kill {
					t.Errorf("%v: %s is a %s", d, f.Name, strike.What)
				}
			}
		}
		if n != len(scaled.Faults) {
			t.Errorf("%v: %d faults for strikes of %d", d, len(scaled.Faults), n)
		}
	}
}
