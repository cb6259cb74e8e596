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

// A case asserts only its own rule. Other things may be wrong all the same: a column that nobody
// reads back, a page that has one row too many. So after each case every query of a store is made,
// in every way, on the model and on the subject, and the answers must be the same.

// Compare runs every case on a fresh reference and a fresh subject, and compares their answers when
// the case is over. Both begin at the same moment.
func Compare(t *testing.T, reference, subject WithSubject) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			var want, got []string
			reference(t, func(s Subject) { want = ending(t, c, s) })
			if t.Failed() {
				return
			}
			subject(t, func(s Subject) { got = ending(t, c, s) })
			if !slices.Equal(want, got) && !numbered[c.Name] {
				t.Errorf("after the case, the subject answers otherwise than the model:\n%s", unlike(got, want))
			}
		})
	}
}

// numbered are the cases in which a call repeats a key or has an invalid item: the order in which
// the rows of such a call are numbered is open.
var numbered = map[string]bool{
	"many children are created in one call, each with an answer of its own": true,
}

// ending runs a case, and returns the answers to all queries afterwards.
func ending(t *testing.T, c Case, s Subject) []string {
	ctx := context.Background()
	begin, err := s.Store.Clock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	RunCase(t, c, s)
	p := newPlayer(s)
	p.begin, p.Kept = begin, nil
	workers, err := s.Store.Workers(ctx, nil)
	p.saw("workers: %s", failed(err))
	for i := range workers {
		p.known, p.names[workers[i].ID] = append(p.known, workers[i].WorkerKey), workers[i].Name
	}
	rows, err := s.Store.List(ctx, store.ExecutionQuery{Limit: many})
	p.saw("all executions: %s", failed(err))
	slices.Reverse(rows)
	for i := range rows {
		p.learn(rows[i].ID)
	}
	p.survey()
	p.rest()
	if s.Kept != nil {
		_, refused := s.Kept()
		p.saw("refused results: %d", refused)
	}
	p.lists()
	p.letters()
	p.observed()
	p.fleet()
	p.found()
	p.leftovers()
	return p.now
}

// lists asks for the pages of executions and actions, through each filter.
func (p *player) lists() {
	page := func(what string, q store.ExecutionQuery) {
		rows, err := p.Store.List(p.ctx, q)
		p.saw("list %s: %s [%s]", what, failed(err), p.listedKeys(rows))
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
		page("before "+p.id(e.ID), store.ExecutionQuery{Before: e.ID, Limit: 2})
		once(e.Status.String(), store.ExecutionQuery{Status: e.Status})
		once(e.Action.Ref, store.ExecutionQuery{ActionRef: e.Action.Ref})
		once("of worker "+p.worker(e.Worker), store.ExecutionQuery{Worker: e.Worker})
		once("of parent "+p.id(e.Parent), store.ExecutionQuery{Parent: e.Parent})
		chain, err := p.Store.Chain(p.ctx, e.ID)
		p.saw("chain of %s: %s [%s]", p.id(e.ID), failed(err), p.listedKeys(chain))
	}
	named, err := p.Store.List(p.ctx, store.ExecutionQuery{IDs: p.ids, Digests: true, WithParameters: true})
	p.saw("by their ids: %s", failed(err))
	for i := range named {
		p.saw("  %s %x %d %s", p.id(named[i].ID), named[i].Digest[:4], named[i].Size, named[i].Parameters)
	}
	actions, err := p.Store.Actions(p.ctx, store.ActionQuery{Limit: many})
	p.saw("actions: %s", failed(err))
	for i := range actions {
		behind, err := p.Store.Actions(p.ctx, store.ActionQuery{After: actions[i].Ref, Limit: 1})
		p.saw("  behind %s: %s %+v", actions[i].Ref, failed(err), behind)
		one, err := p.Store.Actions(p.ctx, store.ActionQuery{Ref: actions[i].Ref, Limit: many})
		p.saw("  %s %+v", failed(err), one)
	}
}

// letters asks for dead letters, and counts them by each property.
func (p *player) letters() {
	all, err := p.Store.DeadLetters(p.ctx, store.DeadLetterQuery{Limit: many})
	p.saw("dead letters: %s", failed(err))
	shown := func(d *store.StoredDeadLetter) string {
		return fmt.Sprintf("%d %s %q %q %q %q %d %q open %v %q %s received %s handled %s by %q", d.ID, p.key(d.Key), d.Queue, d.Reason, d.XDeath, d.Body,
			d.BodyBytes, d.Outcome, d.Open, d.ActionRef, p.worker(d.Worker), p.moment(d.ReceivedAt), p.moment(d.HandledAt), d.HandledBy)
	}
	for i := range all {
		p.saw("  %s", shown(&all[i]))
		one, known, err := p.Store.DeadLetter(p.ctx, all[i].ID)
		p.saw("  alone: %s %v %s", failed(err), known, shown(&one))
		page, err := p.Store.DeadLetters(p.ctx, store.DeadLetterQuery{Before: all[i].ID, Open: true, Limit: 1})
		p.saw("  the open one before: %s %d", failed(err), len(page))
		for j := range page {
			p.saw("    %d", page[j].ID)
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
		p.saw("summary %+v: %s, from %s until %s, %d, more %v", q, failed(err), p.moment(found.Since), p.moment(found.Until), found.Total, found.More)
		for _, g := range found.Groups {
			p.saw("  %s %q %q %s %d", p.moment(g.From), g.Reason, g.ActionRef, p.worker(g.Worker), g.Count)
		}
	}
}

// observed asks for observations, through each filter.
func (p *player) observed() {
	page := func(q store.ObservationQuery) (ids []int64) {
		found, err := p.Store.Observations(p.ctx, q)
		if err != nil {
			p.saw("observations: %s", failed(err))
		}
		for i := range found {
			ids = append(ids, found[i].ID)
		}
		return ids
	}
	all, err := p.Store.Observations(p.ctx, store.ObservationQuery{Limit: many})
	p.saw("observations: %s", failed(err))
	for i := range all {
		o := &all[i]
		p.saw("  %d %s %s %s %s would %s because %q at %s ended %s", o.ID, o.Part, p.key(o.Key), p.worker(o.Worker.ID), p.incarnation(o.Worker.Incarnation), o.Would, o.Reason,
			p.moment(o.At), p.moment(o.EndedAt))
		p.saw("  before it %v, of its part %v, of its execution %v, of its worker %v", page(store.ObservationQuery{Before: o.ID, Limit: 1}),
			page(store.ObservationQuery{Part: o.Part, Limit: many}), page(store.ObservationQuery{Execution: o.Key.ID, Limit: many}),
			page(store.ObservationQuery{Worker: o.Worker.ID, Limit: many}))
	}
}

// fleet asks for workers, and for the rows dispatched to them.
func (p *player) fleet() {
	show := func(what string, q store.WorkerQuery) {
		found, err := p.Store.FindWorkers(p.ctx, q)
		p.saw("workers %s: %s", what, failed(err))
		for i := range found {
			w := &found[i]
			p.saw("  %s %s full for %v expired %v figures %+v at %q %s", w.Name, p.incarnation(w.Incarnation), w.FullFor, w.Expired, w.Figures, w.HealthURL, w.Unreadable)
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
			p.saw("dispatched to %s, at most %d: %s [%s]", name, limit, failed(err), p.keys(rows))
		}
	}
}

// found asks for rows that need attention: all of them, the first, and the rest when the first is
// skipped.
func (p *player) found() {
	for cause := store.Unclaimed; cause <= store.Unsettled; cause++ {
		f := store.Finding{Cause: cause, Limit: many}
		rows, err := p.Store.Find(p.ctx, f)
		p.saw("%v: %s [%s]", cause, failed(err), p.keys(rows))
		if len(rows) == 0 {
			continue
		}
		f.Limit, f.Skip = 1, []execution.ID{rows[0].ID, 1 << 40}
		next, err := p.Store.Find(p.ctx, f)
		p.saw("  the next: %s [%s]", failed(err), p.keys(next))
		f.Age, f.Skip = 5*time.Second, nil
		first, err := p.Store.Find(p.ctx, f)
		p.saw("  the first for 5 s: %s [%s]", failed(err), p.keys(first))
	}
}

// leftovers reveals state that no reader shows, by calls that take one item at a time.
func (p *player) leftovers() {
	for range 2 {
		n, err := p.Store.ForgetKeys(p.ctx, time.Second, 1)
		p.saw("keys forgotten: %s %d", failed(err), n)
		freed, err := p.Store.FreeSlots(p.ctx, 1)
		p.saw("slots freed: %s %s", failed(err), p.listed(freed))
		n, err = p.Store.PurgeObservations(p.ctx, time.Second, 1)
		p.saw("observations purged: %s %d", failed(err), n)
		n, err = p.Store.PurgeDeadLetters(p.ctx, time.Second, 1)
		p.saw("dead letters purged: %s %d", failed(err), n)
	}
	p.rest()
	for range 2 {
		rows, err := p.Store.ClaimForScheduling(p.ctx, store.SchedulingClaim{
			Executor: "ending", Expiry: time.Minute, Demands: []store.Demand{{Runtime: "shell", Limit: 1}}, Others: 1,
		})
		p.saw("claimed one and another: %s [%s]", failed(err), p.keys(rows))
	}
	rows, err := p.Store.ClaimForScheduling(p.ctx, store.SchedulingClaim{Executor: "ending", Expiry: time.Minute, Others: many})
	p.saw("claimed: %s [%s]", failed(err), p.keys(rows))
	for _, w := range p.known {
		b := store.Beat{WorkerKey: w, Number: 1 << 30, Lease: Lease, ConsumerAlive: true}
		for i := range p.rows {
			b.Held = append(b.Held, p.rows[i].Key())
		}
		reply, err := p.Store.Heartbeat(p.ctx, b)
		var lost, cancel []string
		for _, key := range reply.Lost {
			lost = append(lost, p.key(key))
		}
		for _, key := range reply.Cancel {
			cancel = append(cancel, p.key(key))
		}
		p.saw("heartbeat of %s: %s, drain %v, lost [%s], to be ended [%s]", p.names[w.ID], failed(err), reply.Drain, strings.Join(lost, " "), strings.Join(cancel, " "))
	}
	p.survey()
}
