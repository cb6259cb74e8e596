package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/selftest/mutant/source/score"
	"handoff/chaos/verdict"
	"handoff/scenarios"
	"handoff/sim/explore"
)

const (
	// sourceMemory is far above the need of one run; a mutant that needs more would collect garbage
	// endlessly.
	sourceMemory = 1 << 30
	// sourceGarbage is the allowed garbage, in percent of the live memory.
	sourceGarbage = 1600
	// sourcePatience is the longest real time of a run, on a busy machine; most take 20 ms.
	sourcePatience = 2 * time.Minute
)

// sourceRun is the configuration of one core's process. A measurement starts its own program, built with the
// mutants' overlay, with the mutant's number in its environment.
type sourceRun struct {
	size       score.Size
	truth, out string
}

// runArgument is the first argument of such a process.
const runArgument = "run-one"

// runOne runs the library with the source mutant that the environment names.
func runOne(args []string) error {
	var o sourceRun
	flags := flag.NewFlagSet(runArgument, flag.ContinueOnError)
	flags.IntVar(&o.size.Seeds, "seeds", 1, "plain seeds of every scenario and profile")
	flags.IntVar(&o.size.Varied, "varied-seeds", 0, "varied ones")
	flags.StringVar(&o.truth, "truth", "", "the true core's runs; without it this is the true core, and writes them to --out")
	flags.StringVar(&o.out, "out", "", "where the result goes")
	if err := flags.Parse(args); err != nil {
		return usageError("%v", err)
	}
	return o.runLibrary()
}

func (s *sourceRun) runLibrary() error {
	// Garbage collection takes a tenth of a run's time, and one run holds little memory, so it may
	// wait until half of the limit is used.
	debug.SetGCPercent(sourceGarbage)
	runtime.MemProfileRate = 0 // the samples take a hundredth of the time
	debug.SetMemoryLimit(sourceMemory / 2)
	library, err := scenarios.Library()
	if err != nil {
		return s.writeResult(&score.Result{By: score.Start, Reached: true, Message: err.Error()})
	}
	var truth *score.Truth
	if s.truth != "" {
		if truth, err = readTruth(s.truth); err != nil {
			return err
		}
	}
	var once sync.Once
	var failed error
	var result *score.Result
	report := func(r *score.Result, leave bool) {
		once.Do(func() {
			result = r
			if s.truth != "" {
				failed = s.writeResult(r)
			}
			switch {
			case leave && s.truth == "":
				fmt.Fprintf(os.Stderr, "%s%v\n", prefix, notTrue(r))
				os.Exit(verdict.ExitBroken)
			case leave:
				os.Exit(0)
			}
		})
	}
	go watchMemory(func() { report(&score.Result{By: score.Memory, Reached: true}, true) })
	own := explore.SourceMutant(explore.Targets(sortByMutants(library)), s.size, truth, sourcePatience, func(r *score.Result) {
		report(r, r.By == score.Hang)
	})
	if s.truth != "" {
		return failed
	}
	if result.Killed() {
		return notTrue(result)
	}
	return s.writeResult(own)
}

// notTrue reports that the original core fails, so there is nothing to compare mutants with.
func notTrue(r *score.Result) error {
	return brokenError("the true core does not pass: %s in %s, seed %d: %s", r.By, r.Target, r.Seed, r.Message)
}

// readTruth reads the results of the original core.
func readTruth(path string) (truth *score.Truth, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &truth)
	}
	if err != nil {
		return nil, brokenError("reading the true core's runs from %s: %v", path, err)
	}
	return truth, nil
}

// sortByMutants sorts the scenarios by the number of planted mutants that name them as their own, the most
// first. Much happens in these, so they are likely to kill others too. The order affects how soon a mutant is
// killed, but not whether.
func sortByMutants(library []*scenario.Scenario) []*scenario.Scenario {
	own := map[string]int{}
	for _, m := range mutant.All() {
		own[m.Scenario]++
	}
	return slices.SortedStableFunc(slices.Values(library), func(a, b *scenario.Scenario) int { return own[b.Name] - own[a.Name] })
}

func (s *sourceRun) writeResult(v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(s.out, text, 0o600)
	}
	if err != nil {
		return brokenError("writing the result to %s: %v", s.out, err)
	}
	return nil
}

// watchMemory calls full when the process holds more memory than a run may.
func watchMemory(full func()) {
	for {
		time.Sleep(200 * time.Millisecond)
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.HeapAlloc > sourceMemory {
			full()
		}
	}
}

// firstLine is the first line that a crashed program printed about its end.
func firstLine(stderr string) string {
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "runtime:") {
			return strings.TrimSpace(line)
		}
	}
	first, _, _ := strings.Cut(stderr, "\n")
	return first
}
