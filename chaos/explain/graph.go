package explain

import (
	"slices"
	"strings"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// edge leads from an event back to an earlier event that contributed to it.
type edge struct {
	to  int32
	why relation
}

// relation is the reason for an edge.
type relation uint8

const (
	world   relation = iota // the world recorded this edge
	row                     // an earlier event of the same execution
	chain                   // an event of the execution that this one retries, or of its parent
	message                 // an earlier event of the same message
	action                  // the run of the same execution and epoch
	owner                   // the incarnation that owns the row
	struck                  // the beginning of the fault whose effect this event shows
	hit                     // the latest fault that targeted the process
	lived                   // the start, stop or pause of its process
	worked                  // the previous event of the same process, in any task
	acted                   // an act of a mutant in the same process, which reports only some of its acts
	relations
)

// graph holds the edges among a run's events up to some event. There are two kinds:
//
//   - The world may have recorded edges (Run.Parents): the simulator knows a task's previous event, and the
//     message or timer that woke the task.
//   - Others follow from the events alone, and so exist for real daemons, too: a change of a row follows the
//     previous change, a delivery its publish, an action its claim, a fault's evidence its beginning, and a
//     process's acts its start.
//
// Almost everything is in the past of a late event, because tasks never end. So edges have lengths
// (search.edgeLength): an edge within the violated execution is short, one to other work of the same task is
// long.
type graph struct {
	r     *Run
	edges [][]edge
	// The latest event of each subject so far.
	rows, runs, chains map[execution.ID]int32
	messages           map[uint64]int32
	incarnations       map[execution.Incarnation]int32
	faults             map[string]int32
	states, works      map[string]int32
	hits               map[string]int32 // the latest fault of each target
	queues, alerts     map[string]int32
	// kinds counts the events of each class; mutant acts with different texts are different classes.
	kinds map[eventClass]int32
	// marks holds a mutant's first act for each process and text, and texts the first for each text anywhere.
	marks map[string][]int32
	texts map[string]int32
}

// newGraph finds the edges of the first n events of a run.
func newGraph(r *Run, n int) *graph {
	g := &graph{
		r: r, edges: make([][]edge, n), rows: make(map[execution.ID]int32), runs: make(map[execution.ID]int32), chains: make(map[execution.ID]int32),
		messages: make(map[uint64]int32), incarnations: make(map[execution.Incarnation]int32), faults: make(map[string]int32),
		states: make(map[string]int32), works: make(map[string]int32), hits: make(map[string]int32),
		queues: make(map[string]int32), alerts: make(map[string]int32), kinds: make(map[eventClass]int32), marks: make(map[string][]int32), texts: make(map[string]int32),
	}
	for i := range n {
		g.addEvent(int32(i))
	}
	return g
}

// eventClass holds the fields that all events of a class have in common.
type eventClass struct {
	kind   history.Kind
	from   execution.Status
	to     execution.Status
	reason execution.Reason
	text   string
}

func classOf(e *history.Event) eventClass {
	u := eventClass{e.Kind, e.From, e.To, e.Reason, ""}
	if e.Kind == history.MutantActed {
		u.text = e.Text
	}
	return u
}

// addEvent adds the next event with its edges.
func (g *graph) addEvent(i int32) {
	e := &g.r.Events[i]
	g.kinds[classOf(e)]++
	if int(i) < len(g.r.Parents) {
		for _, p := range g.r.Parents[i] {
			g.addEdge(i, p, true, world)
		}
	}
	if isHidden(e) {
		return // its edges are passed through
	}
	g.linkSubjects(i, e)
	if e.Kind == history.MutantActed {
		g.noteMutantAct(i, e)
		return
	}
	for _, to := range g.marks[e.Process] {
		g.addEdge(i, to, true, acted)
	}
	if e.Process != "" && !isFault(e.Kind) {
		to, known := g.works[e.Process]
		g.addEdge(i, to, known, worked)
		g.works[e.Process] = i
	}
}

// linkSubjects adds the edges of an event to earlier events of the same subjects.
func (g *graph) linkSubjects(i int32, e *history.Event) {
	if e.Execution != 0 {
		to, known := g.rows[e.Execution]
		g.addEdge(i, to, known, row)
		to, known = g.runs[e.Execution]
		g.addEdge(i, to, known, action)
		if e.Kind == history.Created {
			for _, before := range []execution.ID{e.Chain, e.Related} {
				to, known = g.chains[before]
				g.addEdge(i, to, known && before != 0 && before != e.Execution, chain)
			}
		}
	}
	if e.Message != 0 && isMessage(e.Kind) {
		to, known := g.messages[e.Message]
		g.addEdge(i, to, known, message)
		g.messages[e.Message] = i
	}
	if e.Incarnation != 0 {
		to, known := g.incarnations[e.Incarnation]
		g.addEdge(i, to, known, owner)
	}
	if isFault(e.Kind) {
		to, known := g.faults[e.Fault]
		g.addEdge(i, to, known, struck)
		g.faults[e.Fault] = i
		if e.Kind == history.FaultBegan {
			for name := range strings.SplitSeq(e.Process, ",") {
				g.hits[name] = i
			}
		}
	} else {
		for _, name := range []string{e.Process, g.r.Workers[e.Worker]} {
			to, known := g.hits[name]
			g.addEdge(i, to, known && name != "", hit)
		}
		to, known := g.states[e.Process]
		g.addEdge(i, to, known && e.Process != "", lived)
	}
	g.recordLatest(i, e)
}

// noteMutantAct records that a mutant acted. A process logs each text once, and repeats it only after a
// while, so the first act represents all.
func (g *graph) noteMutantAct(i int32, e *history.Event) {
	to, known := g.texts[e.Text]
	g.addEdge(i, to, known, acted)
	if !known {
		g.texts[e.Text] = i
	}
	for _, m := range g.marks[e.Process] {
		if g.r.Events[m].Text == e.Text {
			g.addEdge(i, m, true, acted)
			return
		}
	}
	g.marks[e.Process] = append(g.marks[e.Process], i)
}

// recordLatest records an event as the latest event of each of its subjects.
func (g *graph) recordLatest(i int32, e *history.Event) {
	if e.Queue != "" && !isFault(e.Kind) {
		g.queues[e.Queue] = i
	}
	switch {
	case e.Kind == history.AlertFired, e.Kind == history.AlertResolved:
		g.alerts[e.Fault] = i
	case e.Kind == history.ActionStarted, e.Kind == history.ActionEnded:
		g.runs[e.Execution] = i
	case e.Kind >= history.Created && e.Kind <= history.Observed && e.Execution != 0:
		g.rows[e.Execution] = i
		if e.Chain != 0 {
			g.chains[e.Chain] = i
		}
	case e.Kind >= history.WorkerRegistered && e.Kind <= history.WorkerCordoned && e.Incarnation != 0:
		g.incarnations[e.Incarnation] = i
	case e.Kind >= history.ProcessStarted && e.Kind <= history.ProcessThawed:
		g.states[e.Process] = i
	default:
	}
}

func (g *graph) addEdge(from, to int32, known bool, why relation) {
	if known && to < from && !slices.ContainsFunc(g.edges[from], func(x edge) bool { return x.to == to }) {
		g.edges[from] = append(g.edges[from], edge{to, why})
	}
}

// isHidden reports whether an event is never shown as a cause: a log line of the core, or a repetition of
// another event. Paths through hidden events still count.
func isHidden(e *history.Event) bool {
	k := e.Kind
	return k.ForReaders() && k != history.MutantActed && k != history.ToldGone && k != history.EndAsked
}

func isFault(k history.Kind) bool { return k >= history.FaultBegan && k <= history.FaultTouched }

func isMessage(k history.Kind) bool {
	return k >= history.Published && k <= history.Dropped || k == history.ConsumerTimedOut || k == history.ReturnedTooOften
}
