package scenario

import (
	"strings"
	"testing"

	"handoff/core/config"
	"handoff/core/telemetry"
)

func TestLineFindsBrokenExpectation(t *testing.T) {
	const text = `name: lines
about: x
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell]}
actions:
  a.b: {runtime: shell, takes: 1s}
workload:
  - {action: a.b, count: 5, every: 1s}
expect:
  hardened:
    invariants:
      - 4
      - 15
    executions:
      completed: ">= 80%"
      stuck: 0
    rows: {abandoned: 0}
    alerts:
      fires: [ExecutionsStuck]
  documented:
    invariants: all
    executions: {completed: ">= 80%"}
`
	s, err := Parse("lines.yaml", []byte(strings.Replace(text, "ExecutionsStuck", telemetry.RuleNames()[0], 1)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		profile   config.Profile
		invariant int
		message   string
		line      int
	}{
		{"hardened", 4, "x", 14},
		{"hardened", 15, "y", 15},
		{"hardened", 15, "the alert " + telemetry.RuleNames()[0] + " never fired", 21},
		{"hardened", 2, "not judged on its own", 13},
		{"documented", 4, "x", 23},
		{"hardened", 0, `3 of 5 executions ended as completed; the scenario expects completed: >= 80%`, 17},
		{"hardened", 0, `1 of 5 executions are stuck; the scenario expects stuck: 0`, 18},
		{"hardened", 0, `1 of 6 rows ended as abandoned; the scenario expects abandoned: 0`, 19},
		{"documented", 0, `3 of 5 executions ended as completed; the scenario expects completed: >= 80%`, 24},
		{"hardened", 0, "5 executions were submitted and 6 exist", 1},
	} {
		if got := s.Line(c.profile, c.invariant, c.message); got != c.line {
			t.Errorf("invariant %d under %s, %q: line %d, want %d", c.invariant, c.profile, c.message, got, c.line)
		}
	}
}
