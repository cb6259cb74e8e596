package scenario

import (
	"slices"
	"strconv"
	"strings"

	"handoff/chaos/invariant"
	"handoff/core/broker"
	"handoff/core/execution"
)

// Stuck is the name, in a Bound, of what never ends.
const Stuck = "stuck"

// Invariants is how many there are; they are numbered from 1.
const Invariants = invariant.Count

// The servers, as targets.
const (
	Broker   = "broker"
	Database = "database"
	// Executors is the other end of the links on which workers are probed.
	Executors = "executors"
)

// The selectors: targets that stand for some or all processes of a kind. Which ones "any" and
// "half" mean is drawn when the fault begins.
const (
	AnyWorker     = "any worker"
	AnyExecutor   = "any executor"
	HalfWorkers   = "half the workers"
	EveryExecutor = "every executor"
	EveryWorker   = "every worker"
	EveryProcess  = "every process"
)

// EveryMessage is Fault.Messages for a message fault that strikes all types.
const EveryMessage = "*"

// MessageTypes lists the types that a message fault can strike: those between the services. An executor sends its canary
// to itself.
func MessageTypes() []string {
	var names []string
	for t := broker.NoType + 1; int(t) < broker.Types; t++ {
		if t != broker.DeadLetterCanary {
			names = append(names, t.String())
		}
	}
	return names
}

// ExecutorNames lists executor-1 … executor-n.
func (c Cluster) ExecutorNames() []string {
	names := make([]string, c.Executors)
	for i := range names {
		names[i] = "executor-" + strconv.Itoa(i+1)
	}
	return names
}

// WorkerNames lists the workers in their order in the file.
func (c Cluster) WorkerNames() []string {
	names := make([]string, len(c.Workers))
	for i, w := range c.Workers {
		names[i] = w.Name
	}
	return names
}

// Strikes says whether a fault of a kind may strike a process.
func (s *Scenario) Strikes(k FaultKind, process string) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool {
		names, _ := s.Cluster.Candidates(f.Target)
		return f.Kind == k && slices.Contains(names, process)
	})
}

// Candidates says which processes a fault's target may mean and how many of them it strikes: one
// of one for a name, one of all for "any", half of them rounded up, or all. None for a server.
func (c Cluster) Candidates(target string) (names []string, count int) {
	switch target {
	case Broker, Database:
		return nil, 0
	case AnyWorker:
		return c.WorkerNames(), 1
	case AnyExecutor:
		return c.ExecutorNames(), 1
	case HalfWorkers:
		return c.WorkerNames(), (len(c.Workers) + 1) / 2
	case EveryWorker:
		return c.WorkerNames(), len(c.Workers)
	case EveryExecutor:
		return c.ExecutorNames(), c.Executors
	case EveryProcess:
		return append(c.ExecutorNames(), c.WorkerNames()...), c.Executors + len(c.Workers)
	case RequestedQueue, StatusChangedQueue, CompletedQueue, DeadLetterQueue:
		return nil, 0
	}
	return []string{target}, 1
}

// targets lists what a fault on a process may name.
func (c Cluster) targets() []string {
	names := append(c.ExecutorNames(), c.WorkerNames()...)
	names = append(names, AnyExecutor, EveryExecutor)
	if len(c.Workers) > 0 {
		names = append(names, AnyWorker, HalfWorkers, EveryWorker)
	}
	return append(names, EveryProcess)
}

// workerTargets lists what a fault on workers may name.
func (c Cluster) workerTargets() []string {
	names := c.WorkerNames()
	if len(c.Workers) > 0 {
		names = append(names, AnyWorker, HalfWorkers, EveryWorker)
	}
	return names
}

// late says that a message fault says how late.
func (k FaultKind) late() bool { return k == DelayMessages || k == ReorderMessages }

// reasonAliases are the words in which people say why an action failed.
func reasonAliases() map[string]execution.Reason {
	return map[string]execution.Reason{
		"connection reset":   execution.Connection,
		"connection refused": execution.Connection,
		"connection lost":    execution.Connection,
		"transient error":    execution.Transient,
		"temporary":          execution.Transient,
		"validation error":   execution.Validation,
		"permission denied":  execution.Permission,
		"invalid parameters": execution.InvalidParameters,
		"action not found":   execution.ActionNotFound,
	}
}

// reasonNames lists the reasons that an action may give for its failure: the contract's names, then the friendly ones.
func reasonNames() []string {
	var names, friendly []string
	for _, name := range execution.Reasons() {
		if _, ok := reason(name); ok {
			names = append(names, name)
		}
	}
	for alias := range reasonAliases() {
		friendly = append(friendly, alias)
	}
	slices.Sort(friendly)
	return append(names, friendly...)
}

// reason finds a reason that an action may give, by either name. What became of a worker or a message is not an
// action's to say: a real worker takes such a word for unknown.
func reason(name string) (execution.Reason, bool) {
	if r, ok := reasonAliases()[strings.ToLower(name)]; ok {
		return r, true
	}
	r, err := execution.ParseReason(name)
	return r, err == nil && r.OfAction()
}
