// Package scenario is the language of scenarios: what a YAML file may say, how it is read, and what is
// wrong with it when it can't be. The library is in the folder scenarios.
//
// A scenario names a cluster, a workload, the faults that strike it and what must be true
// afterwards. It knows no world: simulated and live runs both start from it.
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

// World is where a scenario can run.
type World string

// The two worlds.
const (
	Sim  World = "sim"
	Live World = "live"
)

// Scenario is one file, read and checked.
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
	// Settle bounds the time from the end of the last fault and the last submission to the end of
	// the last execution; zero means that it is computed from the configuration.
	Settle time.Duration

	// Regression is what the file was written for, nil for most.
	Regression *Regression

	// File is where it was read from, and Digest a hash of its bytes.
	File   string
	Digest string
	// Warnings are what was read and should be written otherwise, such as a key by its old name.
	Warnings yamlfile.Errors

	// source is the file; root is what was read instead, of a document that was edited and never written.
	source  []byte
	root    *yaml.Node
	configs map[config.Profile]config.Config
	expects map[config.Profile]Expect
}

// Regression says that a file reproduces one failure: in this seed, with this mutant planted (empty for none),
// this invariant is broken (0 for an expectation); without the mutant nothing is.
type Regression struct {
	Seed      uint64
	Mutant    string
	Invariant int
}

// Config is the effective configuration under a profile: its defaults, then the scenario's keys.
func (s *Scenario) Config(p config.Profile) config.Config { return s.configs[p] }

// Expect is what the scenario expects under a profile.
func (s *Scenario) Expect(p config.Profile) Expect { return s.expects[p] }

// Cluster is what runs. Executors are named executor-1 … executor-n.
type Cluster struct {
	Executors int
	// RabbitMQ is the release that the broker behaves like, one of BrokerVersions; empty for the oldest.
	RabbitMQ string
	Workers  []Worker
}

// BrokerVersions lists the releases of RabbitMQ that a scenario may name. Only the simulated world can choose; a live one
// has the broker of its machine.
func BrokerVersions() []string { return []string{"3.10", "4.0", "4.3"} }

// Worker is one worker process on a machine of its own.
type Worker struct {
	Name     string
	Runtimes []string
	// Concurrency overrides the configuration's; zero keeps it.
	Concurrency int
	// Starts is when the process is started; zero means with the cluster. Never is expressed by
	// leaving the worker out.
	Starts time.Duration
}

// Action is an action and, because a simulated run has no real program, how it behaves.
type Action struct {
	execution.Action
	// A run lasts from TakesMin to TakesMax, drawn uniformly, or log-uniformly with TakesLog.
	TakesMin, TakesMax time.Duration
	TakesLog           bool
	// FailPerMillion of the runs fail, for FailReason.
	FailPerMillion uint64
	FailReason     execution.Reason
}

// Load submits Count executions of an action, one every Every, from From on.
type Load struct {
	Action string
	Count  int
	Every  time.Duration
	From   time.Duration
	// Parent is the action whose executions are the parents of this load: its first execution gets the first
	// Siblings executions as workflow children, and so on. Empty for none.
	Parent string
	// Siblings is how many children each parent gets; 0 stands for one.
	Siblings int
	// Again is the number, from 1, of the earlier load whose idempotency keys this one uses again when they are
	// free; 0 for keys of its own.
	Again int
	// Copies is how often every request is sent, at the same time and with the same idempotency key; 0 for
	// once.
	Copies int
	// Pin is the name of the only worker that may run them, empty for any.
	Pin string
	// Limits are what every request of the step sets in place of what the action says.
	Limits execution.Limits
}

// Key returns the idempotency key of the n-th execution, from 0, of the load at index place.
func (l *Load) Key(place, n int) string {
	if l.Again > 0 {
		place = l.Again - 1
	}
	return strconv.Itoa(place) + "/" + strconv.Itoa(n)
}

// Requested returns the action as it counts for the execution that is created under an idempotency key of the workload:
// with the limits of its request. It returns false for a key of somebody else.
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

// ParentOf returns the number, from 0, of the parent of the n-th execution.
func (l *Load) ParentOf(n int) int { return n / max(1, l.Siblings) }

// Cancel cancels executions of an action by their numbers: from Nth on, Count of them.
type Cancel struct {
	Action string
	Nth    int
	Count  int
	// Of each, AfterMin to AfterMax after it was accepted, drawn (log-uniformly with AfterLog); or, if Timed, At.
	AfterMin, AfterMax time.Duration
	AfterLog           bool
	Timed              bool
	At                 time.Duration
}

// Fault is something that goes wrong: when, what, to whom, for how long.
type Fault struct {
	// Index is the position in the file, from 0, and Name how reports call it: the kind, its target
	// and, where two would be alike, the index.
	Index int
	Name  string
	When  When
	// Kind is what goes wrong, and Spec the fields that faults of this kind have.
	Kind *fault.Kind
	Spec fault.Fault
	// For is how long it lasts; RestartAfter when a crashed or stopped process comes back (zero:
	// never). Where they are drawn these are the longest, ForMin and RestartMin the shortest, else zero; Log says
	// that they are drawn log-uniformly. Drawn fixes them for a run.
	For, ForMin              time.Duration
	RestartAfter, RestartMin time.Duration
	ForLog, RestartLog       bool
}

// When says when a fault begins: at a time, at a drawn time, or after something has happened.
type When struct {
	// Min and Max bound a drawn time; equal for a fixed one. Unused with After.
	Min, Max time.Duration
	// After is the trigger's name, empty for a time; Of the process that it is about (empty: any);
	// Nth which one (from 1); Plus a delay after it.
	After string
	Of    string
	Nth   int
	Plus  time.Duration
}

// Expect is what must hold at the end of every run, beside the invariants, and, over a sweep, what
// must have been seen.
type Expect struct {
	// Invariants lists numbers; nil means all.
	Invariants []int
	// Executions bounds how chains end: by last status, and "stuck" for those that never do.
	Executions []Bound
	// Rows bounds how rows end.
	Rows []Bound
	// Sometimes lists situations that at least one run of a sweep must reach.
	Sometimes []string
	// Alerts lists alerts by name.
	Alerts Alerts
	// Texts lists error texts that at least one run of a sweep must leave on a failed execution.
	Texts []string
}

// Alerts says which alerts must have fired in every run, which of them must be over at its end, and which
// must not fire.
type Alerts struct {
	Fires, Resolves, Never []string
}

// Any says that alerts are expected, or expected not to be.
func (a Alerts) Any() bool { return len(a.Fires)+len(a.Resolves)+len(a.Never) > 0 }

// Bound compares a count, or a share of all, with a number.
type Bound struct {
	// Of is a status name or "stuck".
	Of string
	// Op is one of "=", "<=", ">=", "<", ">".
	Op string
	// Value is a count, or a percentage when Percent.
	Value   int64
	Percent bool
	// Source is the bound as it was written.
	Source string
}

// Holds says whether count of total satisfies b. A percentage of nothing holds.
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
