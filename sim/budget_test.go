package sim

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/core/config"
)

// The budget is the number of statements and messages that an execution costs without faults, from its
// creation to the handling of its end. A run is a function of its seed, so these numbers have no noise. A
// number that grows by more than 3 % fails the test:
//
//	go test ./sim -run 'TestBudget$' -update-budget
//
// rewrites them. chaos/selftest/conformance/postgrestest has a budget for the cost of the statements
// themselves.

var updateBudget = flag.Bool("update-budget", false, "write testdata/budget.txt")

// mayGrow is the largest factor by which a number in the budget may grow.
const mayGrow = 1.03

const budgetFile = "testdata/budget.txt"

// counting counts the events of a run by kind.
type counting struct{ of [history.Kinds]int }

// Observe implements history.Sink.
func (c *counting) Observe(e *history.Event) {
	// A message with several dispatches has one event for each dispatch.
	if (e.Kind == history.Published || e.Kind == history.Enqueued) && e.Limit > 1 {
		return
	}
	c.of[e.Kind]++
}

// spending returns the cost of an execution under each load, keyed by the budget's names.
func spending(t *testing.T, m *mutant.Mutant) map[string]float64 {
	t.Helper()
	const executions = 2_000
	figures := map[string]float64{}
	for name, text := range map[string]string{"steady": steadyLoad(executions), "busy": busyLoad(executions)} {
		s, err := scenario.Parse(name+".yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var seen counting
		r := Run(s, config.Hardened, Options{Seed: 1, Mutant: m, Record: &seen})
		if m == nil && (len(r.Violations) > 0 || r.Panic != "" || r.GaveUp != "") {
			t.Fatalf("%s: %v %s %s", name, r.Violations, r.Panic, r.GaveUp)
		}
		note := func(figure string, n float64) { figures[name+" load, "+figure] = n / executions }
		note("steps", float64(r.Steps))
		note("messages", float64(seen.of[history.Published]))
		note("copies in queues", float64(seen.of[history.Enqueued]))
		note("events", float64(r.Events))
		byExecutors, byWorkers := 0.0, 0.0
		r.world.Statements(func(_ string, worker bool, made uint64) {
			if worker {
				byWorkers += float64(made)
			} else {
				byExecutors += float64(made)
			}
		})
		note("statements of the executor", byExecutors)
		note("statements of workers", byWorkers)
	}
	return figures
}

func TestBudget(t *testing.T) {
	now := spending(t, nil)
	if *updateBudget {
		text := "# What one execution costs, by load and figure. Written by TestBudget -update-budget.\n"
		for _, name := range slices.Sorted(maps.Keys(now)) {
			text += fmt.Sprintf("%9.3f  %s\n", now[name], name)
		}
		if err := os.WriteFile(budgetFile, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, fault := range over(budget(t), now) {
		t.Error(fault)
	}
}

// Mutants that make superfluous statements or send superfluous messages exceed the budget.
func TestBudgetDetectsExtraStatementsAndMessages(t *testing.T) {
	was := budget(t)
	for name, figure := range map[string]string{"polls-too-often": "statements", "sent-twice": "messages"} {
		m := mutant.Find(name)
		if m == nil {
			t.Fatalf("there is no mutant %q", name)
		}
		if faults := strings.Join(over(was, spending(t, m)), "\n"); !strings.Contains(faults, figure) {
			t.Errorf("%s: no figure of %s is above its budget; reported:\n%s", name, figure, faults)
		}
	}
}

func budget(t *testing.T) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile(budgetFile)
	if err != nil {
		t.Fatalf("%v; -update-budget writes it", err)
	}
	was := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		var n float64
		if strings.HasPrefix(line, "#") {
			continue
		}
		if _, err := fmt.Sscan(line, &n); err != nil {
			t.Fatalf("%s: %q: a figure and its name are expected", budgetFile, line)
		}
		was[strings.Join(strings.Fields(line)[1:], " ")] = n
	}
	return was
}

// over lists the numbers that have grown too much, are new or are missing.
func over(was, now map[string]float64) (faults []string) {
	for _, name := range slices.Sorted(maps.Keys(now)) {
		w, known := was[name]
		switch {
		case !known:
			faults = append(faults, name+" has no budget; -update-budget writes one")
		case now[name] > w*mayGrow:
			faults = append(faults, fmt.Sprintf("%s: %.3f an execution, and %.3f are allowed (%.3f before, and a thirtieth more)", name, now[name], w*mayGrow, w))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, is := now[name]; !is {
			faults = append(faults, name+" has a budget and is not measured")
		}
	}
	return faults
}
