//go:build !simulator

package main

import (
	"testing"

	"handoff/chaos/live"
	"handoff/chaos/verdict"
)

func TestUnjudgedRuns(t *testing.T) {
	scenarios := func(inconclusive int) []*verdict.Scenario {
		all := make([]*verdict.Scenario, 20)
		for i := range all {
			all[i] = &verdict.Scenario{}
			if i < inconclusive {
				all[i].Verdict = verdict.Inconclusive
			}
		}
		return all
	}
	for _, c := range []struct {
		name          string
		done          live.Outcome
		v             verdict.Verdict
		said, tooMany bool
	}{
		{"all judged", live.Outcome{Scenarios: scenarios(0), Runs: 20}, verdict.Pass, false, false},
		{"two of twenty", live.Outcome{Scenarios: scenarios(2), Runs: 20, Unjudged: map[int]int{0: 1, 1: 1}}, verdict.Inconclusive, true, false},
		{"three of twenty", live.Outcome{Scenarios: scenarios(3), Runs: 20, Unjudged: map[int]int{0: 1, 1: 1, 2: 1}}, verdict.Inconclusive, true, true},
		{"one of four", live.Outcome{Scenarios: scenarios(1), Runs: 4, Unjudged: map[int]int{0: 1}}, verdict.Inconclusive, true, false},
		{"one with an inconclusive scenario", live.Outcome{Scenarios: scenarios(2), Runs: 20, Unjudged: map[int]int{0: 1}}, verdict.Inconclusive, false, false},
		{"one with a failure", live.Outcome{Scenarios: scenarios(1), Runs: 20, Unjudged: map[int]int{0: 1}}, verdict.Fail, false, false},
		{"an interrupted plan", live.Outcome{Scenarios: scenarios(1), Runs: 20, Unjudged: map[int]int{0: 1}, Interrupted: true}, verdict.Inconclusive, false, false},
	} {
		if tooMany, text := unjudgedNote(&c.done, c.v); tooMany != c.tooMany || (text != "") != c.said {
			t.Errorf("%s: too many is %v, %q", c.name, tooMany, text)
		}
	}
}
