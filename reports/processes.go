package reports

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// processLane shows one process, or one server that went down, over time.
type processLane struct {
	Name string `json:"name"`
	// Role is executor, worker, server or client.
	Role string `json:"role"`
	// Periods are named after the process's state.
	Periods []period `json:"periods"`
	// Lives are [from, k, state that the worker reports, incarnation].
	Lives []any   `json:"lives"`
	Beats []int64 `json:"beats"`

	state string
	since time.Duration
	k     int
}

// processLanes collects the lanes of processes.
type processLanes struct {
	t      describer
	byName map[string]*processLane
}

func (p *processLanes) init(t describer) {
	p.t, p.byName = t, make(map[string]*processLane)
}

func (p *processLanes) observeEvent(k int, e *history.Event) {
	name := p.nameOf(e)
	if name == "" {
		return
	}
	lane := p.byName[name]
	if lane == nil {
		lane = &processLane{Name: name, Role: p.roleOf(name, e), Periods: []period{}, Lives: []any{}, Beats: []int64{}}
		p.byName[name] = lane
		// A process that acts before its recorded start has been up from the beginning.
		lane.state = "up"
		if e.Kind == history.ProcessStarted {
			lane.since, lane.k = e.At, k
		}
	}
	if lane.Role == "client" && e.By != execution.NoPart && e.By != execution.Worker && e.By != execution.API {
		lane.Role = "executor"
	}
	if state := rowOf(e.Kind).state; state != "" && state != lane.state {
		lane.closePeriod(e.At)
		lane.state, lane.since, lane.k = state, e.At, k
	}
	switch e.Kind {
	case history.HeartbeatRenewed:
		lane.Beats = append(lane.Beats, pageMicros(e.At))
	case history.WorkerRegistered:
		lane.Role = "worker"
		lane.Lives = append(lane.Lives, []any{pageMicros(e.At), k, "registered", e.Incarnation})
	case history.WorkerLifecycle:
		lane.Lives = append(lane.Lives, []any{pageMicros(e.At), k, e.Lifecycle.String(), e.Incarnation})
	}
}

// nameOf returns the process of an event; empty for none. A worker's reports are drawn on its own lane,
// whichever process wrote them.
func (p *processLanes) nameOf(e *history.Event) string {
	switch row := rowOf(e.Kind); {
	case row.isServer():
		return row.home
	case row.class == ofFault:
		return "" // faults have intervals, and may name a link or a queue here
	case row.home == homeWorker && p.t.workers[e.Worker] != "":
		return p.t.workers[e.Worker]
	}
	return e.Process
}

func (p *processLanes) roleOf(name string, e *history.Event) string {
	switch {
	case rowOf(e.Kind).isServer():
		return "server"
	case p.t.named[name]:
		return "worker"
	case strings.HasPrefix(name, "executor"):
		return "executor"
	}
	return "client"
}

func (p *processLane) closePeriod(at time.Duration) {
	if at > p.since {
		p.Periods = append(p.Periods, period{from: p.since, to: at, k: p.k, name: p.state})
	}
}

func (p *processLanes) sortedLanes(end time.Duration, lim limits) []*processLane {
	list := make([]*processLane, 0, len(p.byName))
	for _, l := range p.byName {
		l.closePeriod(end)
		l.Beats = thinOut(l.Beats, lim.beats)
		list = append(list, l)
	}
	order := map[string]int{"executor": 0, "worker": 1, "client": 2, "server": 3}
	slices.SortFunc(list, func(a, b *processLane) int {
		return cmp.Or(cmp.Compare(order[a.Role], order[b.Role]), compareNatural(a.Name, b.Name))
	})
	return list
}

// thinOut keeps every n-th element of a list that is longer than its limit.
func thinOut[T any](list []T, most int) []T {
	if len(list) <= most {
		return list
	}
	every := (len(list) + most - 1) / most
	kept := list[:0:0]
	for i := 0; i < len(list); i += every {
		kept = append(kept, list[i])
	}
	return kept
}

// compareNatural compares names by their numbers, so that shell-2 precedes shell-10.
func compareNatural(a, b string) int {
	return cmp.Or(cmp.Compare(strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")),
		cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
