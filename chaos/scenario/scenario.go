// Package scenario is the language of scenarios: its types, its loader with the error messages, and its JSON
// Schema. The scenarios themselves are in the folder scenarios.
//
// A scenario defines a cluster, a workload, the faults that strike it, and the expected result. It doesn't
// depend on a world: simulated and live runs use the same files.
package scenario

import (
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/chaos/fault"
	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
)

// World is an environment in which a scenario can run.
type World string

// The two worlds.
const (
	Sim  World = "sim"
	Live World = "live"
)

// Scenario is one loaded and checked file.
type Scenario struct {
	Name     string
	About    string
	Worlds   []World
	Cluster  Cluster
	Profiles []config.Profile
	Actions  []Action
	Workload []Load
	Cancels  []Cancel
	Faults   []Fault
	// Settle bounds the time from the end of the last fault and the last submission to the end of the last
	// execution; zero means that the bound is computed from the configuration.
	Settle time.Duration

	// Regression is the failure that the file reproduces, nil for most files.
	Regression *Regression

	// File is the path or name of the file, and Digest the SHA-256 of its bytes, in hexadecimal.
	File   string
	Digest string
	// Warnings lists parts that were accepted but should be written differently, such as a share without an
	// operator.
	Warnings yamlfile.Errors

	// source has the file's bytes. A document that was edited but never written has root instead.
	source  []byte
	root    *yaml.Node
	configs map[config.Profile]config.Config
	expects map[config.Profile]Expect
}

// Regression is the failure that a file reproduces: in this seed, with this mutant planted (empty for none),
// this invariant breaks (0 for an expectation). Without the mutant nothing breaks.
type Regression struct {
	Seed      uint64
	Mutant    string
	Invariant int
}

// Config returns the effective configuration under a profile: its defaults, then the scenario's keys.
func (s *Scenario) Config(p config.Profile) config.Config { return s.configs[p] }

// Expect returns the expectation under a profile.
func (s *Scenario) Expect(p config.Profile) Expect { return s.expects[p] }

// Cluster lists the processes. Executors are named executor-1 … executor-n.
type Cluster struct {
	Executors int
	// RabbitMQ is the release that the broker behaves like, one of BrokerVersions; "" means the oldest
	// release.
	RabbitMQ string
	Workers  []Worker
}

// BrokerVersions lists the releases of RabbitMQ that a scenario may name. Only the simulated world
// has a choice; a live run uses the broker of its machine.
func BrokerVersions() []string { return []string{"3.10", "4.0", "4.3"} }

// Worker is one worker process on a separate machine.
type Worker struct {
	Name     string
	Runtimes []string
	// Concurrency overrides the configuration; zero keeps it.
	Concurrency int
	// Starts is when the process starts; zero means with the cluster. A worker that never starts is
	// left out of the file.
	Starts time.Duration
}

// Action is an action and its behaviour, because a simulated run has no real program.
type Action struct {
	execution.Action
	// A run lasts from TakesMin to TakesMax, drawn uniformly, or log-uniformly with TakesLog.
	TakesMin, TakesMax time.Duration
	TakesLog           bool
	// FailPerMillion is the number of failing runs in a million. Each draws one of the exit codes FailCodes.
	// Without codes, it fails for FailReason.
	FailPerMillion uint64
	FailReason     execution.Reason
	FailCodes      []int
	// Retried has the exit codes that the action declares as retriable. Judges read them here;
	// RetriedExitCodes is the core's set of them.
	Retried []int
}

// Load submits Count executions of an action: the first at From, then one every Every.
type Load struct {
	Action string
	Count  int
	Every  time.Duration
	From   time.Duration
	// Parent is the action whose executions are the parents of this load. The first parent gets the
	// first Siblings executions as workflow children, and so on. Empty for none.
	Parent string
	// Siblings is the number of children of each parent; 0 means 1.
	Siblings int
	// Again is the number, from 1, of the earlier load whose expired idempotency keys this load repeats; 0
	// for new keys.
	Again int
	// Copies is how many times every request is sent simultaneously with the same idempotency key; 0 means
	// once.
	Copies int
	// Pin is the name of the only worker that may run them, empty for any.
	Pin string
	// Limits are the limits in every request of the step; they replace the action's.
	Limits execution.Limits
}

// Key returns the idempotency key of the n-th execution, from 0, of the load at index place of the
// workload.
func (l *Load) Key(place, n int) string {
	if l.Again > 0 {
		place = l.Again - 1
	}
	return strconv.Itoa(place) + "/" + strconv.Itoa(n)
}

// Requested returns the action with the limits from the request with this idempotency key. It returns false
// for a key that isn't from this workload.
func (s *Scenario) Requested(key string) (execution.Action, bool) {
	place, _, _ := strings.Cut(key, "/")
	n, err := strconv.Atoi(place)
	if err != nil || n < 0 || n >= len(s.Workload) {
		return execution.Action{}, false
	}
	load := &s.Workload[n]
	for i := range s.Actions {
		if s.Actions[i].Ref == load.Action {
			return load.Limits.On(s.Actions[i].Action), true
		}
	}
	return execution.Action{}, false
}

// ParentOf returns the number, counted from 0, of the n-th execution's parent.
func (l *Load) ParentOf(n int) int { return n / max(1, l.Siblings) }

// Cancel cancels Count executions of an action, beginning with number Nth.
type Cancel struct {
	Action string
	Nth    int
	Count  int
	// Each execution is cancelled AfterMin to AfterMax after its acceptance, drawn (log-uniformly with
	// AfterLog). If Timed, all are cancelled at At instead.
	AfterMin, AfterMax time.Duration
	AfterLog           bool
	Timed              bool
	At                 time.Duration
}

// Fault is one fault of the scenario, with its start, target and duration.
type Fault struct {
	// Index is the position in the file, from 0. Name is for reports: the kind, its target and, if needed to
	// distinguish faults, the index.
	Index int
	Name  string
	When  When
	// Kind is the kind of the fault, and Spec holds the fields of this kind.
	Kind *fault.Kind
	Spec fault.Fault
	// For is the duration of the fault, and RestartAfter the time until a crashed or stopped process restarts
	// (zero: never). For drawn durations they are the upper bounds, and ForMin and RestartMin the lower ones;
	// for fixed durations ForMin and RestartMin are zero. Log reports whether they are drawn log-uniformly.
	// Drawn fixes them for a run.
	For, ForMin              time.Duration
	RestartAfter, RestartMin time.Duration
	ForLog, RestartLog       bool
}

// When is the start of a fault: a fixed time, a drawn time, or an event.
type When struct {
	// Min and Max bound a drawn time; equal for a fixed one. Unused with After.
	Min, Max time.Duration
	// After is the trigger's name, empty for a time. Of is the process that the event concerns (empty: any),
	// Nth the occurrence (from 1), and Plus a delay after it.
	After string
	Of    string
	Nth   int
	Plus  time.Duration
}

// Expect has the conditions that must hold at the end of every run, in addition to the invariants. It also
// has the situations that at least one run of a sweep must reach.
type Expect struct {
	// Invariants lists numbers; nil means all.
	Invariants []int
	// Executions bounds the number of chains by their last status; "stuck" is for chains that never end.
	Executions []Bound
	// Rows bounds the number of rows by their last status.
	Rows []Bound
	// Sometimes lists situations that at least one run of a sweep must reach.
	Sometimes []string
	// Alerts lists alerts by name.
	Alerts Alerts
	// Texts lists error texts that at least one run of a sweep must leave on a failed execution.
	Texts []string
}

// Alerts names the alerts that must fire in every run, that must be resolved at its end, or that must never
// fire.
type Alerts struct {
	Fires, Resolves, Never []string
}

// Any reports whether the scenario has any expectation about alerts.
func (a Alerts) Any() bool { return len(a.Fires)+len(a.Resolves)+len(a.Never) > 0 }

// Bound compares a count, or a percentage of all, with a number.
type Bound struct {
	// Of is a status name or "stuck".
	Of string
	// Op is one of "=", "<=", ">=", "<", ">".
	Op string
	// Value is a count, or a percentage if Percent is set.
	Value   int64
	Percent bool
	// Source is the text of the bound in the file.
	Source string
}

// Holds reports whether count out of total satisfies b. Every percentage of a total of 0 holds.
func (b Bound) Holds(count, total int64) bool {
	left, right := count, b.Value
	if b.Percent {
		left, right = count*100, b.Value*total
	}
	switch b.Op {
	case "<=":
		return left <= right
	case ">=":
		return left >= right
	case "<":
		return left < right
	case ">":
		return left > right
	default:
		return left == right
	}
}
