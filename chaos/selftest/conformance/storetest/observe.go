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

// observation holds the lines that were recorded during one command.
type observation []string

// player makes commands on a subject. It numbers rows, workers and incarnations in the order in
// which it learns of them, and shows moments as times since its beginning, so that two subjects
// show the same.
type player struct {
	Subject
	ctx   context.Context
	begin time.Time
	// passed is the total time by which the clock has been moved.
	passed time.Duration

	ids     []execution.ID
	places  map[execution.ID]int
	names   map[execution.WorkerID]string
	known   []store.WorkerKey // incarnations, in the order of registration
	attempt uint64
	// parents are the first rows of the chains for which a child was requested.
	parents map[execution.ID]bool

	// rows and workers have the state that the last survey found, shown its texts.
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

// playCommands makes a sequence of commands on a subject.
func playCommands(s Subject, commands []command) []observation {
	p := newPlayer(s)
	p.prepareStore()
	p.surveyStore()
	all := []observation{p.now}
	for _, c := range commands {
		p.now = nil
		p.runCommand(c)
		p.surveyStore()
		all = append(all, p.now)
	}
	return all
}

func (p *player) recordLine(format string, args ...any) {
	p.now = append(p.now, fmt.Sprintf(format, args...))
}

// errorKind shows the kind of an error. Its text differs between stores.
func errorKind(err error) string {
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

// numberRow numbers a row.
func (p *player) numberRow(id execution.ID) {
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

func (p *player) idText(id execution.ID) string {
	if place, known := p.places[id]; known {
		return fmt.Sprint("#", place)
	}
	if id == 0 {
		return "none"
	}
	return "unknown"
}

func (p *player) keyText(k execution.Key) string {
	return fmt.Sprint(p.idText(k.ID), "@", int64(k.Epoch))
}

func (p *player) incarnationText(i execution.Incarnation) string {
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

func (p *player) workerText(id execution.WorkerID) string {
	if name, known := p.names[id]; known {
		return name
	}
	if id == 0 {
		return "none"
	}
	return "unknown"
}

func (p *player) momentText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Sub(p.begin).String()
}

// rowText shows every field of a row.
func (p *player) rowText(e *execution.Execution) string {
	if e.ID == 0 {
		return "no row"
	}
	m := p.momentText
	return fmt.Sprintf("%s %v epoch %d %+v own %+v parameters %q worker %s %s dispatches %d avoid %s deadlines %s %s result {%q %q %v %q} %v"+
		" parent %s awaits %v cancel requested %s canceling %s original %s retry %d %v due %s key %q created %s unschedulable %s scheduling %s %q %s scheduled %s published %s started %s beat %d ended %s handled %s settling %s submitted by %q, cancelled by %q",
		p.idText(e.ID), e.Status, e.Epoch, e.Action, e.Limits, e.Parameters, p.workerText(e.Worker), p.incarnationText(e.Incarnation), e.Dispatches, p.workerText(e.Avoid),
		m(e.DispatchDeadline), m(e.RunDeadline), e.Result.Error, e.Result.Message, e.Result.FailedBy, e.Result.Output, e.FailureReason,
		p.idText(e.Parent), e.AwaitsParent, m(e.CancelRequestedAt), m(e.CancelingAt), p.idText(e.Original), e.RetryCount, e.RetryReason, m(e.NotBefore), e.IdempotencyKey, m(e.Created), m(e.UnschedulableSince),
		m(e.SchedulingAt), e.SchedulingBy, m(e.SchedulingExpiresAt), m(e.ScheduledAt), m(e.PublishedAt), m(e.StartedAt), e.ClaimBeat,
		m(e.Ended), m(e.OrchestratedAt), m(e.SettlingAt), e.SubmittedBy, e.CancelRequestedBy)
}

// outcomeText shows the outcome of a guarded write. If it was applied, the survey shows the row in
// full.
func (p *player) outcomeText(o store.Outcome) string {
	if o.Row.ID == 0 {
		return fmt.Sprint("applied ", o.Applied, ", no row")
	}
	return fmt.Sprint("applied ", o.Applied, " from ", o.From, ": ", p.rowText(&o.Row))
}

// sortedIDs shows rows whose order is open.
func (p *player) sortedIDs(ids []execution.ID) string {
	var all []string
	for _, id := range ids {
		all = append(all, p.idText(id))
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

func (p *player) keyTexts(rows []execution.Execution) string {
	all := make([]string, len(rows))
	for i := range rows {
		all[i] = p.keyText(rows[i].Key())
	}
	return strings.Join(all, " ")
}

func (p *player) listedKeyTexts(rows []store.Listed) string {
	all := make([]execution.Execution, len(rows))
	for i := range rows {
		all[i] = rows[i].Execution
	}
	return p.keyTexts(all)
}

// surveyStore reads everything and shows the differences to the last time.
func (p *player) surveyStore() {
	rows, err := p.Store.Executions(p.ctx, p.ids)
	if err != nil {
		p.recordLine("reading all executions: %s", errorKind(err))
		return
	}
	p.rows = make([]execution.Execution, len(p.ids))
	for i := range rows {
		p.rows[p.places[rows[i].ID]] = rows[i]
	}
	// In the order of their places: it is open which row of one call gets the smaller id.
	for i := range p.rows {
		p.recordIfChanged("row "+p.idText(p.ids[i]), p.rowText(&p.rows[i]))
	}
	if p.workers, err = p.Store.Workers(p.ctx, nil); err != nil {
		p.recordLine("reading all workers: %s", errorKind(err))
		return
	}
	for i := range p.workers {
		w := &p.workers[i]
		p.recordIfChanged("worker "+w.Name, fmt.Sprintf("%s %v runtimes %q capacity %d consumes %v beat %d at %s %v ago over for %v load %d queued %d cordoned %v %q by %q",
			p.incarnationText(w.Incarnation), w.Lifecycle, w.Runtimes, w.Capacity, w.ConsumerAlive, w.Beat, p.momentText(w.LastBeat), w.SinceBeat, w.LeaseOverFor, w.Load, w.Queued, w.Cordoned, w.CordonReason, w.CordonChangedBy))
	}
	if p.Kept != nil {
		letters, refused := p.Kept()
		p.recordIfChanged("kept", fmt.Sprint(letters, " dead letters, ", refused, " refused results"))
	}
	p.recordAudit()
}

func (p *player) recordIfChanged(what, text string) {
	if p.shown[what] != text {
		p.shown[what] = text
		p.recordLine("%s: %s", what, text)
	}
}

// recordAudit shows the new lines of the audit, row by row.
func (p *player) recordAudit() {
	if p.Audit == nil {
		return
	}
	fresh := p.Audit(p.changes)
	p.changes += len(fresh)
	for place, id := range p.ids {
		for i := range fresh {
			if c := &fresh[i]; c.ID == id {
				p.recordLine("audit #%d: %v to %v, epoch %d to %d naming %d, at %s %s, by %v %s, %v", place, c.From, c.To, c.OldEpoch, c.Epoch,
					c.Named, p.workerText(c.Worker), p.incarnationText(c.Incarnation), c.By, p.incarnationText(c.WriterIncarnation), c.Reason)
			}
		}
	}
}
