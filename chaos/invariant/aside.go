package invariant

import (
	"slices"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// This file is what becomes of the rules when an event can't be read, because a newer program wrote it. Nobody knows then what
// has become of the execution that it is about. So nothing that is found of that execution counts, nor of others of its chain,
// and neither do rules that compare executions. Where it is about a worker, the same goes for whatever that incarnation has
// from then on, and for rules that need to know of every such event.

// aside is what a suite does not judge.
type aside struct {
	// executions are those that are not judged, with the chains that they belong to.
	executions map[execution.ID]bool
	// workers are incarnations of which nobody knows how they stand.
	workers map[execution.Incarnation]bool
	// kinds are those of which an event about no execution can't be read.
	kinds []history.Kind
}

// SetAside tells the suite of an event that can't be read, with what of it can; its kind may be history.NoKind.
func (s *Suite) SetAside(e *history.Event) {
	if s.aside.executions == nil {
		s.aside.executions, s.aside.workers = make(map[execution.ID]bool), make(map[execution.Incarnation]bool)
	}
	s.now.At, s.now.Step = e.At, e.Step
	if e.Execution != 0 {
		s.leave(e.Execution, e.Chain)
		return
	}
	if e.Incarnation != 0 {
		s.aside.workers[e.Incarnation] = true
		for _, l := range s.lives.All() {
			if l.incarnation == e.Incarnation {
				s.leave(l.id, l.chain)
			}
		}
	}
	if e.Kind != history.NoKind && !slices.Contains(s.aside.kinds, e.Kind) {
		s.aside.kinds = append(s.aside.kinds, e.Kind)
	}
}

// leave has an execution and its chain not judged.
func (s *Suite) leave(id, chain execution.ID) {
	s.aside.executions[id] = true
	if l := s.lives.Get(id); l != nil && chain == 0 {
		chain = l.chain
	}
	if chain != 0 {
		s.aside.executions[chain] = true
	}
}

// spread sets an execution aside that comes of one that is, or gets to a worker that is.
func (s *Suite) spread(e *history.Event) {
	of := s.aside.executions
	if e.Execution == 0 || of[e.Execution] {
		return
	}
	if of[e.Chain] || of[e.Related] || s.aside.workers[e.Incarnation] {
		s.leave(e.Execution, e.Chain)
	}
}

// Aside is how many executions are not judged because something of them can't be read.
func (s *Suite) Aside() int { return len(s.aside.executions) }

// Blind says that an invariant can't be judged any more because of what can't be read.
func (s *Suite) Blind(i *Invariant) bool {
	return i.Across && len(s.aside.executions) > 0 || slices.ContainsFunc(s.aside.kinds, func(k history.Kind) bool {
		return slices.Contains(i.Needs, k) || slices.Contains(i.Whole, k)
	})
}

// unjudged says that what is found of an execution, 0 for none, does not count.
func (s *Suite) unjudged(i *Invariant, id execution.ID) bool {
	if s.aside.executions == nil {
		return false
	}
	l := s.lives.Get(id)
	return s.Blind(i) || s.aside.executions[id] || l != nil && s.aside.executions[l.chain]
}
