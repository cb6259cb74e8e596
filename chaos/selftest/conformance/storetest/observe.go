package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// Change is one line of the audit: a change of status, and the part that made it.
type Change struct {
	ID                     execution.ID
	From, To               execution.Status
	Epoch, OldEpoch, Named execution.Epoch
	Worker                 execution.WorkerID
	Incarnation            execution.Incarnation
	By                     execution.Part
	WriterIncarnation      execution.Incarnation
	Reason                 execution.Reason
}

// observation is what was observed of one command.
type observation []string

// player makes commands on a subject. It numbers rows, workers and incarnations in the order in
// which it learns of them, and shows moments as times since its beginning, so that two subjects
// show the same.
type player struct {
	Subject
	ctx   context.Context
	begin time.Time
	// passed is how far the clock has been moved.
	passed time.Duration

	ids     []execution.ID
	places  map[execution.ID]int
	names   map[execution.WorkerID]string
	known   []store.WorkerKey // incarnations, in the order of registration
	attempt uint64
	// parents are the first rows of the chains for which a child was requested.
	parents map[execution.ID]bool

	// rows and workers have the state that the last survey found, shown what it showed.
	rows    []execution.Execution
	workers []store.WorkerRow
	shown   map[string]string
	changes int

	now observation
}

func newPlayer(s Subject) *player {
	return &player{
		Subject: s, ctx: context.Background(), places: make(map[execution.ID]int),
		names: make(map[execution.WorkerID]string), shown: make(map[string]string), parents: make(map[execution.ID]bool),
	}
}

// play makes a sequence of commands on a subject.
func play(s Subject, commands []command) []observation {
	p := newPlayer(s)
	p.prepare()
	p.survey()
	all := []observation{p.now}
	for _, c := range commands {
		p.now = nil
		p.do(c)
		p.survey()
		all = append(all, p.now)
	}
	return all
}

func (p *player) saw(format string, args ...any) { p.now = append(p.now, fmt.Sprintf(format, args...)) }

// failed shows the kind of an error. Its text differs between stores.
func failed(err error) string {
	for _, known := range []error{store.ErrUnavailable, store.ErrUnknownOutcome, store.ErrSuperseded, store.ErrLost, store.ErrLeaseOver} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return "the request was wrong"
	}
	return "ok"
}

// learn numbers a row.
func (p *player) learn(id execution.ID) {
	if _, known := p.places[id]; id != 0 && !known {
		p.places[id] = len(p.ids)
		p.ids = append(p.ids, id)
	}
}

// chainOf returns the first row of a row's chain, if the last survey found it.
func (p *player) chainOf(id execution.ID) execution.ID {
	if place, known := p.places[id]; known && place < len(p.rows) && p.rows[place].ID != 0 {
		return p.rows[place].Chain()
	}
	return id
}

func (p *player) id(id execution.ID) string {
	if place, known := p.places[id]; known {
		return fmt.Sprint("#", place)
	}
	if id == 0 {
		return "none"
	}
	return "unknown"
}

func (p *player) key(k execution.Key) string { return fmt.Sprint(p.id(k.ID), "@", int64(k.Epoch)) }

func (p *player) incarnation(i execution.Incarnation) string {
	for n, w := range p.known {
		if w.Incarnation == i {
			return fmt.Sprint("inc", n)
		}
	}
	if i == 0 {
		return "none"
	}
	return "unknown"
}

func (p *player) worker(id execution.WorkerID) string {
	if name, known := p.names[id]; known {
		return name
	}
	if id == 0 {
		return "none"
	}
	return "unknown"
}

func (p *player) moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Sub(p.begin).String()
}

// row shows every field of a row.
func (p *player) row(e *execution.Execution) string {
	if e.ID == 0 {
		return "no row"
	}
	m := p.moment
	return fmt.Sprintf("%s %v epoch %d %+v own %+v parameters %q worker %s %s dispatches %d avoid %s deadlines %s %s result {%q %q %v %q} %v"+
		" parent %s awaits %v cancel requested %s canceling %s original %s retry %d %v due %s key %q created %s unschedulable %s scheduling %s %q %s scheduled %s published %s started %s beat %d ended %s handled %s settling %s submitted by %q, cancelled by %q",
		p.id(e.ID), e.Status, e.Epoch, e.Action, e.Limits, e.Parameters, p.worker(e.Worker), p.incarnation(e.Incarnation), e.Dispatches, p.worker(e.Avoid),
		m(e.DispatchDeadline), m(e.RunDeadline), e.Result.Error, e.Result.Message, e.Result.FailedBy, e.Result.Output, e.FailureReason,
		p.id(e.Parent), e.AwaitsParent, m(e.CancelRequestedAt), m(e.CancelingAt), p.id(e.Original), e.RetryCount, e.RetryReason, m(e.NotBefore), e.IdempotencyKey, m(e.Created), m(e.UnschedulableSince),
		m(e.SchedulingAt), e.SchedulingBy, m(e.SchedulingExpiresAt), m(e.ScheduledAt), m(e.PublishedAt), m(e.StartedAt), e.ClaimBeat,
		m(e.Ended), m(e.OrchestratedAt), m(e.SettlingAt), e.SubmittedBy, e.CancelRequestedBy)
}

// outcome shows the outcome of a guarded write. If it was applied, the survey shows the row in
// full.
func (p *player) outcome(o store.Outcome) string {
	if o.Row.ID == 0 {
		return fmt.Sprint("applied ", o.Applied, ", no row")
	}
	return fmt.Sprint("applied ", o.Applied, " from ", o.From, ": ", p.row(&o.Row))
}

// listed shows rows whose order is open.
func (p *player) listed(ids []execution.ID) string {
	var all []string
	for _, id := range ids {
		all = append(all, p.id(id))
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

func (p *player) keys(rows []execution.Execution) string {
	all := make([]string, len(rows))
	for i := range rows {
		all[i] = p.key(rows[i].Key())
	}
	return strings.Join(all, " ")
}

func (p *player) listedKeys(rows []store.Listed) string {
	all := make([]execution.Execution, len(rows))
	for i := range rows {
		all[i] = rows[i].Execution
	}
	return p.keys(all)
}

// survey reads everything and shows the differences to the last time.
func (p *player) survey() {
	rows, err := p.Store.Executions(p.ctx, p.ids)
	if err != nil {
		p.saw("reading all executions: %s", failed(err))
		return
	}
	p.rows = make([]execution.Execution, len(p.ids))
	for i := range rows {
		p.rows[p.places[rows[i].ID]] = rows[i]
	}
	// In the order of their numbers: it is open which row of one call gets the smaller id.
	for i := range p.rows {
		p.differs("row "+p.id(p.ids[i]), p.row(&p.rows[i]))
	}
	if p.workers, err = p.Store.Workers(p.ctx, nil); err != nil {
		p.saw("reading all workers: %s", failed(err))
		return
	}
	for i := range p.workers {
		w := &p.workers[i]
		p.differs("worker "+w.Name, fmt.Sprintf("%s %v runtimes %q capacity %d consumes %v beat %d at %s %v ago over for %v load %d queued %d cordoned %v %q by %q",
			p.incarnation(w.Incarnation), w.Lifecycle, w.Runtimes, w.Capacity, w.ConsumerAlive, w.Beat, p.moment(w.LastBeat), w.SinceBeat, w.LeaseOverFor, w.Load, w.Queued, w.Cordoned, w.CordonReason, w.CordonChangedBy))
	}
	if p.Kept != nil {
		letters, refused := p.Kept()
		p.differs("kept", fmt.Sprint(letters, " dead letters, ", refused, " refused results"))
	}
	p.audit()
}

func (p *player) differs(what, text string) {
	if p.shown[what] != text {
		p.shown[what] = text
		p.saw("%s: %s", what, text)
	}
}

// audit shows the new lines of the audit, row by row.
func (p *player) audit() {
	if p.Audit == nil {
		return
	}
	fresh := p.Audit(p.changes)
	p.changes += len(fresh)
	for place, id := range p.ids {
		for i := range fresh {
			if c := &fresh[i]; c.ID == id {
				p.saw("audit #%d: %v to %v, epoch %d to %d naming %d, at %s %s, by %v %s, %v", place, c.From, c.To, c.OldEpoch, c.Epoch,
					c.Named, p.worker(c.Worker), p.incarnation(c.Incarnation), c.By, p.incarnation(c.WriterIncarnation), c.Reason)
			}
		}
	}
}
