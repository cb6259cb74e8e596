package invariant

import (
	"slices"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// This file excludes from judgement everything that an unreadable event may have changed. An event is
// unreadable because a newer program wrote it, so the state of its execution is unknown from then on.
// Findings about that execution or its chain don't count, nor do rules that compare executions. If the event
// is about a worker, the same applies from then on to every execution of that incarnation, and to rules that
// need every event of that kind.

// excludedHistory is the part of the history that a suite does not judge.
type excludedHistory struct {
	// executions holds the executions that are not judged, and their chains.
	executions map[execution.ID]bool
	// workers holds the incarnations whose state is unknown.
	workers map[execution.Incarnation]bool
	// kinds holds the kinds of the unreadable events that are not about an execution.
	kinds []history.Kind
}

// SetAside reports an unreadable event. e has the fields that could be read; its kind may be history.NoKind.
func (s *Suite) SetAside(e *history.Event) {
	if s.excluded.executions == nil {
		s.excluded.executions, s.excluded.workers = make(map[execution.ID]bool), make(map[execution.Incarnation]bool)
	}
	s.now.At, s.now.Step = e.At, e.Step
	if e.Execution != 0 {
		s.excludeExecution(e.Execution, e.Chain)
		return
	}
	if e.Incarnation != 0 {
		s.excluded.workers[e.Incarnation] = true
		for _, l := range s.lives.All() {
			if l.incarnation == e.Incarnation {
				s.excludeExecution(l.id, l.chain)
			}
		}
	}
	if e.Kind != history.NoKind && !slices.Contains(s.excluded.kinds, e.Kind) {
		s.excluded.kinds = append(s.excluded.kinds, e.Kind)
	}
}

// excludeExecution excludes an execution and its chain from judgement.
func (s *Suite) excludeExecution(id, chain execution.ID) {
	s.excluded.executions[id] = true
	if l := s.lives.Get(id); l != nil && chain == 0 {
		chain = l.chain
	}
	if chain != 0 {
		s.excluded.executions[chain] = true
	}
}

// excludeRelated excludes an execution whose chain, parent or worker is excluded.
func (s *Suite) excludeRelated(e *history.Event) {
	of := s.excluded.executions
	if e.Execution == 0 || of[e.Execution] {
		return
	}
	if of[e.Chain] || of[e.Related] || s.excluded.workers[e.Incarnation] {
		s.excludeExecution(e.Execution, e.Chain)
	}
}

// Aside returns the number of executions that are not judged because one of their events is unreadable.
func (s *Suite) Aside() int { return len(s.excluded.executions) }

// Blind reports whether unreadable events make it impossible to judge an invariant.
func (s *Suite) Blind(i *Invariant) bool {
	return i.Across && len(s.excluded.executions) > 0 || slices.ContainsFunc(s.excluded.kinds, func(k history.Kind) bool {
		return slices.Contains(i.Needs, k) || slices.Contains(i.Whole, k)
	})
}

// isExcluded reports whether findings about an execution don't count. id is 0 for a finding about no
// particular execution.
func (s *Suite) isExcluded(i *Invariant, id execution.ID) bool {
	if s.excluded.executions == nil {
		return false
	}
	l := s.lives.Get(id)
	return s.Blind(i) || s.excluded.executions[id] || l != nil && s.excluded.executions[l.chain]
}
