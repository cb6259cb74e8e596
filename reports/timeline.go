package reports

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// limits restrict the data of one record in the page, so that the page opens quickly for any run.
// history.jsonl has everything.
type limits struct {
	events     int
	executions int
	queues     int
	points     int
	beats      int
}

// pageMicros converts a time to the page's unit: microseconds, which JavaScript numbers represent exactly for
// centuries.
func pageMicros(d time.Duration) int64 { return d.Microseconds() }

// timeline is the data of one drawn record. Times are in microseconds. "k" is an event's index in the record:
// it orders two events of the same time, and identifies the state between them.
type timeline struct {
	Label string `json:"-"`
	// Key names the run in links.
	Key            string          `json:"key"`
	End            int64           `json:"end"`
	Focus          [2]int64        `json:"focus"`
	Close          [2]int64        `json:"close"`
	Violations     []violationMark `json:"violations"`
	FaultIntervals []intervalMark  `json:"faultIntervals"`
	Processes      []*processLane  `json:"processes"`
	Queues         []*queueLane    `json:"queues"`
	Executions     []*rowLane      `json:"executions"`
	// Few is the number of executions that are drawn until the reader asks for all of them.
	Few int `json:"few"`
	// Who holds the subjects of sentences; events refer to them.
	Who    []string `json:"who"`
	Events []any    `json:"events"`
	// Led holds the events that led to the first violations. Dues and Leases are deadlines; see deadlines.
	Led    []leadUp               `json:"led"`
	Dues   map[execution.ID][]any `json:"dues"`
	Leases map[string][]any       `json:"leases"`

	ExecutionsLeftOut int `json:"executionsLeftOut"`
	QueuesLeftOut     int `json:"queuesLeftOut"`
	EventsLeftOut     int `json:"eventsLeftOut"`
}

// period is a part of a lane, written as [from, to, k, name, more...].
type period struct {
	from, to time.Duration
	k        int
	name     string
	more     []any
}

// MarshalJSON writes a list, because it is shorter than an object.
func (p period) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]any{pageMicros(p.from), pageMicros(p.to), p.k, p.name}, p.more...))
}

type violationMark struct {
	Title     string       `json:"title"`
	Message   string       `json:"message"`
	Execution execution.ID `json:"exec"`
	At        int64        `json:"at"`
	// K is the index of the event at which the violation happened, or of the last event before it.
	K int `json:"k"`
}

type intervalMark struct {
	// Label is the fault's name, with the targets that the name omits.
	Label string `json:"label"`
	Begin int64  `json:"begin"`
	End   int64  `json:"end"`
	// Idle reports whether the failure did not need the fault.
	Idle bool `json:"idle,omitempty"`
}

// builder turns a record into a timeline in two passes: the first finds every lane, the second
// writes the chosen events.
type builder struct {
	r   *verdict.Record
	t   describer
	lim limits
	end time.Duration
	// moment is the time around which data is chosen: the time of the first violation, or else the end.
	moment time.Duration
	focus  [2]time.Duration
	// close is the period just before the violation: a race takes milliseconds, although its causes may be
	// minutes old.
	close [2]time.Duration

	processes processLanes
	queues    queueLanes
	rows      rowLanes
	deadlines deadlines
}

func newBuilder(r *verdict.Record, lim limits) *builder {
	b := &builder{r: r, t: newDescriber(r.Workers), lim: lim, end: r.Virtual}
	b.processes.init(b.t)
	b.queues.init(b.t)
	b.rows.init(b.t)
	b.deadlines.init(b.t)
	return b
}

func (b *builder) observeEvent(k int, e *history.Event) {
	b.end = max(b.end, e.At)
	b.processes.observeEvent(k, e)
	b.queues.observeEvent(k, e)
	b.rows.observeEvent(k, e)
	b.deadlines.observeEvent(k, e)
}

func buildTimeline(r *verdict.Record, lim limits) *timeline {
	b := newBuilder(r, lim)
	for i := range r.Events {
		b.observeEvent(i, &r.Events[i])
	}
	violations := sortedViolations(r.Violations)
	b.chooseFocus(violations)
	out := &timeline{
		Label: runLabel(r),
		End:   pageMicros(b.end), Focus: [2]int64{pageMicros(b.focus[0]), pageMicros(b.focus[1])},
		Close: [2]int64{pageMicros(b.close[0]), pageMicros(b.close[1])},
		Few:   fewRows, Violations: []violationMark{}, FaultIntervals: []intervalMark{}, Events: []any{},
	}
	for _, v := range violations {
		out.Violations = append(out.Violations, b.markViolation(v))
	}
	faultIntervals := r.FaultIntervals
	if len(faultIntervals) == 0 {
		faultIntervals = faultIntervalsOf(r.Events)
	}
	labels := b.labelIntervals(faultIntervals)
	for i, f := range faultIntervals {
		words, idle := needOf(r.Explained, f.Fault)
		out.FaultIntervals = append(out.FaultIntervals, intervalMark{labels[i] + words, pageMicros(f.Begin), pageMicros(f.End), idle})
	}
	out.Processes = b.processes.sortedLanes(b.end, lim)
	out.Executions, out.ExecutionsLeftOut = b.rows.chooseLanes(b, violations)
	out.Queues, out.QueuesLeftOut = b.queues.chooseLanes(b, out.Executions)
	out.Led, out.Dues, out.Leases = leadUpsTo(r, violations), b.deadlines.deadlinesOf(out.Executions), b.deadlines.latestLeases(lim.beats)
	b.writeEvents(out)
	return out
}

func (b *builder) markViolation(v *verdict.Violation) violationMark {
	k := eventOf(b.r.Events, v)
	if k < 0 {
		// Use the last event up to that time.
		k, _ = slices.BinarySearchFunc(b.r.Events, v, func(e history.Event, v *verdict.Violation) int {
			if e.At > v.At || (v.Step > 0 && e.Step > v.Step) {
				return 1
			}
			return -1
		})
		k = max(k-1, 0)
	}
	return violationMark{
		Title: violationTitle(v), Message: b.t.nameQueueOwners(v.Message), Execution: v.Execution, At: pageMicros(v.At), K: k,
	}
}

// chooseFocus chooses the part of the run that is shown first: from the start of the violated execution, or
// from the earliest known cause, until shortly after the violation. A run without a violation is shown
// completely.
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
	b.focus = b.paddedPeriod(from, v.At)
	b.close = b.paddedPeriod(b.lastActs(v), v.At)
}

// paddedPeriod adds some space before and after a period.
func (b *builder) paddedPeriod(from, to time.Duration) [2]time.Duration {
	width := max(to-from, 100*time.Millisecond)
	begin, end := max(0, from-width/12), min(b.end, to+width/6)
	if end <= begin {
		return [2]time.Duration{0, b.end}
	}
	return [2]time.Duration{begin, end}
}

// lastActs returns the time of the fifth-last event about a violation's execution, counted back from the
// violation.
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
		name := b.t.subject(e)
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
		out.Events = append(out.Events, []any{k, pageMicros(e.At), e.Step, who[name], b.t.predicate(e), e.Execution, eventClass(e.Kind), p, q})
	}
	out.EventsLeftOut = len(b.r.Events) - len(chosen)
}

// chooseEvents chooses at most limits.events events. First come the lead-ups to the violations, the events of
// the violated executions and of the faults, then those of the other drawn executions, then the rest. Within
// each group the nearest to the moment come first. Heartbeats come last, because the lanes show them as ticks.
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
		case eventClass(e.Kind) == ofFault, eventClass(e.Kind) == ofProcess:
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

// eventClass returns the style of a kind's events on the page.
func eventClass(k history.Kind) string { return cmp.Or(rowOf(k).class, ofMessage) }
