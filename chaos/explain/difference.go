package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// Difference says where two runs went different ways.
type Difference struct {
	// Same is how many events both runs begin with, and Until the time of the last of them. After
	// that only times and processes differ, until the first of Pairs.
	Same  int
	Until time.Duration
	// Act is the first event at which a planted mutant acted, in either run; nil for none. There
	// says that it did so in the second one.
	Act   *history.Event
	There bool
	// Pairs are the first differences, by time: at most as many as were asked for. The failing
	// execution's is among them if it has one.
	Pairs []Pair
	// More is how many further executions, workers and parts differ. Moved is how many others do
	// the same, by another process, at other times or in another order only.
	More, Moved int

	// swapped are the differences in the order of the same events. They are shown where nothing else
	// differs.
	swapped []Pair
}

// Equal says that the runs tell no difference.
func (d *Difference) Equal() bool {
	return len(d.Pairs) == 0 && d.More == 0 && d.Act == nil && d.Moved == 0
}

// Pair is the first difference in what happens to one execution, or to one process.
type Pair struct {
	// Here and There are what happens in the two runs in the same place; nil if nothing like the
	// other one does.
	Here, There *history.Event
	// About is the execution in the first run, 0 for none.
	About execution.ID
	// Over says of a pair with one side that nothing at all happens on the other one from there on.
	Over bool
}

// At is when the pair's earlier event happens.
func (p *Pair) At() time.Duration {
	switch {
	case p.Here == nil:
		return p.There.At
	case p.There == nil:
		return p.Here.At
	}
	return min(p.Here.At, p.There.At)
}

// Compare compares two runs and shows at most so many differences. about is the execution that
// matters most, by its number in the first run; 0 for none.
//
// The runs are aligned by execution, epoch, kind and actor. Executions are the same if they were
// created under the same idempotency key, or as the same retry of the same one, because their
// numbers shift as soon as a run creates one more. Of each execution, worker and part only the
// first difference is shown: everything after it is a consequence, or chance.
func Compare(here, there Run, about execution.ID, most int) *Difference {
	d := &Difference{}
	d.begin(here, there)
	d.acts(here, there)
	a, b := strandsOf(here), strandsOf(there)
	for _, depth := range []depth{fates, everything} {
		d.Pairs, d.swapped, d.More, d.Moved = nil, nil, 0, 0
		d.compare(a, b, depth)
		if len(d.Pairs) == 0 {
			d.Pairs = d.swapped
		} else {
			d.Moved += len(d.swapped)
		}
		if len(d.Pairs) > 0 {
			break
		}
	}
	d.choose(about, most)
	return d
}

// begin finds what both runs begin with.
func (d *Difference) begin(here, there Run) {
	i, j := 0, 0
	for {
		for i < len(here.Events) && here.Events[i].Kind.ForReaders() {
			i++
		}
		for j < len(there.Events) && there.Events[j].Kind.ForReaders() {
			j++
		}
		if i >= len(here.Events) || j >= len(there.Events) || !same(&here.Events[i], &there.Events[j]) {
			return
		}
		d.Same++
		d.Until = here.Events[i].At
		i, j = i+1, j+1
	}
}

// same says that two events are the same. Steps and numbers of messages differ between versions of
// the program, and texts are for people.
func same(a, b *history.Event) bool {
	x, y := *a, *b
	x.Step, x.Message, x.Text = 0, 0, ""
	y.Step, y.Message, y.Text = 0, 0, ""
	return x == y
}

func (d *Difference) acts(here, there Run) {
	first := func(r Run) *history.Event {
		i := slices.IndexFunc(r.Events, func(e history.Event) bool { return e.Kind == history.MutantActed })
		if i < 0 {
			return nil
		}
		return &r.Events[i]
	}
	d.Act = first(here)
	if d.Act == nil {
		d.Act = first(there)
		d.There = d.Act != nil
	}
}

// depth says how much is compared.
type depth uint8

const (
	// fates: what becomes of executions, workers, faults and servers.
	fates depth = iota
	// everything: messages and heartbeats too.
	everything
)

// deals says that the depth compares events of a kind.
func (d depth) deals(k history.Kind) bool {
	switch k {
	case history.Logged, history.MutantActed, history.PoliciesAsked, history.EndAsked, history.Quiescent, history.ActionDefined:
		return false
	case history.Published, history.PublishedMarked, history.Enqueued, history.Delivered, history.Acked, history.Requeued,
		history.Hinted, history.HeartbeatRenewed, history.HealthReported, history.DeadLettered, history.KeyKnown, history.FaultTouched,
		history.ToldGone, history.SlotTaken, history.SlotFreed:
		return d == everything
	}
	return true
}

// strand is what happens to one execution, worker, process or part, in order.
type strand struct {
	name   string
	about  execution.ID
	events []*history.Event
}

// strands are those of a run, in the order of their first events.
type strands struct {
	run   Run
	order []*strand
	named map[string]*strand
}

func strandsOf(r Run) *strands {
	l := &strands{run: r, named: make(map[string]*strand)}
	names := identities(r)
	for i := range r.Events {
		e := &r.Events[i]
		if !everything.deals(e.Kind) {
			continue
		}
		name := l.name(e, names)
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

// identities names each execution so that the name is the same in another run.
func identities(r Run) map[execution.ID]string {
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

func (l *strands) name(e *history.Event, names map[execution.ID]string) string {
	switch {
	case e.Execution != 0:
		if name := names[e.Execution]; name != "" {
			return name
		}
		return fmt.Sprintf("execution %d", e.Execution)
	case e.Worker != 0:
		return "worker " + l.run.Workers[e.Worker]
	case e.Fault != "":
		return "fault " + e.Fault
	case e.Queue != "":
		return "queue " + drawnPart.ReplaceAllString(e.Queue, "")
	}
	return "process " + e.Process
}

// drawnPart is the part of a queue's name that each run draws anew: those of the executors' canaries
// have one.
var drawnPart = regexp.MustCompile(`\.[0-9a-f]{12}\b`)

// step is what is compared of an event. The incarnation is not: it is a number that shifts.
type step struct {
	epoch  execution.Epoch
	kind   history.Kind
	to     execution.Status
	by     execution.Part
	reason execution.Reason
	life   execution.Lifecycle
	kindOf uint8
}

func stepOf(e *history.Event) step {
	return step{e.Epoch, e.Kind, e.To, e.By, e.Reason, e.Lifecycle, e.Type}
}

// compare compares the strands of the first run with those of the second one.
func (d *Difference) compare(a, b *strands, deep depth) {
	for _, here := range a.order {
		there := b.named[here.name]
		if there == nil {
			there = &strand{}
		}
		d.strand(here, there, deep, a.run, b.run)
	}
	for _, there := range b.order {
		if a.named[there.name] == nil {
			d.strand(&strand{}, there, deep, a.run, b.run)
		}
	}
}

// strand adds the first difference of one strand: what happens on one side and not on the other. Events
// that happen on both sides in another order are swapped.
func (d *Difference) strand(here, there *strand, deep depth, a, b Run) {
	x, y := only(here.events, deep), only(there.events, deep)
	moved, n := false, 0
	for n < min(len(x), len(y)) && stepOf(x[n]) == stepOf(y[n]) {
		moved = moved || x[n].At != y[n].At || actor(x[n], a) != actor(y[n], b)
		n++
	}
	x, y = x[n:], y[n:]
	if len(x)+len(y) == 0 {
		if moved {
			d.Moved++
		}
		return
	}
	p := Pair{About: here.about}
	i, j := surplus(x, y), surplus(y, x)
	switch {
	case i == len(x) && j == len(y):
		p.Here, p.There = x[0], y[0]
		d.swapped = append(d.swapped, p)
		return
	// They stand side by side if one is there in place of the other.
	case i < len(x) && j < len(y) && (x[i].Kind == y[j].Kind || i == 0 && j == 0):
		p.Here, p.There = x[i], y[j]
	case j == len(y), i < len(x) && x[i].At <= y[j].At:
		p.Here, p.Over = x[i], len(y) == 0
	default:
		p.There, p.Over = y[j], len(x) == 0
	}
	d.Pairs = append(d.Pairs, p)
}

// surplus is the index of the first event in a for which b has no counterpart, wherever in b; len(a)
// for none.
func surplus(a, b []*history.Event) int {
	left := make(map[step]int, len(b))
	for _, e := range b {
		left[stepOf(e)]++
	}
	for i, e := range a {
		s := stepOf(e)
		if left[s] == 0 {
			return i
		}
		left[s]--
	}
	return len(a)
}

func only(events []*history.Event, deep depth) (kept []*history.Event) {
	for _, e := range events {
		if deep.deals(e.Kind) {
			kept = append(kept, e)
		}
	}
	return kept
}

// actor is who did it.
func actor(e *history.Event, r Run) string { return cmp.Or(e.Process, r.Workers[e.Worker]) }

// choose keeps the first differences, and the one of the execution that matters most.
func (d *Difference) choose(about execution.ID, most int) {
	slices.SortStableFunc(d.Pairs, func(p, q Pair) int { return cmp.Compare(p.At(), q.At()) })
	kept := d.Pairs[:min(len(d.Pairs), most)]
	if i := slices.IndexFunc(d.Pairs, func(p Pair) bool { return about != 0 && p.About == about }); i >= most && most > 0 {
		kept = append(slices.Clone(kept[:most-1]), d.Pairs[i])
	}
	d.More = len(d.Pairs) - len(kept)
	d.Pairs = kept
}
