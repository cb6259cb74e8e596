package sim

import (
	"strings"

	"handoff/chaos/history"
	"handoff/chaos/policies"
)

// ask asks the core for its tables and policies, outside the run: it takes no virtual time and no
// choice of the run. Its questions are drawn from the scenario, the profile and the seed, so that
// each run asks little and a sweep asks much.
func (w *world) ask() {
	draw := policies.Lots(w.options.Seed, w.scenario.Name+" "+string(w.profile))
	var a policies.Answers
	if w.mutant != nil && w.mutant.Answers != nil {
		core := policies.InForce()
		w.mutant.Answers(core)
		if report := w.acted(""); report != nil {
			report("answers otherwise than the core does", 0)
		}
		a = policies.AskBeside(core, draw)
	} else {
		a = policies.AskInForceBeside(draw)
	}
	w.emit(history.Event{Kind: history.PoliciesAsked, Count: int64(a.Asked), Text: strings.Join(a.Wrong, "\n")}) //nolint:gosec // there are a few thousand
}
