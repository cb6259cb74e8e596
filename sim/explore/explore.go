// Package explore runs scenarios in the simulator under many seeds, and processes the failures. It runs a
// seed twice to test determinism, hunts mutants, shrinks a failing run to a small scenario, and explains
// why it failed. Runs are spread over all processors, each on its own kernel, and share nothing.
//
// The package is outside the deterministic world. Clocks and goroutines may affect which runs are made,
// their order, and whether a hanging run is abandoned. They don't affect the result of a finished run.
package explore

import (
	"fmt"
	"runtime/debug"
	"strings"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/scenarios"
	"handoff/sim"
	"handoff/sim/woven"
)

// Target is one scenario under one profile, as written or varied.
type Target struct {
	Scenario *scenario.Scenario
	Profile  config.Profile
	// Varied reports whether each seed draws a variant of the scenario (package vary) and runs that.
	Varied bool
}

// String returns the target's name in messages.
func (t Target) String() string {
	return fmt.Sprintf("%s (%s)", t.Scenario.Name, verdict.ProfileName(t.Profile, t.Varied))
}

// Targets lists every scenario under each of its profiles, in order.
func Targets(list []*scenario.Scenario) []Target {
	var targets []Target
	for _, s := range list {
		for _, p := range s.Profiles {
			targets = append(targets, Target{Scenario: s, Profile: p})
		}
	}
	return targets
}

// Reproduce returns the shell command that replays a run. It uses the name of a scenario of the library,
// and the file of any other.
func (t Target) Reproduce(seed uint64, f *mutant.Mutant) string {
	command := fmt.Sprintf("bin/%s replay %s --profile %s --seed %d", woven.Program, t.Argument(), t.Profile, seed)
	if t.Varied {
		command += " --varied"
	}
	if f != nil && f.Name != "" {
		command += " --mutant " + f.Name
	}
	return command
}

// Argument returns the scenario's name on a command line. A file that shares only its name with a scenario
// of the library is named by its path.
func (t Target) Argument() string {
	if known, err := scenarios.Find(t.Scenario.Name); err == nil && known.Digest == t.Scenario.Digest {
		return t.Scenario.Name
	}
	return shellQuote(t.Scenario.File)
}

// shellQuote quotes a path as one shell word, if necessary.
func shellQuote(path string) string {
	plain := strings.IndexFunc(path, func(r rune) bool {
		return !strings.ContainsRune("/._-+=:@%", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
	if plain && path != "" && path[0] != '-' {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// runOnce runs one seed of a target. A panic of the harness itself is not a verdict on the product: such a
// run counts as not judged.
func runOnce(t Target, o sim.Options) (r *sim.Result) {
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
	r = t.runSeed(o)
	if r.Panic != "" && isHarnessPanic(r.Panic) {
		r.GaveUp, r.Panic = "the harness panicked: "+r.Panic, ""
	}
	return r
}

// isHarnessPanic reports whether a panic began in a checker or a model, and not in the product. Models call
// the product and the product calls models, so the frame that panicked decides: the first frame of this
// module below the runtime's. woven.Held panics on behalf of the product that calls it without a lock.
func isHarnessPanic(stack string) bool {
	lines := strings.Split(stack, "\n")
	from := 0
	for i, line := range lines {
		if strings.HasPrefix(line, "panic(") {
			from = i // search for the last panic: a deferred function may have panicked again
		}
	}
	for _, line := range lines[from:] {
		if strings.HasPrefix(line, "handoff/") && !strings.HasPrefix(line, "handoff/sim/woven.Held(") {
			return !strings.HasPrefix(line, "handoff/core/")
		}
	}
	return false
}
