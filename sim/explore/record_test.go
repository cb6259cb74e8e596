package explore

import (
	"testing"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// The story of an execution includes its workers' warnings, unless they name other executions.
func TestStoryIncludesWarningsOfItsWorkers(t *testing.T) {
	r := new(verdict.Record)
	r.Workers = map[execution.WorkerID]string{1: "shell-1", 2: "shell-2"}
	r.Events = []history.Event{
		{Kind: history.Transition, Execution: 7, Chain: 5, Worker: 1},
		{Kind: history.Transition, Execution: 8, Chain: 8, Worker: 2},
	}
	about := Story(r, 7)
	for _, c := range []struct {
		process, line string
		want          bool
	}{
		{"shell-1", "WARN heartbeat failed, trying again worker=shell-1", true},
		{"shell-1", "ERROR claim refused by the database worker=shell-1", true},
		{"shell-1", "INFO registered worker=shell-1", false},
		{"shell-1", "WARN result refused worker=shell-1 execution=8", false},
		{"shell-1", "INFO starting execution worker=shell-1 execution=7 epoch=1", true},
		{"shell-2", "WARN heartbeat failed, trying again worker=shell-2", false},
	} {
		if got := about(&history.Event{Kind: history.Logged, Process: c.process, Text: c.line}); got != c.want {
			t.Errorf("%s: %s: shown is %v, want %v", c.process, c.line, got, c.want)
		}
	}
}
