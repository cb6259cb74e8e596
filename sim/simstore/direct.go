package simstore

import (
	"context"
	"slices"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

// DispatchDue implements store.Executor.
func (c *Client) DispatchDue(ctx context.Context, d store.DueDispatch) (store.DueDispatched, error) {
	return c.dispatches.askReusing(ctx, c, "DispatchDue", true, &d, (*step).dispatchDue)
}

// dispatchDue looks for rivals in all lanes before it takes any row, as a statement with one snapshot does.
func (s *step) dispatchDue(d *store.DueDispatch) (answer store.DueDispatched) {
	if s.refuseInvalidText(d.Executor) {
		return store.DueDispatched{}
	}
	rivals := make([]*request, len(d.Offers))
	for _, q := range s.db.lanes {
		of := slices.IndexFunc(d.Offers, func(o store.Offer) bool { return slices.Contains(o.Runtimes, q.runtime) })
		rival := func(h *requests, competes bool) {
			if h.dueHead(s.db, s.now) == nil {
				return
			}
			answer.Others = true
			if head := (*h)[0]; competes && (rivals[of] == nil || comesBefore(head.due, head.id, rivals[of].due, rivals[of].id)) {
				rivals[of] = &head
			}
		}
		competes := of >= 0 && (q.pinned == 0 || slices.ContainsFunc(d.Offers, func(o store.Offer) bool {
			return slices.ContainsFunc(o.Spread, func(p store.Place) bool { return p.Worker.ID == q.pinned })
		}))
		if of < 0 || q.pinned != 0 {
			rival(&q.unlimited, competes)
		}
		for _, l := range q.limited {
			slots := s.db.slots[l.action]
			rival(&l.requests, competes && (slots.limit == 0 || slots.vacantCount() > 0))
		}
	}
	for i := range d.Offers {
		s.dispatchOffer(d, &d.Offers[i], rivals[i], &answer)
	}
	return answer
}

// dispatchOffer assigns the places of one offer to rows.
func (s *step) dispatchOffer(d *store.DueDispatch, o *store.Offer, rival *request, answer *store.DueDispatched) {
	c := &s.db.claiming
	c.found = c.found[:0]
	places := min(len(o.Spread), len(o.Packed))
	for _, runtime := range o.Runtimes {
		q := s.db.requests[lane{runtime, 0}]
		for n := 0; q != nil && n < places && q.unlimited.dueHead(s.db, s.now) != nil; n++ {
			c.found = append(c.found, candidate{request: q.unlimited[0], from: &q.unlimited})
			q.unlimited.pop()
		}
	}
	c.sortOldestFirst(0)
	to := o.Spread
	if full := places > 0 && len(c.found) >= places; full {
		to, answer.Full = o.Packed, true
	}
	halted := false
	for n := range c.found {
		x := &c.found[n]
		r := s.db.row(x.id)
		if r.Avoid != 0 {
			halted, answer.Others = true, true
		}
		if halted || n >= places || rival != nil && comesBefore(rival.due, rival.id, x.due, x.id) {
			x.putBack()
			continue
		}
		p := &to[n]
		inc := s.currentIncarnation(p.Worker)
		if inc == nil || !s.canTakeWork(inc) || p.Limit > 0 && inc.load >= p.Limit {
			answer.Unfit++
			x.putBack()
			continue
		}
		s.changeStatus(r, execution.Scheduling, execution.Scheduler, execution.NoReason, func(r *row) {
			r.SchedulingAt, r.SchedulingBy, r.SchedulingExpiresAt = s.now, d.Executor, s.timeAfter(d.Expiry)
		})
		s.changeStatus(r, execution.Scheduled, execution.Scheduler, execution.NoReason, func(r *row) {
			r.Epoch++
			r.Worker, r.Incarnation = p.Worker.ID, p.Worker.Incarnation
			r.ScheduledAt, r.UnschedulableSince = s.now, time.Time{}
			r.DispatchDeadline = s.timeAfter(d.Timeout)
			if r.Action.DispatchTimeout > 0 {
				r.DispatchDeadline = s.timeAfter(r.Action.DispatchTimeout)
			}
		})
		if answer.Rows == nil {
			// Rows are large, so copying them whenever the list grows would cost more than the rows
			// themselves.
			answer.Rows = make([]execution.Execution, 0, min(len(c.found), places)-n)
		}
		answer.Rows = append(answer.Rows, r.Execution)
	}
}
