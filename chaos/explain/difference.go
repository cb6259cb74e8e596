package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// Difference describes where two runs, the first (here) and the second (there), diverged. It splits each run
// into strands. A strand holds the events of one execution, worker, fault, queue or process.
type Difference struct {
	// Same is the length of the two runs' common prefix, in events. Until is the time of its last event.
	// Between Until and the first of Pairs, only details differ: times, acting processes, the order of
	// events, perhaps messages and heartbeats.
	Same  int
	Until time.Duration
	// Act is the first event at which a planted mutant acted, in the first run or else in the second; nil if
	// none acted. There reports whether it is in the second.
	Act   *history.Event
	There bool
	// ActOn is that run's first act on the execution that matters most; nil for none, or if it is Act.
	ActOn *history.Event
	// Pairs holds the first differences of strands, by time, at most as many as Compare was asked for.
	Pairs []Pair
	// More is the number of further strands that differ. Moved is the number of strands that have the same
	// events by another process, at other times or in another order.
	More, Moved int

	// swapped holds strands with the same events in another order. They are shown if nothing else differs.
	swapped []Pair
}

// Equal reports whether no difference was found.
func (d *Difference) Equal() bool {
	return len(d.Pairs) == 0 && d.More == 0 && d.Act == nil && d.Moved == 0
}

// Pair is the first difference between the two runs on one strand.
type Pair struct {
	// Here and There are the differing events of the two runs. One is nil if its run has no counterpart of
	// the other event.
	Here, There *history.Event
	// About is the number of the execution in the first run, 0 for none.
	About execution.ID
	// Over reports whether the run without an event in this pair has no further event on this strand.
	Over bool

	strand string
}

// At returns the time of the pair's earlier event.
func (p *Pair) At() time.Duration {
	switch {
	case p.Here == nil:
		return p.There.At
	case p.There == nil:
		return p.Here.At
	}
	return min(p.Here.At, p.There.At)
}

// Compare compares two runs and returns at most that many differences. The failing run is the first one.
// about is the number, in the first run, of the execution that matters most; 0 for none.
//
// Two executions are the same if they were created under the same idempotency key, or as the same retry of
// the same one. Their numbers don't count, because they shift as soon as a run creates one more. Workers are
// matched by name. Two events of a strand are the same if they have the same epoch, kind, type, status,
// lifecycle, reason and deciding part of the system. Process and time don't count.
//
// Compare begins with the states of executions, workers, faults and servers. If those don't differ before the
// first run fails, it also compares messages and heartbeats. It shows only the first difference of each
// strand: everything after it is a consequence or chance.
//
// It shows the strand that differs first, and those of the execution that matters most and its family:
// retries, parent and children. Later differences of others are mostly remote consequences. Without such an
// execution it shows the strands that differ first.
func Compare(here, there Run, about execution.ID, most int) *Difference {
	d := &Difference{}
	d.countCommonPrefix(here, there)
	d.findActs(here, there, about)
	a, b := strandsOf(here), strandsOf(there)
	if fate := d.compareAt(fates, a, b); !fate || d.tooLate(here.Failed) {
		if d.compareAt(everything, a, b); fate && d.tooLate(here.Failed) {
			d.compareAt(fates, a, b)
		}
	}
	if d.ActOn != nil && most > 1 {
		most-- // its line replaces a difference
	}
	d.choosePairs(familyOf(here, about), about, most)
	return d
}

// countCommonPrefix counts the equal events with which both runs begin.
func (d *Difference) countCommonPrefix(here, there Run) {
	i, j := 0, 0
	for {
		for i < len(here.Events) && here.Events[i].Kind.ForReaders() {
			i++
		}
		for j < len(there.Events) && there.Events[j].Kind.ForReaders() {
			j++
		}
		if i >= len(here.Events) || j >= len(there.Events) || !equalEvents(&here.Events[i], &there.Events[j]) {
			return
		}
		d.Same++
		d.Until = here.Events[i].At
		i, j = i+1, j+1
	}
}

// equalEvents reports whether two events are equal in every comparable field. Steps and message numbers
// differ between versions of the program, and texts are for readers.
func equalEvents(a, b *history.Event) bool {
	x, y := *a, *b
	x.Step, x.Message, x.Text = 0, 0, ""
	y.Step, y.Message, y.Text = 0, 0, ""
	return x == y
}

// compareAt compares the strands at one depth, and reports whether any differ.
func (d *Difference) compareAt(deep depth, a, b *strandSet) bool {
	d.Pairs, d.swapped, d.More, d.Moved = nil, nil, 0, 0
	d.compareStrands(a, b, deep)
	if len(d.Pairs) == 0 {
		d.Pairs = d.swapped
	} else {
		d.Moved += len(d.swapped)
	}
	return len(d.Pairs) > 0
}

// tooLate reports whether every difference is later than the failure, so none can explain it.
func (d *Difference) tooLate(failed time.Duration) bool {
	return failed != 0 && !slices.ContainsFunc(d.Pairs, func(p Pair) bool { return p.At() <= failed })
}

// findActs finds the first event at which a mutant acted, and the first at which it acted on an execution.
func (d *Difference) findActs(here, there Run, about execution.ID) {
	for _, r := range [...]Run{here, there} {
		for i := range r.Events {
			e := &r.Events[i]
			switch {
			case e.Kind != history.MutantActed:
				continue
			case d.Act == nil:
				d.Act = e
			case e.Execution != about:
				continue
			case d.Act.Execution != about:
				d.ActOn = e
			}
			if about == 0 || e.Execution == about {
				return
			}
		}
		if d.Act != nil {
			return
		}
		d.There = true
	}
	d.There = false
}

// depth selects the kinds of events that are compared.
type depth uint8

const (
	// fates compares only the states of executions, workers, faults and servers.
	fates depth = iota
	// everything compares messages and heartbeats, too.
	everything
)

// comparesKind reports whether events of a kind are compared at this depth.
func (d depth) comparesKind(k history.Kind) bool {
	switch k {
	case history.Logged, history.MutantActed, history.EndAsked, history.Quiescent, history.ActionDefined:
		return false
	case history.Published, history.PublishedMarked, history.Enqueued, history.Delivered, history.Acked, history.Requeued,
		history.Hinted, history.HeartbeatRenewed, history.HealthReported, history.DeadLettered, history.KeyKnown, history.FaultTouched,
		history.ToldGone, history.SlotTaken, history.SlotFreed:
		return d == everything
	}
	return true
}

// strand holds the events of one execution, worker, fault, queue or process, in order.
type strand struct {
	name   string
	about  execution.ID
	events []*history.Event
}

// strandSet holds the strands of a run, in the order of their first events.
type strandSet struct {
	run   Run
	order []*strand
	named map[string]*strand
}

func strandsOf(r Run) *strandSet {
	l := &strandSet{run: r, named: make(map[string]*strand)}
	names := executionNames(r)
	for i := range r.Events {
		e := &r.Events[i]
		if !everything.comparesKind(e.Kind) {
			continue
		}
		name := l.strandName(e, names)
		at := l.named[name]
		if at == nil {
			at = &strand{name: name, about: e.Execution}
			l.named[name] = at
			l.order = append(l.order, at)
		}
		at.events = append(at.events, e)
	}
	return l
}

// executionNames returns a name for each execution by which it can be found in another run. An execution
// without an idempotency key has no name.
func executionNames(r Run) map[execution.ID]string {
	names := make(map[execution.ID]string)
	for i := range r.Events {
		e := &r.Events[i]
		if e.Kind != history.Created {
			continue
		}
		switch chain := names[e.Chain]; {
		case e.Count > 0 && chain != "":
			names[e.Execution] = fmt.Sprintf("%s, retry %d", chain, e.Count)
		case e.Key != "":
			names[e.Execution] = "key " + e.Key
		}
	}
	return names
}

func (s *strandSet) strandName(e *history.Event, names map[execution.ID]string) string {
	switch {
	case e.Execution != 0:
		if name := names[e.Execution]; name != "" {
			return name
		}
		return fmt.Sprintf("execution %d", e.Execution)
	case e.Worker != 0:
		return "worker " + s.run.Workers[e.Worker]
	case e.Fault != "":
		return "fault " + e.Fault
	case e.Queue != "":
		return "queue " + drawnPart.ReplaceAllString(e.Queue, "")
	}
	return "process " + e.Process
}

// drawnPart matches the random part in the name of an executor's dead letter canary queue.
var drawnPart = regexp.MustCompile(`\.[0-9a-f]{12}\b`)

// signature holds the fields of an event that Compare compares. It omits the incarnation, whose number shifts
// between runs.
type signature struct {
	epoch  execution.Epoch
	kind   history.Kind
	to     execution.Status
	by     execution.Part
	reason execution.Reason
	life   execution.Lifecycle
	kindOf uint8
}

func signatureOf(e *history.Event) signature {
	return signature{e.Epoch, e.Kind, e.To, e.By, e.Reason, e.Lifecycle, e.Type}
}

// compareStrands compares each strand of the first run with the same strand of the second.
func (d *Difference) compareStrands(a, b *strandSet, deep depth) {
	for _, here := range a.order {
		there := b.named[here.name]
		if there == nil {
			there = &strand{}
		}
		d.compareStrand(here, there, deep, a.run, b.run)
	}
	for _, there := range b.order {
		if a.named[there.name] == nil {
			d.compareStrand(&strand{}, there, deep, a.run, b.run)
		}
	}
}

// compareStrand adds the first difference of one strand: an event that one run has and the other lacks. If
// both sides have the same events in another order, the strand goes to swapped.
func (d *Difference) compareStrand(here, there *strand, deep depth, a, b Run) {
	x, y := eventsAtDepth(here.events, deep), eventsAtDepth(there.events, deep)
	moved, n := false, 0
	for n < min(len(x), len(y)) && signatureOf(x[n]) == signatureOf(y[n]) {
		moved = moved || x[n].At != y[n].At || actorName(x[n], a) != actorName(y[n], b)
		n++
	}
	x, y = x[n:], y[n:]
	if len(x)+len(y) == 0 {
		if moved {
			d.Moved++
		}
		return
	}
	p := Pair{About: here.about, strand: cmp.Or(here.name, there.name)}
	i, j := surplusIndex(x, y), surplusIndex(y, x)
	switch {
	case i == len(x) && j == len(y):
		p.Here, p.There = x[0], y[0]
		d.swapped = append(d.swapped, p)
		return
	// Two events form one pair if the second run has one where the first has the other.
	case i < len(x) && j < len(y) && (x[i].Kind == y[j].Kind || i == 0 && j == 0):
		p.Here, p.There = x[i], y[j]
	case j == len(y), i < len(x) && x[i].At <= y[j].At:
		p.Here, p.Over = x[i], len(y) == 0
	default:
		p.There, p.Over = y[j], len(x) == 0
	}
	d.Pairs = append(d.Pairs, p)
}

// surplusIndex returns the index of the first event in a that b has fewer times, len(a) for none.
func surplusIndex(a, b []*history.Event) int {
	left := make(map[signature]int, len(b))
	for _, e := range b {
		left[signatureOf(e)]++
	}
	for i, e := range a {
		s := signatureOf(e)
		if left[s] == 0 {
			return i
		}
		left[s]--
	}
	return len(a)
}

func eventsAtDepth(events []*history.Event, deep depth) (kept []*history.Event) {
	for _, e := range events {
		if deep.comparesKind(e.Kind) {
			kept = append(kept, e)
		}
	}
	return kept
}

// actorName returns the process that caused an event, or else the worker.
func actorName(e *history.Event, r Run) string { return cmp.Or(e.Process, r.Workers[e.Worker]) }

// familyOf returns a function that reports whether a strand belongs to an execution or its family: the rows
// of its chain and of the chains of its parent and children. No strand belongs to execution 0.
func familyOf(r Run, id execution.ID) func(strand string) bool {
	chains, parents := make(map[execution.ID]execution.ID), make(map[execution.ID]execution.ID)
	for i := range r.Events {
		if e := &r.Events[i]; e.Kind == history.Created {
			chains[e.Execution] = cmp.Or(e.Chain, e.Execution)
			if e.Related != 0 {
				parents[e.Execution] = e.Related
			}
		}
	}
	chain := cmp.Or(chains[id], id)
	roots := map[execution.ID]bool{chain: true}
	for child, parent := range parents {
		switch {
		case cmp.Or(chains[child], child) == chain:
			roots[cmp.Or(chains[parent], parent)] = true
		case cmp.Or(chains[parent], parent) == chain:
			roots[cmp.Or(chains[child], child)] = true
		}
	}
	names := executionNames(r)
	return func(strand string) bool {
		if id == 0 {
			return false
		}
		first, _, _ := strings.Cut(strand, ", retry ")
		for root := range roots {
			if first == cmp.Or(names[root], fmt.Sprintf("execution %d", root)) {
				return true
			}
		}
		return false
	}
}

// choosePairs keeps the earliest difference, and the differences of the execution that matters most and of
// its family, its own first. Without such an execution it keeps the earliest ones.
func (d *Difference) choosePairs(family func(strand string) bool, about execution.ID, most int) {
	slices.SortStableFunc(d.Pairs, func(p, q Pair) int { return cmp.Compare(p.At(), q.At()) })
	all := d.Pairs
	d.Pairs = all[:min(len(all), most)]
	if len(all) > most && about != 0 {
		d.Pairs = nearestPairs(all, family, about, most)
	}
	d.More = len(all) - len(d.Pairs)
}

// nearestPairs chooses at most most of the differences, which are ordered by time.
func nearestPairs(all []Pair, family func(strand string) bool, about execution.ID, most int) (kept []Pair) {
	rank := func(i int) int {
		switch p := &all[i]; {
		case p.About == about:
			return 0
		case i == 0:
			return 1
		case family(p.strand):
			return 2
		}
		return 3
	}
	var order []int
	for i := range all {
		if rank(i) < 3 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(rank(i), rank(j)) })
	order = order[:min(len(order), most)]
	slices.Sort(order)
	for _, i := range order {
		kept = append(kept, all[i])
	}
	return kept
}
