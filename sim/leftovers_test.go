package sim

import (
	"strconv"
	"strings"
	"testing"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/scenarios"
)

// At the end of a run, each queue of a worker belongs to a worker that the database knows, and each
// child to a parent: what two parts clean up, each waiting for the other, would stay for ever.
func TestNothingIsLeftOver(t *testing.T) {
	library, err := scenarios.Library()
	if err != nil {
		t.Fatal(err)
	}
	queues, children := 0, 0
	for _, s := range library {
		for _, p := range s.Profiles {
			if p != config.Hardened {
				continue
			}
			w := Run(s, p, Options{Seed: 1}).world
			for _, d := range w.broker.Depths() {
				id, ok := strings.CutPrefix(d.Queue, "worker.")
				if !ok {
					continue
				}
				id, _, _ = strings.Cut(id, ".")
				n, err := strconv.ParseInt(id, 10, 64)
				if err != nil {
					continue
				}
				queues++
				if w.db.WorkerName(execution.WorkerID(n)) == "" {
					t.Errorf("%s: the queue %s belongs to worker %d, which the database has forgotten: nobody will delete it", s.Name, d.Queue, n)
				}
			}
			for id := range execution.ID(w.db.Rows()) {
				row, there := w.db.Execution(id + 1)
				if !there || row.Parent == 0 {
					continue
				}
				children++
				if _, there := w.db.Execution(row.Parent); !there && row.AwaitsParent {
					t.Errorf("%s: execution %d waits for its parent %d, which has left", s.Name, row.ID, row.Parent)
				}
			}
		}
	}
	if queues < 100 || children < 50 {
		t.Errorf("only %d queues of workers and %d children were looked at", queues, children)
	}
}
