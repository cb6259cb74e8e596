package run

import (
	"fmt"

	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// Judge adds the findings of the invariants to a run, and what its rows, each as the run left it, say of
// the scenario's expectations.
func Judge(r *verdict.Run, s *scenario.Scenario, findings []invariant.Finding, rows []execution.Execution, accepted bool) {
	for _, f := range findings {
		r.Violations = append(r.Violations, verdict.Violation{
			Invariant: f.Invariant.Number, Name: f.Invariant.Name, Statement: f.Invariant.Statement, Seed: r.Seed,
			Execution: f.Execution, Step: f.Step, At: f.At, Message: f.Message,
		})
	}
	count(r, rows)
	if accepted {
		acceptance(r, s)
	}
	expectations(r, s.Expect(r.Profile))
}

// count counts rows by status and chains by their last status.
func count(r *verdict.Run, rows []execution.Execution) {
	last := make(map[execution.ID]*execution.Execution)
	for i := range rows {
		row := &rows[i]
		r.Rows[ended(row.Status)]++
		if best := last[row.Chain()]; best == nil || row.RetryCount > best.RetryCount {
			last[row.Chain()] = row
		}
	}
	for _, row := range last { //detlint:ok counting is the same in any order
		r.Chains[ended(row.Status)]++
	}
}

// ended is the status itself where it is terminal, else None: stuck.
func ended(s execution.Status) execution.Status {
	if s.Terminal() {
		return s
	}
	return execution.None
}

// acceptance demands that everything that was submitted was accepted in the end: a client tries until it
// is told so.
func acceptance(r *verdict.Run, s *scenario.Scenario) {
	var originals int64
	for _, n := range r.Chains {
		originals += n
	}
	if submitted := int64(s.Submissions()); originals != submitted {
		violate(r, "acceptance", "Everything that is submitted is accepted in the end, once.",
			fmt.Sprintf("%d executions were submitted and %d exist", submitted, originals))
	}
}

// expectations judges what the scenario expects of every run.
func expectations(r *verdict.Run, e scenario.Expect) {
	judge := func(what string, bounds []scenario.Bound, counts [execution.Statuses]int64) {
		var total int64
		for _, n := range counts {
			total += n
		}
		for _, b := range bounds {
			status := execution.None
			if b.Of != scenario.Stuck {
				status, _ = execution.ParseStatus(b.Of)
			}
			if n := counts[status]; !b.Holds(n, total) {
				violate(r, "expectation", "The scenario's own expectations hold.",
					fmt.Sprintf("%d of %d %s ended as %s; the scenario expects %s", n, total, what, b.Of, b.Source))
			}
		}
	}
	judge("executions", e.Executions, r.Chains)
	judge("rows", e.Rows, r.Rows)
}

func violate(r *verdict.Run, name, statement, message string) {
	r.Violations = append(r.Violations, verdict.Violation{
		Name: name, Statement: statement, Seed: r.Seed, Step: r.Steps, At: r.Virtual, Message: message,
	})
}
