package reports

import (
	"cmp"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// rowLane shows one execution over time.
type rowLane struct {
	ID    execution.ID `json:"id"`
	Chain execution.ID `json:"chain"`
	// Retry is the execution's number within its chain; 0 for the first row.
	Retry int64 `json:"retry"`
	// Periods are named after the status, and contain the owner and the epoch.
	Periods []period `json:"periods"`
	// Actions are named after the worker, and contain the outcome, which is empty if the action has not ended.
	Actions  []period `json:"actions"`
	Violated bool     `json:"violated"`

	first, last time.Duration
	status      execution.Status
	owner       string
	epoch       execution.Epoch
	since       time.Duration
	k           int
	openActions []openAction
	stale       int
}

type openAction struct {
	from   time.Duration
	k      int
	worker string
	epoch  execution.Epoch
	who    execution.Incarnation
}

// rowLanes collects the lanes of executions.
type rowLanes struct {
	t    describer
	byID map[execution.ID]*rowLane
}

func (r *rowLanes) init(t describer) { r.t, r.byID = t, make(map[execution.ID]*rowLane) }

func (r *rowLanes) observeEvent(k int, e *history.Event) {
	if e.Execution == 0 {
		return
	}
	x := r.byID[e.Execution]
	if x == nil {
		x = &rowLane{ID: e.Execution, Chain: e.Execution, Periods: []period{}, Actions: []period{}, first: e.At, since: e.At, k: k}
		r.byID[e.Execution] = x
	}
	if e.Chain != 0 {
		x.Chain = e.Chain
	}
	x.last = e.At
	switch e.Kind {
	case history.Created:
		x.Retry = e.Count
		x.enterStatus(k, e, "")
	case history.Transition:
		owner := ""
		if e.Worker != 0 && e.To >= execution.Scheduled {
			owner = r.t.workerName(e.Worker)
		}
		x.enterStatus(k, e, owner)
	case history.StaleWrite, history.RefusedResult:
		x.stale++
	case history.ActionStarted:
		x.openActions = append(x.openActions, openAction{e.At, k, r.t.workerName(e.Worker), e.Epoch, e.Incarnation})
	case history.ActionEnded:
		for i, a := range x.openActions {
			if a.epoch == e.Epoch && a.who == e.Incarnation {
				x.Actions = append(x.Actions, period{a.from, e.At, a.k, a.worker, []any{e.To.String()}})
				x.openActions = slices.Delete(x.openActions, i, i+1)
				break
			}
		}
	}
}

// enterStatus closes the period of the old status and opens one for the new status.
func (r *rowLane) enterStatus(k int, e *history.Event, owner string) {
	r.closePeriod(e.At)
	r.status, r.owner, r.epoch, r.since, r.k = e.To, owner, e.Epoch, e.At, k
}

// closePeriod ends the current period. It keeps periods of zero length, because the state at an event is
// found by k, and many failures depend on a status without duration.
func (r *rowLane) closePeriod(at time.Duration) {
	if r.status != execution.None {
		r.Periods = append(r.Periods, period{r.since, at, r.k, r.status.String(), []any{r.owner, r.epoch}})
	}
}

// fewRows is the number of executions that are drawn at first, so that all lanes fit on a screen.
const fewRows = 12

// chooseLanes chooses the executions to draw, the most important first: violated executions, their chains,
// executions in the causes, executions with an unusual life, other executions, and last the executions
// outside the first view. Within a group, executions closer to the violation come first.
func (r *rowLanes) chooseLanes(b *builder, violations []*verdict.Violation) (lanes []*rowLane, leftOut int) {
	named := make(map[execution.ID]bool)
	chains := make(map[execution.ID]bool)
	for _, v := range violations {
		if x := r.byID[v.Execution]; x != nil {
			x.Violated = true
			chains[x.Chain] = true
		}
		for i := range v.Causes {
			named[v.Causes[i].Execution] = true
		}
	}
	rank := func(x *rowLane) int {
		switch {
		case x.Violated:
			return 0
		case chains[x.Chain]:
			return 1
		case named[x.ID]:
			return 2
		case x.first > b.focus[1] || x.last < b.focus[0]:
			return 5 // outside the first view
		case x.status != execution.Completed || x.Retry > 0 || x.epoch > 1 || x.stale > 0:
			return 3
		}
		return 4
	}
	away := func(x *rowLane) time.Duration {
		switch {
		case b.moment < x.first:
			return x.first - b.moment
		case b.moment > x.last:
			return b.moment - x.last
		}
		return 0
	}
	lanes = make([]*rowLane, 0, len(r.byID))
	for _, x := range r.byID {
		lanes = append(lanes, x)
	}
	slices.SortFunc(lanes, func(x, y *rowLane) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(away(x), away(y)), cmp.Compare(x.ID, y.ID))
	})
	if len(lanes) > b.lim.executions {
		leftOut = len(lanes) - b.lim.executions
		lanes = lanes[:b.lim.executions]
	}
	// The lanes drawn at first, and those drawn on demand, each in order of creation.
	split := min(fewRows, len(lanes))
	for _, part := range [][]*rowLane{lanes[:split], lanes[split:]} {
		slices.SortStableFunc(part, func(x, y *rowLane) int {
			return cmp.Or(cmp.Compare(min(rank(x), 2), min(rank(y), 2)), cmp.Compare(x.ID, y.ID))
		})
	}
	for _, x := range lanes {
		x.closePeriod(b.end)
		for _, a := range x.openActions {
			x.Actions = append(x.Actions, period{a.from, b.end, a.k, a.worker, []any{""}})
		}
	}
	return lanes, leftOut
}
