package sim

import (
	"fmt"
	"strings"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/execution"
	"handoff/scenarios"
)

// tally counts what a scenario's expectations ask for. It implements history.Sink.
type tally struct {
	wanted []string
	texts  map[string]int
	// completions before the first fault began, and since the last one began or ended.
	struck        bool
	before, after int
}

func newTally(texts []string) *tally { return &tally{wanted: texts, texts: make(map[string]int)} }

// Observe implements history.Sink.
func (t *tally) Observe(e *history.Event) {
	switch e.Kind {
	case history.FaultBegan, history.FaultEnded:
		t.struck, t.after = true, 0
	case history.Transition:
		if e.To == execution.Completed {
			if t.struck {
				t.after++
			} else {
				t.before++
			}
		}
		if e.To == execution.Failed && e.Text != "" {
			for _, text := range t.wanted {
				if strings.Contains(e.Text, text) {
					t.texts[text]++
				}
			}
		}
	default:
	}
}

// count counts rows by status and chains by their last status.
func (w *world) count(r *verdict.Run) {
	last := make(map[execution.ID]execution.Execution)
	for id := execution.ID(1); int(id) <= w.db.Rows(); id++ {
		row, _ := w.db.Execution(id)
		r.Rows[ended(row.Status)]++
		if best, known := last[row.Chain()]; !known || row.RetryCount > best.RetryCount {
			last[row.Chain()] = row
		}
	}
	for _, row := range last { //detlint:ok counting is the same in any order
		r.Chains[ended(row.Status)]++
	}
}

// accepted demands that everything that was submitted was accepted in the end: a client tries until it
// is told so. A client that was crashed is excused.
func (w *world) accepted(r *verdict.Run) {
	var originals int64
	for _, n := range r.Chains {
		originals += n
	}
	if submitted := int64(w.scenario.Submissions()); originals != submitted && w.options.CrashAt == nil {
		r.Violations = append(r.Violations, verdict.Violation{
			Name: "acceptance", Statement: "Everything that is submitted is accepted in the end, once.", Seed: r.Seed, Step: w.k.Step(), At: w.k.Now(),
			Message: fmt.Sprintf("%d executions were submitted and %d exist", submitted, originals),
		})
	}
}

// ended is the status itself where it is terminal, else None: stuck.
func ended(s execution.Status) execution.Status {
	if s.Terminal() {
		return s
	}
	return execution.None
}

// expectations judges what the scenario expects of every run.
func (w *world) expectations(r *verdict.Run) {
	e := w.scenario.Expect(w.profile)
	judge := func(what string, bounds []scenarios.Bound, counts [execution.Statuses]int64) {
		var total int64
		for _, n := range counts {
			total += n
		}
		for _, b := range bounds {
			status := execution.None
			if b.Of != scenarios.Stuck {
				status, _ = execution.ParseStatus(b.Of)
			}
			if n := counts[status]; !b.Holds(n, total) {
				r.Violations = append(r.Violations, verdict.Violation{
					Name: "expectation", Statement: "The scenario's own expectations hold.", Seed: r.Seed, Step: w.k.Step(), At: w.k.Now(),
					Message: fmt.Sprintf("%d of %d %s ended as %s; the scenario expects %s", n, total, what, b.Of, b.Source),
				})
			}
		}
	}
	judge("executions", e.Executions, r.Chains)
	judge("rows", e.Rows, r.Rows)
}
