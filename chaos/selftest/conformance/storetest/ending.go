package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// A case asserts only its own rule. Other things may still be wrong: a column that nobody reads back, a page
// with one row too many. So after each case every query of a store is made in every way, on the model and on
// the subject, and the answers must be equal.

// Compare runs every case on a fresh reference and a fresh subject, and compares their answers when
// the case is over. Both begin at the same moment.
func Compare(t *testing.T, reference, subject WithSubject) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			var want, got []string
			reference(t, func(s Subject) { want = stateAfterCase(t, c, s) })
			if t.Failed() {
				return
			}
			subject(t, func(s Subject) { got = stateAfterCase(t, c, s) })
			if !slices.Equal(want, got) && !numbered[c.Name] {
				t.Errorf("after the case, the subject answers otherwise than the model:\n%s", lineDifferences(got, want))
			}
		})
	}
}

// numbered are the cases in which a call repeats a key or has an invalid item: the order in which
// the rows of such a call are numbered is open.
var numbered = map[string]bool{
	"many children are created in one call, each with its own answer": true,
}

// stateAfterCase runs a case, and returns the answers to all queries afterwards.
func stateAfterCase(t *testing.T, c Case, s Subject) []string {
	ctx := context.Background()
	begin, err := s.Store.Clock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	RunCase(t, c, s)
	p := newPlayer(s)
	p.begin, p.Kept = begin, nil
	workers, err := s.Store.Workers(ctx, nil)
	p.recordLine("workers: %s", errorKind(err))
	for i := range workers {
		p.known, p.names[workers[i].ID] = append(p.known, workers[i].WorkerKey), workers[i].Name
	}
	rows, err := s.Store.List(ctx, store.ExecutionQuery{Limit: many})
	p.recordLine("all executions: %s", errorKind(err))
	slices.Reverse(rows)
	for i := range rows {
		p.numberRow(rows[i].ID)
	}
	p.surveyStore()
	p.recordUnsurveyed()
	if s.Kept != nil {
		_, refused := s.Kept()
		p.recordLine("refused results: %d", refused)
	}
	p.recordLists()
	p.recordDeadLetters()
	p.recordObservations()
	p.recordWorkers()
	p.recordFindings()
	p.probeLeftovers()
	return p.now
}

// recordLists queries the pages of executions and actions, through each filter.
func (p *player) recordLists() {
	page := func(what string, q store.ExecutionQuery) {
		rows, err := p.Store.List(p.ctx, q)
		p.recordLine("list %s: %s [%s]", what, errorKind(err), p.listedKeyTexts(rows))
	}
	seen := make(map[string]bool)
	once := func(what string, q store.ExecutionQuery) {
		if !seen[what] {
			seen[what] = true
			q.Limit = many
			page(what, q)
		}
	}
	page("of none", store.ExecutionQuery{})
	for i := range p.rows {
		e := &p.rows[i]
		page("before "+p.idText(e.ID), store.ExecutionQuery{Before: e.ID, Limit: 2})
		once(e.Status.String(), store.ExecutionQuery{Status: e.Status})
		once(e.Action.Ref, store.ExecutionQuery{ActionRef: e.Action.Ref})
		once("of worker "+p.workerText(e.Worker), store.ExecutionQuery{Worker: e.Worker})
		once("of parent "+p.idText(e.Parent), store.ExecutionQuery{Parent: e.Parent})
		chain, err := p.Store.Chain(p.ctx, e.ID)
		p.recordLine("chain of %s: %s [%s]", p.idText(e.ID), errorKind(err), p.listedKeyTexts(chain))
	}
	named, err := p.Store.List(p.ctx, store.ExecutionQuery{IDs: p.ids, Digests: true, WithParameters: true})
	p.recordLine("by their ids: %s", errorKind(err))
	for i := range named {
		p.recordLine("  %s %x %d %s", p.idText(named[i].ID), named[i].Digest[:4], named[i].Size, named[i].Parameters)
	}
	actions, err := p.Store.Actions(p.ctx, store.ActionQuery{Limit: many})
	p.recordLine("actions: %s", errorKind(err))
	for i := range actions {
		behind, err := p.Store.Actions(p.ctx, store.ActionQuery{After: actions[i].Ref, Limit: 1})
		p.recordLine("  behind %s: %s %+v", actions[i].Ref, errorKind(err), behind)
		one, err := p.Store.Actions(p.ctx, store.ActionQuery{Ref: actions[i].Ref, Limit: many})
		p.recordLine("  %s %+v", errorKind(err), one)
	}
}

// recordDeadLetters queries dead letters, and counts them by each property.
func (p *player) recordDeadLetters() {
	all, err := p.Store.DeadLetters(p.ctx, store.DeadLetterQuery{Limit: many})
	p.recordLine("dead letters: %s", errorKind(err))
	shown := func(d *store.StoredDeadLetter) string {
		return fmt.Sprintf("%d %s %q %q %q %q %d %q open %v %q %s received %s handled %s by %q", d.ID, p.keyText(d.Key), d.Queue, d.Reason, d.XDeath, d.Body,
			d.BodyBytes, d.Outcome, d.Open, d.ActionRef, p.workerText(d.Worker), p.momentText(d.ReceivedAt), p.momentText(d.HandledAt), d.HandledBy)
	}
	for i := range all {
		p.recordLine("  %s", shown(&all[i]))
		one, known, err := p.Store.DeadLetter(p.ctx, all[i].ID)
		p.recordLine("  alone: %s %v %s", errorKind(err), known, shown(&one))
		page, err := p.Store.DeadLetters(p.ctx, store.DeadLetterQuery{Before: all[i].ID, Open: true, Limit: 1})
		p.recordLine("  the open one before: %s %d", errorKind(err), len(page))
		for j := range page {
			p.recordLine("    %d", page[j].ID)
		}
	}
	if len(all) == 0 {
		return
	}
	for _, q := range []store.DeadLetterSummaryQuery{
		{Window: time.Hour, Limit: many},
		{Window: time.Hour, Limit: 1, ByReason: true},
		{Window: 2 * time.Second, Limit: many, ByReason: true, ByAction: true, ByWorker: true},
		{Window: time.Hour, Every: time.Second, Limit: many, ByAction: true},
		{Window: time.Hour, Every: time.Second, Limit: 2, ByWorker: true},
	} {
		found, err := p.Store.SummarizeDeadLetters(p.ctx, q)
		p.recordLine("summary %+v: %s, from %s until %s, %d, more %v", q, errorKind(err), p.momentText(found.Since), p.momentText(found.Until), found.Total, found.More)
		for _, g := range found.Groups {
			p.recordLine("  %s %q %q %s %d", p.momentText(g.From), g.Reason, g.ActionRef, p.workerText(g.Worker), g.Count)
		}
	}
}

// recordObservations queries observations, through each filter.
func (p *player) recordObservations() {
	page := func(q store.ObservationQuery) (ids []int64) {
		found, err := p.Store.Observations(p.ctx, q)
		if err != nil {
			p.recordLine("observations: %s", errorKind(err))
		}
		for i := range found {
			ids = append(ids, found[i].ID)
		}
		return ids
	}
	all, err := p.Store.Observations(p.ctx, store.ObservationQuery{Limit: many})
	p.recordLine("observations: %s", errorKind(err))
	for i := range all {
		o := &all[i]
		p.recordLine("  %d %s %s %s %s would %s because %q at %s ended %s", o.ID, o.Part, p.keyText(o.Key), p.workerText(o.Worker.ID), p.incarnationText(o.Worker.Incarnation), o.Would, o.Reason,
			p.momentText(o.At), p.momentText(o.EndedAt))
		p.recordLine("  before it %v, of its part %v, of its execution %v, of its worker %v", page(store.ObservationQuery{Before: o.ID, Limit: 1}),
			page(store.ObservationQuery{Part: o.Part, Limit: many}), page(store.ObservationQuery{Execution: o.Key.ID, Limit: many}),
			page(store.ObservationQuery{Worker: o.Worker.ID, Limit: many}))
	}
}

// recordWorkers queries workers, and the rows dispatched to them.
func (p *player) recordWorkers() {
	show := func(what string, q store.WorkerQuery) {
		found, err := p.Store.FindWorkers(p.ctx, q)
		p.recordLine("workers %s: %s", what, errorKind(err))
		for i := range found {
			w := &found[i]
			p.recordLine("  %s %s full for %v expired %v figures %+v at %q %s", w.Name, p.incarnationText(w.Incarnation), w.FullFor, w.Expired, w.Figures, w.HealthURL, w.Unreadable)
		}
	}
	show("all", store.WorkerQuery{Limit: many})
	for _, w := range p.known {
		name := p.names[w.ID]
		show("behind "+name, store.WorkerQuery{After: w.ID, Limit: 1})
		show("by the id of "+name, store.WorkerQuery{ID: w.ID, Limit: many})
		show("by the name of "+name, store.WorkerQuery{Name: name, Limit: many})
		for _, limit := range []int{1, many} {
			rows, err := p.Store.Dispatched(p.ctx, w, limit)
			p.recordLine("dispatched to %s, at most %d: %s [%s]", name, limit, errorKind(err), p.keyTexts(rows))
		}
	}
}

// recordFindings queries rows that need attention: all of them, the first, and the rest when the first is
// skipped.
func (p *player) recordFindings() {
	for cause := store.Unclaimed; cause <= store.Unsettled; cause++ {
		f := store.Finding{Cause: cause, Limit: many}
		rows, err := p.Store.Find(p.ctx, f)
		p.recordLine("%v: %s [%s]", cause, errorKind(err), p.keyTexts(rows))
		if len(rows) == 0 {
			continue
		}
		f.Limit, f.Skip = 1, []execution.ID{rows[0].ID, 1 << 40}
		next, err := p.Store.Find(p.ctx, f)
		p.recordLine("  the next: %s [%s]", errorKind(err), p.keyTexts(next))
		f.Age, f.Skip = 5*time.Second, nil
		first, err := p.Store.Find(p.ctx, f)
		p.recordLine("  the first for 5 s: %s [%s]", errorKind(err), p.keyTexts(first))
	}
}

// probeLeftovers reveals state that no reader shows, by calls that take one item at a time.
func (p *player) probeLeftovers() {
	for range 2 {
		n, err := p.Store.ForgetKeys(p.ctx, time.Second, 1)
		p.recordLine("keys forgotten: %s %d", errorKind(err), n)
		freed, err := p.Store.FreeSlots(p.ctx, 1)
		p.recordLine("slots freed: %s %s", errorKind(err), p.sortedIDs(freed))
		n, err = p.Store.PurgeObservations(p.ctx, time.Second, 1)
		p.recordLine("observations purged: %s %d", errorKind(err), n)
		n, err = p.Store.PurgeDeadLetters(p.ctx, time.Second, 1)
		p.recordLine("dead letters purged: %s %d", errorKind(err), n)
	}
	p.recordUnsurveyed()
	for range 2 {
		rows, err := p.Store.ClaimForScheduling(p.ctx, store.SchedulingClaim{
			Executor: "ending", Expiry: time.Minute, Demands: []store.Demand{{Runtime: "shell", Limit: 1}}, Others: 1,
		})
		p.recordLine("claimed one and another: %s [%s]", errorKind(err), p.keyTexts(rows))
	}
	rows, err := p.Store.ClaimForScheduling(p.ctx, store.SchedulingClaim{Executor: "ending", Expiry: time.Minute, Others: many})
	p.recordLine("claimed: %s [%s]", errorKind(err), p.keyTexts(rows))
	for _, w := range p.known {
		b := store.Beat{WorkerKey: w, Number: 1 << 30, Lease: Lease, ConsumerAlive: true}
		for i := range p.rows {
			b.Held = append(b.Held, p.rows[i].Key())
		}
		reply, err := p.Store.Heartbeat(p.ctx, b)
		var lost, cancel []string
		for _, key := range reply.Lost {
			lost = append(lost, p.keyText(key))
		}
		for _, key := range reply.Cancel {
			cancel = append(cancel, p.keyText(key))
		}
		p.recordLine("heartbeat of %s: %s, drain %v, lost [%s], to be ended [%s]", p.names[w.ID], errorKind(err), reply.Drain, strings.Join(lost, " "), strings.Join(cancel, " "))
	}
	p.surveyStore()
}
