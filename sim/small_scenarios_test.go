package sim

import (
	"strings"
	"testing"

	"handoff/chaos/scenario"
)

// smallScenarios returns the scenarios of the sweeps over yield points. Each is short, and together they
// cover the whole life of an execution.
func smallScenarios(t *testing.T) []*scenario.Scenario {
	t.Helper()
	var list []*scenario.Scenario
	for _, text := range []string{lifeOfOne, slowRun, expiredDispatch, lostHints, gracefulStop, inBatches, familyAndLimit} {
		list = append(list, parsed(t, text))
	}
	return list
}

// parsed loads one of the scenarios below.
func parsed(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), "name: "), "\n")
	s, err := scenario.Parse(name+".yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// lifeOfOne covers the whole life of one execution: created, dispatched, claimed, failed, retried, completed
// and orchestrated, with a second worker to take over.
const lifeOfOne = `
name: life-of-one
about: One execution from its creation to the end of its retry.
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 1}
    shell-2: {runtimes: [shell], concurrency: 1}
actions:
  core.echo: {runtime: shell, takes: 700ms, fails: {rate: 100%, reason: connection reset}, max_retries: 1}
workload:
  - {action: core.echo, count: 1, from: 1s}
`

// slowRun has an action that runs for several heartbeats, so that a process can be paused during its run.
const slowRun = `
name: slow-run
about: One execution that runs over two heartbeats.
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 1}
    shell-2: {runtimes: [shell], concurrency: 1}
actions:
  core.job: {runtime: shell, takes: 22s, max_retries: 1}
workload:
  - {action: core.job, count: 1, from: 1s}
`

// expiredDispatch has a dispatch that expires in its queue.
const expiredDispatch = `
name: expired-dispatch
about: A dispatch that its worker does not fetch dies, and is taken back.
worlds: [sim]
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 1}
config:
  executor: {dispatch_timeout: 4s, scheduled_timeout: 8s, timeout_check_interval: 2s}
  message_queue: {rabbitmq: {worker_queue_ttl_ms: 6000}}
actions:
  core.echo: {runtime: shell, takes: 500ms, max_retries: 2}
workload:
  - {action: core.echo, count: 1, from: 1s}
faults:
  - {when: {after: scheduled, nth: 1}, pause: shell-1, for: 7s}
`

// lostHints loses all hints.
const lostHints = `
name: lost-hints
about: Every hint is lost; the loops that ask the database find everything.
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 1}
actions:
  core.echo: {runtime: shell, takes: 500ms}
workload:
  - {action: core.echo, count: 1, from: 1s}
faults:
  - {when: {at: 500ms}, messages: {drop: execution.requested}, for: 20s}
  - {when: {at: 500ms}, messages: {drop: execution.completed}, for: 20s}
`

// gracefulStop has a worker that stops while it runs an execution and other executions wait in its queue.
const gracefulStop = `
name: graceful-stop
about: A worker stops with one execution running and one waiting, and another takes over.
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 1}
    shell-2: {runtimes: [shell], concurrency: 1, starts: 5s}
config:
  executor: {dispatch_ahead: 1}
actions:
  core.echo: {runtime: shell, takes: 3s, max_retries: 1}
workload:
  - {action: core.echo, count: 2, from: 1s}
faults:
  - {when: {after: action_started, of: shell-1, nth: 1, plus: 500ms}, stop: shell-1, restart_after: 20s}
`

// inBatches has executions that are dispatched in one statement and one message, claimed in one statement,
// and end together.
const inBatches = `
name: in-batches
about: Six executions at once, of which a worker claims three in one statement and stores three results in one.
worlds: [sim]
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 3}
    shell-2: {runtimes: [shell], concurrency: 3}
config:
  executor: {dispatches_per_message: 8, dispatch_timeout: 5s, scheduled_timeout: 10s}
  message_queue: {rabbitmq: {worker_queue_ttl_ms: 6000}}
actions:
  core.echo: {runtime: shell, takes: 500ms, max_retries: 2}
workload:
  - {action: core.echo, count: 6, from: 1s}
`

// familyAndLimit has chains with children, and executions that are dispatched in two steps because their
// action has a concurrency limit.
const familyAndLimit = `
name: family-and-limit
about: Parents and their children run, end, and are handled; executions with a slot run beside them.
worlds: [sim]
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 3}
actions:
  core.parent: {runtime: shell, takes: 1s, max_retries: 1}
  core.child: {runtime: shell, takes: 500ms, max_retries: 1}
  core.limited: {runtime: shell, takes: 500ms, concurrency: 1, max_retries: 1}
workload:
  - {action: core.parent, count: 2, from: 1s}
  - {action: core.child, count: 2, from: 1500ms, parent: core.parent}
  - {action: core.limited, count: 2, from: 1s}
`
