package main

import (
	"encoding/json"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"handoff/chaos/mutant"
	"handoff/chaos/mutant/source/score"
	"handoff/chaos/scenario"
	"handoff/scenarios"
	"handoff/sim/explore"
)

const (
	// sourceMemory is far above what one run needs; a mutant that needs more collects without end.
	sourceMemory = 1 << 30
	// sourcePatience is how long a run may take, in real time, on a busy machine; most take 20 ms.
	sourcePatience = 2 * time.Minute
)

// sourceRun is what the process of one source mutant is told: a build with the mutants' overlay is
// started by `mutants --source`, with the mutant's number in its environment.
type sourceRun struct {
	from, seeds int
	truth, out  string
}

// sourceRunCommand is the other side of `mutants --source`, and no command for people.
func (a *app) sourceRunCommand() *cobra.Command {
	var o sourceRun
	cmd := &cobra.Command{
		Use: "source-run", Hidden: true, Args: noArgs,
		Short: "Run the library with the source mutant that the environment names",
		RunE:  func(*cobra.Command, []string) error { return o.run() },
	}
	cmd.Flags().IntVar(&o.from, "from", 1, "the first seed")
	cmd.Flags().IntVar(&o.seeds, "seeds", 1, "the last seed")
	cmd.Flags().StringVar(&o.truth, "truth", "", "the true core's runs; without it this is the true core, and writes them to --out")
	cmd.Flags().StringVar(&o.out, "out", "", "where the result goes")
	return cmd
}

func (o *sourceRun) run() error {
	library, err := scenarios.Library()
	if err != nil {
		return o.write(&score.Result{By: score.Start, Reached: true, Message: err.Error()})
	}
	var truth *score.Truth
	if o.truth != "" {
		text, err := os.ReadFile(o.truth)
		if err == nil {
			err = json.Unmarshal(text, &truth)
		}
		if err != nil {
			return broken("reading the true core's runs from %s: %v", o.truth, err)
		}
	}
	var once sync.Once
	var failed error
	var result *score.Result
	report := func(r *score.Result, leave bool) {
		once.Do(func() {
			result = r
			if o.truth != "" {
				failed = o.write(r)
			}
			if leave {
				os.Exit(0)
			}
		})
	}
	go watchMemory(func() { report(&score.Result{By: score.Memory, Reached: true}, true) })
	own := explore.SourceMutant(explore.Targets(eventful(library)), o.from, o.seeds, truth, sourcePatience, func(r *score.Result) {
		report(r, r.By == score.Hang)
	})
	if o.truth != "" {
		return failed
	}
	if result.Killed() {
		return broken("the true core does not pass: %s in %s, seed %d: %s", result.By, result.Target, result.Seed, result.Message)
	}
	return o.write(own)
}

// eventful has the scenarios first that most planted mutants call their own: much happens in them, so they
// are likely to kill others too. The order decides how soon a mutant is killed, and not whether.
func eventful(library []*scenario.Scenario) []*scenario.Scenario {
	own := map[string]int{}
	for _, m := range mutant.All() {
		own[m.Scenario]++
	}
	return slices.SortedStableFunc(slices.Values(library), func(a, b *scenario.Scenario) int { return own[b.Name] - own[a.Name] })
}

func (o *sourceRun) write(v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(o.out, text, 0o600)
	}
	if err != nil {
		return broken("writing the result to %s: %v", o.out, err)
	}
	return nil
}

// watchMemory calls full when the process holds more than a run may.
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

// firstLine is what a program that broke off said first of its end.
func firstLine(stderr string) string {
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.HasPrefix(line, "runtime:") {
			return strings.TrimSpace(line)
		}
	}
	first, _, _ := strings.Cut(stderr, "\n")
	return first
}
