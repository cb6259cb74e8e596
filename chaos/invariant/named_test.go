package invariant

import (
	"testing"

	"handoff/core/execution"
)

func TestNameWorkersAddsNamesToNumbers(t *testing.T) {
	names := map[execution.WorkerID]string{1: "shell-2", 12: "python-1"}
	for text, want := range map[string]string{
		"worker 1 (incarnation 4) is charged with 3": "worker 1 (shell-2, incarnation 4) is charged with 3",
		"incarnation 4 of worker 12 stopped":         "incarnation 4 of worker 12 (python-1) stopped",
		"told worker 12, which is worker 1's":        "told worker 12 (python-1), which is worker 1 (shell-2)'s",
		"worker 3 is nobody's":                       "worker 3 is nobody's",
		"the queue worker.1.executions":              "the queue worker.1.executions",
		"coworker 1 and worker 1x":                   "coworker 1 and worker 1x",
	} {
		list := []Finding{{Invariant: ByNumber(9), Message: text}}
		NameWorkers(list, names)
		if list[0].Message != want {
			t.Errorf("%q, want %q", list[0].Message, want)
		}
	}
}
