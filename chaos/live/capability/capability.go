// Package capability decides which scenarios the live world can run, and with which tolerance it judges them.
// It starts nothing and imports no server driver, so programs without the live world can use it, too.
package capability

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"handoff/chaos/scenario"
	"handoff/core/config"
)

// Tolerance is the longest time between a statement's decision about a row and the run of the row's trigger.
// A reclaim is dated by its trigger, but its delay counts from the decision. 191 ms were measured on two busy
// processors. Five times as much is allowed, so that a rule judges the daemons and not the machine.
const Tolerance = time.Second

// Unable returns why the live world can't run a scenario under a profile at a time scale; empty if it can.
func Unable(s *scenario.Scenario, p config.Profile, scale float64) string {
	return unableReason(s, p, scale, func(runtime string) string {
		program := map[string]string{config.RuntimeShell: "/bin/sh", config.RuntimePython: "python3", config.RuntimeNode: "node"}[runtime]
		if _, err := exec.LookPath(program); program != "" && err != nil {
			return fmt.Sprintf("the runtime %s needs %s, which is not installed", runtime, program)
		}
		return ""
	})
}

// UnableInCompose returns why containers of a compose file can't run a scenario under a profile at a time
// scale; empty if they can.
func UnableInCompose(s *scenario.Scenario, p config.Profile, scale float64) string {
	return unableReason(s, p, scale, func(runtime string) string {
		if runtime == config.RuntimeNode {
			return "the image of the daemons has no node, which the runtime node needs"
		}
		return ""
	})
}

// unableReason returns why a scenario can't be run; empty if it can. lacks returns what a runtime lacks;
// empty for nothing.
func unableReason(s *scenario.Scenario, p config.Profile, scale float64, lacks func(runtime string) string) string {
	var why []string
	add := func(text string) {
		if text != "" && !slices.Contains(why, text) {
			why = append(why, text)
		}
	}
	for i := range s.Faults {
		if reason := scenario.Lacks(s.Faults[i].Kind, scenario.Live); reason != "" {
			add(fmt.Sprintf("it has no %s: %s", s.Faults[i].Kind.Name, reason))
		}
	}
	for _, w := range s.Cluster.Workers {
		for _, r := range w.Runtimes {
			add(lacks(r))
		}
	}
	if _, err := s.Scaled(scale, p); err != nil {
		add(err.Error())
	}
	return strings.Join(why, "; ")
}
