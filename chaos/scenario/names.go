package scenario

import (
	"slices"
	"strconv"
	"strings"

	"handoff/chaos/fault"
	"handoff/chaos/invariant"
	"handoff/core/execution"
)

// Stuck is the name that a Bound uses for executions that never end.
const Stuck = "stuck"

// LastInvariant is the highest invariant number; numbers begin at 1.
const LastInvariant = invariant.Last

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

// Names returns the names of the processes that faults can select.
func (c Cluster) Names() fault.Cluster {
	return fault.Cluster{Executors: c.ExecutorNames(), Workers: c.WorkerNames()}
}

// Strikes reports whether the scenario has a fault of the named kind that may strike the process.
func (s *Scenario) Strikes(kind, process string) bool {
	return slices.ContainsFunc(s.Faults, func(f Fault) bool {
		names, _ := s.Cluster.Names().Select(f.Spec.Strikes().Target)
		return f.Kind.Name == kind && slices.Contains(names, process)
	})
}

// reasonAliases maps friendly names to the reasons of failed actions.
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

// reasonNames lists the reasons that an action may report: the contract's names, then the friendly
// names.
func reasonNames() []string {
	var names, friendly []string
	for _, name := range execution.Reasons() {
		if _, ok := findReason(name); ok {
			names = append(names, name)
		}
	}
	for alias := range reasonAliases() {
		friendly = append(friendly, alias)
	}
	slices.Sort(friendly)
	return append(names, friendly...)
}

// findReason finds a reason that an action may report, by its contract name or its friendly name. It excludes
// reasons about the fate of a worker or a message: a real worker treats them as unknown when an action
// reports them.
func findReason(name string) (execution.Reason, bool) {
	if r, ok := reasonAliases()[strings.ToLower(name)]; ok {
		return r, true
	}
	r, err := execution.ParseReason(name)
	return r, err == nil && r.OfAction()
}
