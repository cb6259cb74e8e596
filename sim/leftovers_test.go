package sim

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/scenarios"
)

// At the end of a run, each worker queue belongs to a worker in the database, and each child has a parent.
// Leftovers that two parts must clean up, each waiting for the other, would stay permanently.
func TestRunLeavesNoOrphanedQueuesOrChildren(t *testing.T) {
	library, err := scenarios.Library()
	if err != nil {
		t.Fatal(err)
	}
	var found leftovers
	for _, s := range append(library, parsed(t, goneWhileTheBrokerIsAway)) {
		if slices.Contains(s.Profiles, config.Hardened) {
			found.look(t, s.Name, Run(s, config.Hardened, Options{Seed: 1}).world)
		}
	}
	if found.queues < 100 || found.children < 50 {
		t.Errorf("only %d queues of workers and %d children were looked at", found.queues, found.children)
	}
}

// goneWhileTheBrokerIsAway is a scenario in which a worker and its queues become due for deletion while the
// broker is down.
const goneWhileTheBrokerIsAway = `
name: gone-while-the-broker-is-away
about: A worker's queues and the worker become due for deletion while the broker is away.
worlds: [sim]
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 1}
    gone-1: {runtimes: [shell], concurrency: 1}
profile: [hardened]
config:
  executor: {queue_retention: 10m}
  retention: {workers: 12m, incarnations: 12m, interval: 1m}
actions:
  core.echo: {runtime: shell, takes: 1s}
workload:
  - {action: core.echo, count: 60, every: 60s}
faults:
  - {when: {at: 60s}, stop: gone-1}
  - {when: {at: 90s}, broker: restart, for: 20m}
`

// leftovers counts the checked queues and children.
type leftovers struct{ queues, children int }

func (l *leftovers) look(t *testing.T, scenario string, w *world) {
	for _, d := range w.broker.Depths() {
		id, ok := strings.CutPrefix(d.Queue, "worker.")
		if !ok {
			continue
		}
		id, _, _ = strings.Cut(id, ".")
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			t.Fatalf("%s: the queue %s names no worker", scenario, d.Queue)
		}
		l.queues++
		if w.db.WorkerName(execution.WorkerID(n)) == "" {
			t.Errorf("%s: the queue %s belongs to worker %d, which the database no longer has: no part will delete it", scenario, d.Queue, n)
		}
	}
	for id := range execution.ID(w.db.Rows()) {
		row, there := w.db.Execution(id + 1)
		if !there || row.Parent == 0 {
			continue
		}
		l.children++
		if _, there := w.db.Execution(row.Parent); !there && row.AwaitsParent {
			t.Errorf("%s: execution %d waits for its parent %d, which has left", scenario, row.ID, row.Parent)
		}
	}
}
