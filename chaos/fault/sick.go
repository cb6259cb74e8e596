package fault

import (
	"slices"

	"handoff/chaos/history"
	"handoff/core/execution"
)

func init() {
	Register(Kind{
		Name: "sick", Ends: WithFor, Excuses: []Cause{WorkerSick},
		About:   "a worker's machine can't start any action",
		Example: "sick: shell-1, for: 2m",
		Draw:    func(d *Dice) string { return "sick: " + d.Worker() },
	}, (*sickWorker).inject)
}

type sickWorker struct{ workerTarget }

// ShownBy implements Shown: a worker that could not start an action releases the execution as
// worker_unavailable.
func (*sickWorker) ShownBy(x *Injection, e *history.Event, workers Names) bool {
	return e.Kind == history.Transition && e.From == execution.Running && e.Reason == execution.WorkerUnavailable &&
		slices.Contains(x.Targets, workers(e.Worker))
}

func (*sickWorker) inject(x *Injection, w Sickness) (func(), error) { return w.Sicken(x) }
