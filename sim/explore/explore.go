// Package explore runs scenarios under many seeds, on all processors: one kernel per goroutine,
// nothing shared. It is outside of the deterministic world, so it may use clocks and goroutines;
// what it returns depends on neither.
package explore

import (
	"fmt"
	"runtime/debug"
	"strings"

	"handoff/chaos/mutant"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/scenarios"
	"handoff/sim"
	"handoff/sim/preempt"
)

// Target is one scenario under one profile, as it stands or varied.
type Target struct {
	Scenario *scenario.Scenario
	Profile  config.Profile
	// Varied says that each seed draws a scenario around this one (package vary) and runs that.
	Varied bool
}

// String is the target as messages name it.
func (t Target) String() string {
	if t.Varied {
		return fmt.Sprintf("%s (%s, varied)", t.Scenario.Name, t.Profile)
	}
	return fmt.Sprintf("%s (%s)", t.Scenario.Name, t.Profile)
}

// Targets lists every profile of every scenario, in their order.
func Targets(list []*scenario.Scenario) []Target {
	var targets []Target
	for _, s := range list {
		for _, p := range s.Profiles {
			targets = append(targets, Target{Scenario: s, Profile: p})
		}
	}
	return targets
}

// Reproduce is the command that shows a run again, as it can be pasted into a shell. A scenario of
// the library is known by its name, any other by its file.
func (t Target) Reproduce(seed uint64, f *mutant.Mutant) string {
	command := fmt.Sprintf("bin/%s replay %s --profile %s --seed %d", preempt.Program, t.Argument(), t.Profile, seed)
	if t.Varied {
		command += " --varied"
	}
	if f != nil && f.Name != "" {
		command += " --mutant " + f.Name
	}
	return command
}

// Argument is how a command line names the scenario. A file that only shares its name with one of
// the library is still named by its path.
func (t Target) Argument() string {
	if known, err := scenarios.Find(t.Scenario.Name); err == nil && known.Digest == t.Scenario.Digest {
		return t.Scenario.Name
	}
	return quote(t.Scenario.File)
}

// quote makes one word of a path, as a shell reads it.
func quote(path string) string {
	plain := strings.IndexFunc(path, func(r rune) bool {
		return !strings.ContainsRune("/._-+=:@%", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
	if plain && path != "" && path[0] != '-' {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// once runs one seed. What breaks in the harness itself is no verdict on the product: the run then
// counts as one that could not be judged.
func once(t Target, o sim.Options) (r *sim.Result) {
	defer func() {
		if p := recover(); p != nil {
			r = &sim.Result{Run: verdict.Run{
				Scenario: t.Scenario.Name, Profile: t.Profile, Seed: o.Seed,
				GaveUp: fmt.Sprintf("the harness panicked: %v\n%s", p, debug.Stack()),
			}}
			if o.Mutant != nil {
				r.Mutant = o.Mutant.Name
			}
		}
	}()
	r = t.run(o)
	if r.Panic != "" && harness(r.Panic) {
		r.GaveUp, r.Panic = "the harness panicked: "+r.Panic, ""
	}
	return r
}

// harness says whether a panic began in a checker or in a model, and not in the product. The models
// call the product and are called by it, so what counts is the frame that panicked: the first one
// of this module under the runtime's. Package guard panics for the product that calls it without a lock.
func harness(stack string) bool {
	lines := strings.Split(stack, "\n")
	from := 0
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") {
			from = i // the last one: a deferred function may have panicked again
		}
	}
	for _, line := range lines[from:] {
		if strings.HasPrefix(line, "handoff/") && !strings.HasPrefix(line, "handoff/sim/guard.Held(") {
			return !strings.HasPrefix(line, "handoff/core/")
		}
	}
	return false
}
