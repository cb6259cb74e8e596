package sim

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/telemetry"
)

// stopped is how long work may stop before an alert must fire.
const stopped = 2 * time.Minute

// If a fault stops all work for longer than two minutes, an alert fires during the standstill, and all alerts
// resolve afterwards. Each kind of fault strikes, at full strength, a cluster of one executor and one worker
// that always has work. The faults are derived from the kinds' examples.
func TestFaultsThatStopWorkFireAlerts(t *testing.T) {
	var quiet []string
	for _, k := range fault.Kinds() {
		s, err := scenario.Parse("told.yaml", fmt.Appendf(nil, untold, fullStrength(k), strings.Join(telemetry.RuleNames(), ", ")))
		if err != nil {
			t.Errorf("%s: %v", k.Name, err)
			continue
		}
		h := &standstill{}
		Run(s, config.Hardened, Options{Seed: 1, Record: h})
		switch {
		case h.began == 0:
			t.Errorf("%s did not begin", k.Name)
		case h.longest <= stopped:
			quiet = append(quiet, k.Name)
		case !h.told:
			t.Errorf("%s: nothing ended for %v, until %v, and no alert fired within %v and another minute; these did: %v", k.Name, h.longest, h.until, stopped, h.fired)
		default:
			t.Logf("%s: nothing ended for %v; %s", k.Name, h.longest, strings.Join(h.fired, ", "))
		}
		// dead_letters_open keeps firing because unreadable messages wait for a person.
		if h.firing = slices.DeleteFunc(h.firing, func(name string) bool { return name == "dead_letters_open" }); len(h.firing) > 0 {
			t.Errorf("%s: long after it %v fire", k.Name, h.firing)
		}
	}
	t.Logf("stop no work for that long: %s", strings.Join(quiet, ", "))
	if n := len(fault.Kinds()) - len(quiet); n < 15 {
		t.Errorf("only %d kinds of faults stop work, so the others show nothing", n)
	}
}

const untold = `
name: told
about: A fault of full strength strikes a cluster that always has work.
worlds: [sim]
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 4}
profile: [hardened]
actions:
  core.echo: {runtime: shell, takes: 1s, max_retries: 9}
workload:
  - {action: core.echo, count: 400, every: 2s}
faults:
  - {when: {at: 60s}, %s}
settle: {within: 6h}
expect:
  invariants: [15]
  alerts: {resolves: [%s]}
`

var (
	lasts  = regexp.MustCompile(`(for|restart_after): \w+$`)
	shares = regexp.MustCompile(`\b\d+%`)
	spans  = regexp.MustCompile(`\[\d+m?s, \d+m?s\]`)
)

// fullStrength returns a kind's example entry with long durations and the highest rates.
func fullStrength(k *fault.Kind) string {
	text := lasts.ReplaceAllString(k.Example, "$1: 4m")
	text = strings.ReplaceAll(text, "dead_letters", "shell-1")
	if !strings.HasPrefix(text, "clock") {
		text = shares.ReplaceAllString(text, "100%")
	}
	return spans.ReplaceAllString(text, "[20s, 30s]")
}

// standstill measures the longest period without a completed execution after the fault has begun.
type standstill struct {
	began, last, longest, until time.Duration
	fired, firing               []string
	// told reports whether an alert fired soon enough in the longest standstill. alert is the time of the
	// first alert in the current standstill, or its beginning if one already fired.
	told  bool
	alert time.Duration
}

// Observe implements history.Sink.
func (s *standstill) Observe(e *history.Event) {
	switch e.Kind {
	case history.FaultBegan:
		s.began, s.last = e.At, e.At
	case history.AlertFired:
		s.fired, s.firing = append(s.fired, e.Fault), append(s.firing, e.Fault)
		if s.alert < s.last {
			s.alert = e.At
		}
	case history.AlertResolved:
		s.firing = slices.DeleteFunc(s.firing, func(name string) bool { return name == e.Fault })
	case history.Transition:
		if e.To != execution.Completed {
			return
		}
		if gap := e.At - s.last; s.began > 0 && gap > s.longest {
			s.longest, s.until = gap, e.At
			s.told = s.alert >= s.last && s.alert-s.last <= stopped+time.Minute
		}
		s.last, s.alert = e.At, -1
		if len(s.firing) > 0 {
			s.alert = e.At
		}
	default:
	}
}
