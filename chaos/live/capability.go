package live

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"handoff/core/config"
	"handoff/scenarios"
)

// Unable says why the live world can't run a scenario under a profile at a time scale; empty if it can.
func Unable(s *scenarios.Scenario, p config.Profile, scale float64) string {
	var why []string
	for i := range s.Faults {
		f := &s.Faults[i]
		if reason := f.Kind.Lacks(scenarios.Live); reason != "" {
			if text := fmt.Sprintf("it has no %s: %s", f.Kind, reason); !slices.Contains(why, text) {
				why = append(why, text)
			}
		}
	}
	for _, w := range s.Cluster.Workers {
		for _, r := range w.Runtimes {
			if program := interpreter(r); program != "" {
				if _, err := exec.LookPath(program); err != nil {
					why = append(why, fmt.Sprintf("the runtime %s needs %s, which is not installed", r, program))
				}
			}
		}
	}
	if _, err := s.Scaled(scale, p); err != nil {
		why = append(why, err.Error())
	}
	return strings.Join(why, "; ")
}

// UnableInCompose says why the containers of a compose file can't run a scenario under a profile at a time scale;
// empty if they can.
func UnableInCompose(s *scenarios.Scenario, p config.Profile, scale float64) string {
	var why []string
	add := func(text string) {
		if !slices.Contains(why, text) {
			why = append(why, text)
		}
	}
	for i := range s.Faults {
		k := s.Faults[i].Kind
		for _, reason := range []string{k.Lacks(scenarios.Live), LacksInCompose(k)} {
			if reason != "" {
				add(fmt.Sprintf("it has no %s: %s", k, reason))
			}
		}
	}
	for _, w := range s.Cluster.Workers {
		if slices.Contains(w.Runtimes, config.RuntimeNode) {
			add("the image of the daemons has no node, which the runtime node needs")
		}
	}
	if _, err := s.Scaled(scale, p); err != nil {
		add(err.Error())
	}
	return strings.Join(why, "; ")
}

// LacksInCompose says why a kind of fault that processes of this machine can have can't be brought about in the
// containers of a compose file; empty if it can.
func LacksInCompose(k scenarios.FaultKind) string {
	switch k {
	case scenarios.DropMessages, scenarios.DelayMessages, scenarios.ReorderMessages, scenarios.DuplicateMessage, scenarios.CorruptMessages, scenarios.Deaf:
		return "toxiproxy's container passes bytes and knows no messages; without --target compose the proxies are the harness's own, and do"
	default:
		return ""
	}
}

// interpreter is the program that a runtime needs, empty for none.
func interpreter(runtime string) string {
	return map[string]string{config.RuntimeShell: "/bin/sh", config.RuntimePython: "python3", config.RuntimeNode: "node"}[runtime]
}
