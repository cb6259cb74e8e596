package reports

import (
	"fmt"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// limits restrict the data of one record in the page, so that the page opens at once for any run.
// history.jsonl has everything.
type limits struct {
	events     int
	executions int
	queues     int
	points     int
	beats      int
}

// usec is a time in the page's unit, which a JavaScript number represents exactly for centuries.
func usec(d time.Duration) int64 { return d.Microseconds() }

// timeline is one record as the page draws it. Times are in microseconds. "k" is an event's index
// in the record: it orders two events of the same time, and identifies the state between them.
type timeline struct {
	Label string `json:"label"`
	// Key names the run in links.
	Key            string          `json:"key"`
	Scenario       string          `json:"scenario"`
	Profile        string          `json:"profile"`
	Seed           string          `json:"seed"`
	Mutant         string          `json:"mutant"`
	End            int64           `json:"end"`
	Focus          [2]int64        `json:"focus"`
	Close          [2]int64        `json:"close"`
	Violations     []violationMark `json:"violations"`
	FaultIntervals []intervalMark  `json:"faultIntervals"`
	Processes      []*processLane  `json:"processes"`
	Queues         []*queueLane    `json:"queues"`
	Executions     []*rowLane      `json:"executions"`
	// Few is the number of executions drawn until the reader asks for all.
	Few int `json:"few"`
	// Who holds the subjects of sentences; events refer to them.
	Who    []string `json:"who"`
	Events []any    `json:"events"`
	// Led is what led to the first violations. Dues and Leases are deadlines; see dues.
	Led    []led                  `json:"led"`
	Dues   map[execution.ID][]any `json:"dues"`
	Leases map[string][]any       `json:"leases"`

	ExecutionsLeftOut int `json:"executionsLeftOut"`
	QueuesLeftOut     int `json:"queuesLeftOut"`
	EventsLeftOut     int `json:"eventsLeftOut"`
}

type violationMark struct {
	Title     string       `json:"title"`
	Statement string       `json:"statement"`
	Message   string       `json:"message"`
	Execution execution.ID `json:"exec"`
	At        int64        `json:"at"`
	// K is the event at which it happened, or the last event before that.
	K         int    `json:"k"`
	Step      uint64 `json:"step"`
	Reproduce string `json:"reproduce"`
}

type intervalMark struct {
	Fault string `json:"fault"`
	// Label is the fault with those whom it struck, as far as its name does not say.
	Label string `json:"label"`
	Begin int64  `json:"begin"`
	End   int64  `json:"end"`
	// Idle says that the failure did not need the fault.
	Idle bool `json:"idle,omitempty"`
}

// builder turns a record into a timeline in two passes: the first finds every lane, the second
// writes the chosen events.
type builder struct {
	r   *verdict.Record
	t   teller
	lim limits
	end time.Duration
	// moment is the time around which everything is chosen: the first violation, otherwise the end.
	moment time.Duration
	focus  [2]time.Duration
	// close is the period just before the violation: a race is over in milliseconds, although its
	// causes may be minutes old.
	close [2]time.Duration

	processes processes
	queues    queues
	rows      rows
	dues      dues
}

func buildTimeline(r *verdict.Record, lim limits) *timeline {
	b := &builder{r: r, t: newTeller(r.Workers), lim: lim}
	b.processes.init(b.t)
	b.queues.init(b.t)
	b.rows.init(b.t)
	b.dues.init(b.t)
	b.end = r.Virtual
	for i := range r.Events {
		e := &r.Events[i]
		b.end = max(b.end, e.At)
		b.processes.observe(i, e)
		b.queues.observe(i, e)
		b.rows.observe(i, e)
		b.dues.observe(i, e)
	}
	violations := sortedViolations(r.Violations)
	b.chooseFocus(violations)
	out := &timeline{
		Scenario: r.Scenario, Profile: string(r.Profile), Seed: fmt.Sprint(r.Seed), Mutant: r.Mutant,
		Label: runLabel(r),
		End:   usec(b.end), Focus: [2]int64{usec(b.focus[0]), usec(b.focus[1])},
		Close: [2]int64{usec(b.close[0]), usec(b.close[1])},
		Few:   fewRows, Violations: []violationMark{}, FaultIntervals: []intervalMark{}, Events: []any{},
	}
	for _, v := range violations {
		out.Violations = append(out.Violations, b.mark(v))
	}
	faultIntervals := r.FaultIntervals
	if len(faultIntervals) == 0 {
		faultIntervals = faultIntervalsOf(r.Events)
	}
	labels := b.struck(faultIntervals)
	for i, f := range faultIntervals {
		words, idle := needOf(r.Explained, f.Fault)
		out.FaultIntervals = append(out.FaultIntervals, intervalMark{f.Fault, labels[i] + words, usec(f.Begin), usec(f.End), idle})
	}
	out.Processes = b.processes.lanes(b.end, lim)
	out.Executions, out.ExecutionsLeftOut = b.rows.lanes(b, violations)
	out.Queues, out.QueuesLeftOut = b.queues.lanes(b, out.Executions)
	out.Led, out.Dues, out.Leases = ledTo(r, violations), b.dues.of(out.Executions), b.dues.leases(lim.beats)
	b.writeEvents(out)
	return out
}

func (b *builder) mark(v *verdict.Violation) violationMark {
	k := eventOf(b.r.Events, v)
	if k < 0 {
		// The last event up to that time.
		k, _ = slices.BinarySearchFunc(b.r.Events, v, func(e history.Event, v *verdict.Violation) int {
			if e.At > v.At || (v.Step > 0 && e.Step > v.Step) {
				return 1
			}
			return -1
		})
		k = max(k-1, 0)
	}
	return violationMark{
		Title: violationTitle(v), Statement: v.Statement, Message: b.t.owned(v.Message), Execution: v.Execution,
		At: usec(v.At), K: k, Step: v.Step, Reproduce: v.Reproduce,
	}
}

// chooseFocus chooses the part of the run that is shown first: from the beginning of the violated
// execution or of the earliest known cause until shortly after the violation. A run without a
// violation is shown completely.
func (b *builder) chooseFocus(violations []*verdict.Violation) {
	b.moment, b.focus = b.end, [2]time.Duration{0, b.end}
	b.close = b.focus
	if len(violations) == 0 {
		return
	}
	v := violations[0]
	b.moment = v.At
	from := v.At
	for i := range v.Causes {
		from = min(from, v.Causes[i].At)
	}
	if row := b.rows.byID[v.Execution]; row != nil {
		from = min(from, row.first)
	}
	if from == v.At {
		from = max(0, v.At-time.Minute)
	}
	b.focus = b.around(from, v.At)
	b.close = b.around(b.lastActs(v), v.At)
}

// around adds some space before and after a period.
func (b *builder) around(from, to time.Duration) [2]time.Duration {
	width := max(to-from, 100*time.Millisecond)
	begin, end := max(0, from-width/12), min(b.end, to+width/6)
	if end <= begin {
		return [2]time.Duration{0, b.end}
	}
	return [2]time.Duration{begin, end}
}

// lastActs is the time of the fifth-last event about a violation's execution, up to the violation.
func (b *builder) lastActs(v *verdict.Violation) time.Duration {
	at, acts := v.At, 0
	for i := len(b.r.Events) - 1; i >= 0 && acts < 5; i-- {
		e := &b.r.Events[i]
		if e.At <= v.At && (v.Execution == 0 || e.Execution == v.Execution) {
			at = e.At
			acts++
		}
	}
	return at
}

// writeEvents chooses the events to embed and writes each as a compact list:
//
//	[k, at, step, who, what, execution, class, process lane, queue lane]
func (b *builder) writeEvents(out *timeline) {
	shown := make(map[execution.ID]bool, len(out.Executions))
	for _, x := range out.Executions {
		shown[x.ID] = true
	}
	lane := make(map[string]int, len(out.Processes))
	for i, p := range out.Processes {
		lane[p.Name] = i
	}
	queue := make(map[string]int, len(out.Queues))
	for i, q := range out.Queues {
		queue[q.Name] = i
	}
	who := make(map[string]int)
	chosen := b.chooseEvents(out, shown)
	for _, k := range chosen {
		e := &b.r.Events[k]
		name := b.t.who(e)
		if _, known := who[name]; !known {
			who[name] = len(out.Who)
			out.Who = append(out.Who, name)
		}
		p, q := -1, -1
		if i, ok := lane[b.processes.nameOf(e)]; ok {
			p = i
		}
		if i, ok := queue[e.Queue]; ok {
			q = i
		}
		out.Events = append(out.Events, []any{k, usec(e.At), e.Step, who[name], b.t.what(e), e.Execution, class(e.Kind), p, q})
	}
	out.EventsLeftOut = len(b.r.Events) - len(chosen)
}

// chooseEvents picks at most limits.events events: first what led to the violations, those of the violated executions and of
// the faults, then those of the other executions that are drawn, then the rest; within each group
// the nearest to the moment. Heartbeats come last, because the lanes show them as ticks.
func (b *builder) chooseEvents(out *timeline, shown map[execution.ID]bool) []int {
	wanted := make(map[execution.ID]bool)
	for _, v := range out.Violations {
		wanted[v.Execution] = v.Execution != 0
	}
	causes := make(map[int]bool)
	for _, l := range out.Led {
		for _, k := range slices.Concat(l.Events, l.Said) {
			causes[k] = true
		}
	}
	rank := func(k int, e *history.Event) int {
		switch {
		case causes[k]:
			return -1
		case wanted[e.Execution]:
			return 0
		case class(e.Kind) == "fault", class(e.Kind) == "process":
			return 1
		case shown[e.Execution]:
			return 2
		case e.Kind == history.HeartbeatRenewed:
			return 4
		}
		return 3
	}
	type candidate struct {
		rank int
		away time.Duration
		k    int
	}
	all := make([]candidate, len(b.r.Events))
	for k := range b.r.Events {
		e := &b.r.Events[k]
		all[k] = candidate{rank(k, e), (e.At - b.moment).Abs(), k}
	}
	if len(all) > b.lim.events {
		slices.SortFunc(all, func(x, y candidate) int {
			if x.rank != y.rank {
				return x.rank - y.rank
			}
			if x.away != y.away {
				return int(min(max(x.away-y.away, -1), 1))
			}
			return x.k - y.k
		})
		all = all[:b.lim.events]
	}
	ks := make([]int, len(all))
	for i, c := range all {
		ks[i] = c.k
	}
	slices.Sort(ks)
	return ks
}

// class groups events by their look on the page.
func class(k history.Kind) string {
	switch k {
	case history.ProcessStarted, history.ProcessCrashed, history.ProcessStopped, history.ProcessPaused,
		history.ProcessResumed, history.ProcessFrozen, history.ProcessThawed,
		history.DatabaseDown, history.DatabaseUp, history.BrokerDown, history.BrokerUp:
		return "process"
	case history.FaultBegan, history.FaultEnded, history.FaultTouched:
		return "fault"
	case history.Created, history.Transition, history.StaleWrite, history.Orchestrated, history.ActionDefined,
		history.KeyKnown, history.ChildStarted, history.CancelRequested, history.SlotTaken, history.SlotFreed,
		history.PublishedMarked, history.RefusedResult, history.DeadLetterStored, history.Observed:
		return "status"
	case history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed, history.HealthReported, history.WorkerCordoned:
		return "worker"
	case history.ActionStarted, history.ActionEnded:
		return "action"
	case history.Logged, history.Quiescent:
		return "log"
	}
	return "message"
}
