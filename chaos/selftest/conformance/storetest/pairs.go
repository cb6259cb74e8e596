package storetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// Two concurrent calls return answers, and leave the database, as if one had been made after the other. The
// caller, who has a real database, makes them meet at every lock. The model here gives the results of the two
// orders.

// readers are the methods of the store that write nothing, so no two calls conflict over them.
var readers = []string{
	"Executions", "Actions", "List", "Chain", "DeadLetters", "DeadLetter", "SummarizeDeadLetters", "Observations", "Workers", "Newest", "Find", "FindWorkers", "Dispatched", "Clock", "Survey",
}

// Writing lists the methods of the store that write.
func Writing() []string {
	var writing []string
	for _, part := range []reflect.Type{reflect.TypeFor[store.Client](), reflect.TypeFor[store.Executor](), reflect.TypeFor[store.Worker]()} {
		for i := range part.NumMethod() {
			if name := part.Method(i).Name; !slices.Contains(readers, name) && !slices.Contains(writing, name) {
				writing = append(writing, name)
			}
		}
	}
	return writing
}

// Ungenerated lists the writing methods for which Stage.Writes has no call. A new writing method of
// the store needs a call there.
func Ungenerated(writes []Write) []string {
	return slices.DeleteFunc(Writing(), func(name string) bool {
		return slices.ContainsFunc(writes, func(w Write) bool { return w.Method == name })
	})
}

// Write is one call of a writing method with fixed arguments.
type Write struct {
	// Method is the store's method; Name describes the arguments.
	Method, Name string
	// Meets lists what the call can wait for, apart from the rows that it locks: "key new" for the row of an
	// unused idempotency key, "name new" for a worker's name, "turn" for its turn to dispatch to the stage's
	// worker.
	Meets []string
	// Passes reports whether the call skips rows that another call has locked. skipped is its answer in that
	// case, nil for passed.
	Passes  bool
	skipped *Answer

	do func(ctx context.Context, s store.Store) Answer
	// parts are the calls about each single row, if the call is about several: each row may take
	// effect at its own moment.
	parts []Write
}

// Do makes the call.
func (w Write) Do(ctx context.Context, s store.Store) Answer { return w.do(ctx, s) }

// Answer is the answer of a call.
type Answer struct {
	// made are the executions that the call created, registered is the incarnation. Both are shown in the
	// order of the calls and not by their numbers, because the first call gets the first number.
	made       []execution.ID
	registered store.WorkerKey
	// head is shown first, once for all parts of a call.
	head string
	tell func(p *player)
}

// joinAnswers joins the answers of the parts of a call.
func joinAnswers(parts []Answer) Answer {
	var all Answer
	for _, a := range parts {
		all.made = append(all.made, a.made...)
		if all.head == "" || a.head != parts[0].head {
			all.head = a.head
		}
	}
	all.tell = func(p *player) {
		for _, a := range parts {
			a.tell(p)
		}
	}
	return all
}

// passed is the answer of a call that skipped all its rows.
var passed = Answer{tell: func(p *player) { p.recordLine("nothing") }}

// skippedAnswer is the answer of the call if it skipped all its rows.
func (w *Write) skippedAnswer() Answer {
	if w.skipped != nil {
		return *w.skipped
	}
	return passed
}

// Stage is a situation prepared on one store.
type Stage struct {
	begin time.Time
	names map[execution.WorkerID]string
	known []store.WorkerKey
	ids   []execution.ID

	// worker is the incarnation that the writes are about, at its latest beat, and process its
	// process. key and second are the rows. other is another incarnation, in a situation that has
	// two.
	worker, other store.WorkerKey
	process       uint64
	key, second   execution.Key
	// chain is the first row of key's chain, child an execution that waits for its end; 0 for none.
	chain, child execution.ID
	retries      int
	letter       int64
}

// Worker returns the incarnation that the writes are about.
func (st *Stage) Worker() store.WorkerKey { return st.worker }

// Situation is a state of the database in which calls can meet.
type Situation struct {
	Name    string
	prepare func(b *fixture, st *Stage)
}

// Prepare makes the situation in an empty store.
func (s Situation) Prepare(t *testing.T, subject Subject) *Stage {
	t.Helper()
	b := &fixture{Subject: subject, t: t, ctx: context.Background()}
	st := &Stage{names: make(map[execution.WorkerID]string)}
	var err error
	st.begin, err = subject.Store.Clock(b.ctx)
	b.must(err)
	s.prepare(b, st)
	rows, err := subject.Store.List(b.ctx, store.ExecutionQuery{Limit: many})
	b.must(err)
	for i := range rows {
		st.ids = append(st.ids, rows[i].ID)
	}
	slices.Sort(st.ids)
	return st
}

// many exceeds the number of rows in any situation.
const many = 100

// Shown shows the answers of two calls and everything that can be read afterwards, so that two stores that
// behave alike show the same. It ends with calls that reveal state which no reader shows: heartbeats, and a
// claim of all rows that can be scheduled.
func (st *Stage) Shown(s store.Store, answers ...Answer) string {
	p := newPlayer(Subject{Store: s})
	p.begin, p.known = st.begin, slices.Clone(st.known)
	for id, name := range st.names {
		p.names[id] = name
	}
	for _, id := range st.ids {
		p.numberRow(id)
	}
	for _, a := range answers {
		for _, id := range a.made {
			p.numberRow(id)
		}
		if w := a.registered; w.Incarnation != 0 {
			p.known = append(p.known, w)
			if _, known := p.names[w.ID]; !known {
				p.names[w.ID] = "another"
			}
		}
	}
	rows, err := s.List(p.ctx, store.ExecutionQuery{Limit: many})
	p.recordLine("all executions: %s", errorKind(err))
	for i := range rows {
		p.numberRow(rows[len(rows)-1-i].ID)
	}
	for n, a := range answers {
		p.recordLine("answer %d: %s", n+1, a.head)
		a.tell(p)
	}
	p.surveyStore()
	p.recordUnsurveyed()
	p.probeHiddenState(st)
	return strings.Join(p.now, "\n")
}

// recordUnsurveyed records what the survey of TestSequences leaves out.
func (p *player) recordUnsurveyed() {
	counted, err := p.Store.Survey(p.ctx)
	counted.Held = 0 // only a real database has transactions that are open
	p.recordLine("survey: %s %+v", errorKind(err), counted)
	letters, err := p.Store.DeadLetters(p.ctx, store.DeadLetterQuery{Limit: many})
	p.recordLine("dead letters: %s", errorKind(err))
	for _, l := range letters {
		p.recordLine("  %d %s %s open %v handled %s", l.ID, l.Queue, l.Outcome, l.Open, p.momentText(l.HandledAt))
	}
	observations, err := p.Store.Observations(p.ctx, store.ObservationQuery{Limit: many})
	p.recordLine("observations: %s", errorKind(err))
	for _, o := range observations {
		p.recordLine("  %s %s of %s would %s %s ended %s", o.Part, p.keyText(o.Key), p.incarnationText(o.Worker.Incarnation), o.Would, o.Reason, p.momentText(o.EndedAt))
	}
	actions, err := p.Store.Actions(p.ctx, store.ActionQuery{Limit: many})
	p.recordLine("actions: %s %+v", errorKind(err), actions)
	found, err := p.Store.Find(p.ctx, store.Finding{Cause: store.OwnerGone, Limit: many})
	p.recordLine("whose owners are gone: %s [%s]", errorKind(err), p.keyTexts(found))
}

// probeHiddenState reveals state that no reader shows.
func (p *player) probeHiddenState(st *Stage) {
	b := store.Beat{WorkerKey: st.worker, Number: 99, Lease: Lease, ConsumerAlive: true}
	for i := range p.rows {
		b.Held = append(b.Held, p.rows[i].Key())
	}
	reply, err := p.Store.Heartbeat(p.ctx, b)
	p.recordLine("a heartbeat: %s, drain %v", errorKind(err), reply.Drain)
	for _, key := range reply.Lost {
		p.recordLine("  lost %s", p.keyText(key))
	}
	for _, key := range reply.Cancel {
		p.recordLine("  to be ended %s", p.keyText(key))
	}
	for _, w := range p.known[len(st.known):] {
		reply, err := p.Store.Heartbeat(p.ctx, store.Beat{WorkerKey: w, Number: 99, Lease: Lease, ConsumerAlive: true})
		p.recordLine("a heartbeat of %s: %s, drain %v", p.incarnationText(w.Incarnation), errorKind(err), reply.Drain)
	}
	rows, err := p.Store.ClaimForScheduling(p.ctx, store.SchedulingClaim{Executor: "probe", Expiry: time.Minute, Others: many})
	var names []string
	for i := range rows {
		names = append(names, p.keyText(rows[i].Key()))
	}
	slices.Sort(names)
	p.recordLine("claimed: %s %v", errorKind(err), names)
}

// Effective reports whether the call changes something if it is made first.
func (st *Stage) Effective(model State, w Write) bool {
	s := model.Clone()
	w.Do(context.Background(), s.Store)
	return st.Shown(model.Clone().Store) != st.Shown(s.Store)
}

// Orders are the possible results of two calls: first those of one order, then those of the
// reverse.
type Orders []string

// Matter reports whether the order of the calls makes a difference.
func (o Orders) Matter() bool { return o[0] != o[1] }

// Orders gets the results of two calls in either order from the model. A call that skips locked rows may also
// have found nothing.
func (st *Stage) Orders(model State, a, b Write) Orders {
	ctx := context.Background()
	forth, back := model.Clone(), model.Clone()
	one := a.Do(ctx, forth.Store)
	two := b.Do(ctx, forth.Store)
	o := Orders{st.Shown(forth.Store, one, two)}
	two = b.Do(ctx, back.Store)
	one = a.Do(ctx, back.Store)
	o = append(o, st.Shown(back.Store, one, two))
	if a.Passes {
		s := model.Clone()
		two := b.Do(ctx, s.Store)
		o = append(o, st.Shown(s.Store, a.skippedAnswer(), two))
	}
	if b.Passes {
		s := model.Clone()
		one := a.Do(ctx, s.Store)
		o = append(o, st.Shown(s.Store, one, b.skippedAnswer()))
	}
	if a.Passes && b.Passes {
		o = append(o, st.Shown(model.Clone().Store, a.skippedAnswer(), b.skippedAnswer()))
	}
	return o
}

// Apart gets the results from the model if each row of the two calls takes effect at its own moment, in any
// order of the rows. It returns none if both calls are about one row. A call that skips locked rows may skip
// any of its own.
func (st *Stage) Apart(model State, a, b Write) Orders {
	var o Orders
	calls := []Write{a, b}
	// part names a part of a call.
	type part struct{ call, n int }
	var all []part
	for i, w := range calls {
		if w.parts == nil {
			calls[i].parts = []Write{w}
		}
		for n := range calls[i].parts {
			all = append(all, part{i, n})
		}
	}
	if len(all) == len(calls) {
		return nil
	}
	forEachPermutation(len(all), func(order []int) {
		for skips := range 1 << len(all) {
			skipped := func(i int) bool { return skips&(1<<i) != 0 }
			if slices.ContainsFunc(order, func(i int) bool { return skipped(i) && !calls[all[i].call].Passes }) {
				continue
			}
			s := model.Clone()
			answers := [][]Answer{make([]Answer, len(calls[0].parts)), make([]Answer, len(calls[1].parts))}
			for _, i := range order {
				w, n := &calls[all[i].call], all[i].n
				if skipped(i) {
					answers[all[i].call][n] = w.skippedAnswer()
				} else {
					answers[all[i].call][n] = w.parts[n].Do(context.Background(), s.Store)
				}
			}
			o = append(o, st.Shown(s.Store, joinAnswers(answers[0]), joinAnswers(answers[1])))
		}
	})
	return o
}

// forEachPermutation calls do with every order of the numbers below n.
func forEachPermutation(n int, do func(order []int)) {
	var rest func(order []int)
	rest = func(order []int) {
		if len(order) == n {
			do(order)
			return
		}
		for i := range n {
			if !slices.Contains(order, i) {
				rest(append(slices.Clone(order), i))
			}
		}
	}
	rest(nil)
}

// Explain returns "" if the store showed one of the possible results, and otherwise the difference
// from the most similar one.
func (o Orders) Explain(shown string) string {
	best := ""
	for n, possible := range o {
		if possible == shown {
			return ""
		}
		if d := lineDifferences(strings.Split(shown, "\n"), strings.Split(possible, "\n")); n == 0 || strings.Count(d, "\n") < strings.Count(best, "\n") {
			best = d
		}
	}
	return best
}

// lineDifferences shows the lines that only one of two texts has.
func lineDifferences(got, want []string) string {
	var b strings.Builder
	only := func(sign string, lines, others []string) {
		for _, line := range lines {
			if !slices.Contains(others, line) {
				fmt.Fprintf(&b, "  %s %s\n", sign, line)
			}
		}
	}
	only("the database:", got, want)
	only("the model:   ", want, got)
	return b.String()
}
