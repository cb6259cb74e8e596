package api

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// Wherever a response has a worker's id, it also has the name: null without a worker, and for a worker that
// this executor does not know yet.
func TestResponsesIncludeWorkerNames(t *testing.T) {
	names := map[execution.WorkerID]string{7: "shell-7", 8: "shell-8"}
	b := setup(t, func(o *Options) { o.WorkerName = func(id execution.WorkerID) string { return names[id] } })
	b.store.rows = []execution.Execution{{ID: 1, Status: execution.Running, Worker: 7, Pinned: 8}, {ID: 2, Status: execution.Requested}, {ID: 3, Status: execution.Running, Worker: 9}}
	b.store.audit = map[execution.ID][]store.Transition{1: {{To: execution.Running, Worker: 7}}}
	b.store.observations = []store.Observation{{ID: 1, Part: store.PartProber, Worker: store.WorkerKey{ID: 7}}}
	b.store.letters = []store.StoredDeadLetter{{ID: 1, DeadLetter: store.DeadLetter{Worker: 7}}}
	for path, want := range map[string]string{
		"executions":               `"worker":9,"worker_name":null,"pinned_worker":null,"pinned_worker_name":null,"worker":null,"worker_name":null,"pinned_worker":null,"pinned_worker_name":null,"worker":7,"worker_name":"shell-7","pinned_worker":8,"pinned_worker_name":"shell-8"`,
		"executions/1":             `"worker":7,"worker_name":"shell-7","pinned_worker":8,"pinned_worker_name":"shell-8"`,
		"executions/1/transitions": `"worker":7,"worker_name":"shell-7"`,
		"observations":             `"worker":7,"worker_name":"shell-7"`,
		"dead-letters":             `"worker":7,"worker_name":"shell-7"`,
		"dead-letters/1":           `"worker":7,"worker_name":"shell-7"`,
		"dead-letters/summary":     `"worker":7,"worker_name":"shell-7","worker":null,"worker_name":null`,
	} {
		a := b.do(http.MethodGet, "/api/v1/"+path, "")
		got := strings.Join(regexp.MustCompile(`"(pinned_)?worker(_name)?":[^,}]*`).FindAllString(a.text, -1), ",")
		if a.status != http.StatusOK || got != want {
			t.Errorf("%s: %d\n got %s\nwant %s", path, a.status, got, want)
		}
	}
}

func TestChangeStreamIncludesWorkerNames(t *testing.T) {
	s := NewServer(Options{Config: config.Default(config.Hardened), WorkerName: func(execution.WorkerID) string { return "shell-7" }})
	var said strings.Builder
	out := &eventWriter{w: &said, view: s.viewTransition}
	out.writeChange(&store.Change{Execution: 1, Transition: store.Transition{To: execution.Running, Worker: 7}})
	if !strings.Contains(said.String(), `"worker":7,"worker_name":"shell-7"`) {
		t.Errorf("the stream says %s", said.String())
	}
}
