package reports

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// PerfettoEvents limits the events of a history that a trace shows. With 300 bytes for a text, an event
// takes 2 KB at most.
const PerfettoEvents = 100_000

// afterViolation is how many events after the first violation are shown of a longer history.
const afterViolation = PerfettoEvents / 10

// WritePerfetto writes a run as a trace for Perfetto's viewer, https://ui.perfetto.dev, in its
// protobuf format. Times are nanoseconds since the start of the run.
//
// Each process and each server is a process of the trace: its events are instants, and the times
// when it was down, paused or frozen are slices. A worker has its actions as slices below it, the
// broker the messages in its queues. Above them, each execution is a track with a slice for each of
// its statuses, and each fault is a slice. The events of one message are joined by a flow.
//
// Of a history with more than PerfettoEvents events, those around the first violation are shown, or
// the last ones; an instant of the track "run" says how many are left out.
func WritePerfetto(w io.Writer, r *verdict.Record) error {
	p := &perfetto{
		w: newPerfettoWriter(w), r: r, t: newTeller(r.Workers),
		tracks: make(map[perfettoTrack]uint64), open: make(map[perfettoOpen]*perfettoSlice),
	}
	p.chooseEvents()
	p.declare()
	for i := range r.Events[:p.to] {
		p.now = i
		p.observe(&r.Events[i])
	}
	p.faults()
	p.end()
	return p.w.close()
}

// perfettoTrack names a track: one below a process, or of the run with that name.
type perfettoTrack struct {
	parent, name string
	id           uint64
}

// perfettoOpen names a slice that has not ended: what kind it is, and of whom.
type perfettoOpen struct {
	kind, name string
	id, more   uint64
}

// perfettoSlice is drawn when it ends, and its track declared then, if it has none yet: a track that
// ended before what is shown is left out.
type perfettoSlice struct {
	perfettoEvent
	on    perfettoTrack
	until time.Duration
}

// perfetto draws one record.
type perfetto struct {
	w *perfettoWriter
	r *verdict.Record
	t teller
	// Events from the first to before the last are drawn; begin and end are their times.
	from, to   int
	begin, til time.Duration
	now        int
	tracks     map[perfettoTrack]uint64
	open       map[perfettoOpen]*perfettoSlice
}

// The tracks that are no processes.
const (
	perfettoRun        = "run"
	perfettoExecutions = "executions"
	perfettoFaults     = "faults"
)

func (p *perfetto) chooseEvents() {
	p.to = len(p.r.Events)
	if p.to > PerfettoEvents {
		if violations := sortedViolations(p.r.Violations); len(violations) > 0 {
			at, _ := slices.BinarySearchFunc(p.r.Events, violations[0].At, func(e history.Event, at time.Duration) int { return cmp.Compare(e.At, at) })
			p.to = max(PerfettoEvents, min(p.to, at+afterViolation))
		}
		p.from = p.to - PerfettoEvents
	}
	if p.from > 0 {
		p.begin = p.r.Events[p.from].At
	}
	p.til = p.r.Virtual
	if p.to < len(p.r.Events) {
		p.til = p.r.Events[p.to-1].At
	} else if p.to > 0 {
		p.til = max(p.til, p.r.Events[p.to-1].At)
	}
}

// declare declares every process in the order of the report, and the tracks above them.
func (p *perfetto) declare() {
	for _, name := range []string{perfettoRun, perfettoExecutions, perfettoFaults} {
		p.track(perfettoTrack{name: name})
	}
	var known processes
	known.init(p.t)
	for i := range p.r.Events[:p.to] {
		known.observe(i, &p.r.Events[i])
	}
	for _, l := range known.lanes(p.til, limits{beats: 1}) {
		p.process(l.Name)
	}
	p.process("broker")
	p.process("database")
	if left := len(p.r.Events) - (p.to - p.from); left > 0 {
		p.instant(&perfettoEvent{
			at: p.begin, track: p.process(perfettoRun), name: fmt.Sprintf("%s not shown", plural(left, "event")), category: "note",
			notes: []perfettoNote{{name: "what", text: "The trace shows a part of the run. history.jsonl has everything."}},
		})
	}
}

// process returns the track of a process, or of the run, by its name.
func (p *perfetto) process(name string) uint64 {
	key := perfettoTrack{name: name}
	uuid := p.tracks[key]
	if uuid == 0 {
		uuid = uint64(len(p.tracks) + 1)
		p.tracks[key] = uuid
		p.w.process(uuid, name)
	}
	return uuid
}

// track returns any other track.
func (p *perfetto) track(key perfettoTrack) uint64 {
	uuid := p.tracks[key]
	if uuid == 0 {
		parent := uint64(0)
		if key.parent != "" {
			parent = p.process(key.parent)
		}
		uuid = uint64(len(p.tracks) + 1)
		p.tracks[key] = uuid
		rank := uint64(0)
		if key.parent == perfettoExecutions || key.parent == perfettoFaults {
			rank = key.id
		}
		p.w.track(uuid, parent, key.name, rank)
	}
	return uuid
}

func (p *perfetto) observe(e *history.Event) {
	switch e.Kind {
	case history.ProcessCrashed, history.ProcessStopped, history.ProcessPaused, history.ProcessFrozen, history.DatabaseDown, history.BrokerDown:
		p.state(e, map[history.Kind]string{
			history.ProcessStopped: "stopped", history.ProcessPaused: "paused", history.ProcessFrozen: "frozen",
		}[e.Kind])
	case history.ProcessStarted, history.ProcessResumed, history.ProcessThawed, history.DatabaseUp, history.BrokerUp:
		p.close(perfettoOpen{kind: "state", name: p.home(e)}, e.At)
	case history.Created, history.Transition:
		p.status(e)
	case history.ActionStarted:
		p.start(actionKey(e), perfettoTrack{parent: p.home(e), name: "actions", id: uint64(e.Execution)<<16 | uint64(e.Epoch)&0xffff}, "action", e,
			fmt.Sprintf("execution %d", e.Execution))
	case history.ActionEnded:
		p.close(actionKey(e), e.At)
	case history.Enqueued:
		if e.Queue != "" && e.Limit <= 1 {
			what := messageType(e.Type)
			if e.Execution != 0 {
				what = fmt.Sprintf("%s of execution %d", what, e.Execution)
			}
			p.start(queueKey(e), perfettoTrack{parent: "broker", name: e.Queue, id: e.Message}, "queued", e, what)
		}
	case history.Acked, history.Expired, history.Rejected, history.ReturnedTooOften, history.Dropped:
		p.close(queueKey(e), e.At)
	default:
	}
	p.event(e)
}

func actionKey(e *history.Event) perfettoOpen {
	return perfettoOpen{kind: "action", id: uint64(e.Incarnation), more: uint64(e.Execution)<<16 | uint64(e.Epoch)&0xffff}
}

func queueKey(e *history.Event) perfettoOpen {
	return perfettoOpen{kind: "queued", name: e.Queue, id: e.Message}
}

// state begins a slice on the track of a process or server itself.
func (p *perfetto) state(e *history.Event, name string) {
	if name == "" {
		name = "down"
	}
	home := p.home(e)
	p.close(perfettoOpen{kind: "state", name: home}, e.At)
	p.open[perfettoOpen{kind: "state", name: home}] = &perfettoSlice{perfettoEvent: perfettoEvent{
		at: e.At, track: p.process(home), name: name, category: "state", notes: p.notes(e),
	}}
}

// status begins the slice of an execution's new status, except for a final one.
func (p *perfetto) status(e *history.Event) {
	key := perfettoOpen{kind: "status", id: uint64(e.Execution)}
	p.close(key, e.At)
	if !e.To.Terminal() {
		p.start(key, executionTrack(e.Execution), "status", e, e.To.String())
	}
}

func executionTrack(id execution.ID) perfettoTrack {
	return perfettoTrack{parent: perfettoExecutions, name: fmt.Sprintf("execution %d", id), id: uint64(id)}
}

// start begins a slice. Its track is declared when it is drawn.
func (p *perfetto) start(key perfettoOpen, track perfettoTrack, category string, e *history.Event, name string) {
	s := &perfettoSlice{on: track, perfettoEvent: perfettoEvent{at: e.At, name: name, category: category, notes: p.notes(e)}}
	if category == "queued" {
		s.flow = e.Message
	}
	p.close(key, e.At) // a redelivery may begin it again
	p.open[key] = s
}

// close ends a slice and draws it, unless it ended before what is shown.
func (p *perfetto) close(key perfettoOpen, at time.Duration) {
	s := p.open[key]
	if s == nil {
		return
	}
	delete(p.open, key)
	s.until = at
	if p.now >= p.from {
		p.slice(s)
	}
}

func (p *perfetto) slice(s *perfettoSlice) {
	if s.track == 0 {
		s.track = p.track(s.on)
	}
	s.kind, s.at = sliceBegin, max(s.at, p.begin)
	p.w.event(&s.perfettoEvent)
	p.w.event(&perfettoEvent{kind: sliceEnd, at: max(s.at, s.until), track: s.track})
}

func (p *perfetto) instant(e *perfettoEvent) {
	e.kind = instant
	p.w.event(e)
}

// event draws an event as an instant of its process, and the end of an execution on its track, too.
func (p *perfetto) event(e *history.Event) {
	if p.now < p.from {
		return
	}
	out := &perfettoEvent{at: e.At, name: strings.ReplaceAll(e.Kind.String(), "_", " "), category: e.Kind.String(), notes: p.notes(e)}
	switch e.Kind {
	case history.FaultBegan, history.FaultEnded:
		return // drawn as a slice
	case history.Transition:
		out.name = "→ " + e.To.String()
		if e.To.Terminal() {
			own := *out
			own.track = p.track(executionTrack(e.Execution))
			p.instant(&own)
		}
	case history.Published, history.Delivered:
		out.flow = e.Message
	case history.Acked, history.Expired, history.Rejected, history.ReturnedTooOften, history.Dropped:
		out.flow, out.ends = e.Message, true
	default:
	}
	out.track = p.process(p.home(e))
	p.instant(out)
}

// home is the process, server or other track to which an event belongs.
func (p *perfetto) home(e *history.Event) string {
	switch e.Kind {
	case history.FaultTouched, history.AlertFired, history.AlertResolved, history.Quiescent:
		return perfettoRun
	case history.DatabaseDown, history.DatabaseUp, history.ClockStepped, history.DatabaseRewound, history.RowUnreadable, history.RowLocked, history.RefusedResult:
		return "database"
	case history.BrokerDown, history.BrokerUp, history.Enqueued, history.Requeued, history.Expired, history.Rejected,
		history.ReturnedTooOften, history.DeadLettered, history.Dropped:
		return "broker"
	default:
	}
	known := processes{t: p.t}
	return cmp.Or(known.nameOf(e), "database")
}

func (p *perfetto) notes(e *history.Event) []perfettoNote {
	notes := []perfettoNote{{name: "what", text: p.t.who(e) + " " + p.t.what(e)}}
	for _, n := range []perfettoNote{
		{name: "step", number: e.Step},
		{name: "execution", number: uint64(e.Execution)},
		{name: "epoch", number: uint64(e.Epoch)},
		{name: "message", number: e.Message},
	} {
		if n.number != 0 {
			notes = append(notes, n)
		}
	}
	return notes
}

// faults draws the intervals of the faults, each on a track with its name.
func (p *perfetto) faults() {
	b := &builder{r: p.r, t: p.t}
	labels := b.struck(p.r.FaultIntervals)
	for i, f := range p.r.FaultIntervals {
		if f.End < p.begin || f.Begin > p.til {
			continue
		}
		p.slice(&perfettoSlice{
			on: perfettoTrack{parent: perfettoFaults, name: f.Fault, id: uint64(i) + 1}, until: min(f.End, p.til),
			perfettoEvent: perfettoEvent{at: f.Begin, name: labels[i], category: "fault"},
		})
	}
}

// end draws what has not ended until the last event, and the violations.
func (p *perfetto) end() {
	keys := make([]perfettoOpen, 0, len(p.open))
	for key := range p.open {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b perfettoOpen) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id), cmp.Compare(a.more, b.more))
	})
	p.now = p.to
	for _, key := range keys {
		p.close(key, p.til)
	}
	for _, v := range sortedViolations(p.r.Violations) {
		mark := perfettoEvent{at: v.At, name: "violation of " + violationTitle(v), category: "violation", notes: []perfettoNote{
			{name: "what", text: v.Message}, {name: "step", number: v.Step},
		}}
		for _, n := range []perfettoNote{{name: "rule", text: v.Statement}, {name: "reproduce", text: v.Reproduce}} {
			if n.text != "" {
				mark.notes = append(mark.notes, n)
			}
		}
		tracks := []uint64{p.process(perfettoRun)}
		if v.Execution != 0 {
			tracks = append(tracks, p.track(executionTrack(v.Execution)))
		}
		for _, track := range tracks {
			mark.track = track
			p.instant(&mark)
		}
	}
}
