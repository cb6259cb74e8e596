package postgres

import (
	"context"
	"fmt"

	"handoff/core/execution"
	"handoff/core/store"
)

// claimItem is one claim of a batch, which may contain claims of several incarnations.
type claimItem struct {
	worker store.WorkerKey
	store.Claim
}

// claimAnswer is the result of a claimItem. unfit reports whether the incarnation may not claim, absent
// whether the row has no work.
type claimAnswer struct {
	store.ClaimResult
	unfit, absent bool
}

// The remark is true if the incarnation is gone or its lease has ended. The caller finds out which.
var claimRows = expandColumns(`
with asked as materialized (
    select * from unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
        with ordinality as a(ask_id, ask_epoch, ask_worker, ask_incarnation, ask_beat, n)
),
owner as materialized (
    select i.* from worker_incarnation i where i.incarnation = any($6::bigint[]) order by i.incarnation for share
),
locked as materialized (
    select a.*, w.* from asked a join execution_work w on w.id = a.ask_id
     where w.id = any($3::bigint[]) and (select count(*) from owner) >= 0
     order by w.id for no key update of w
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from locked) l),
judged as materialized (
    select l.*, (select now from clock) as now,
           coalesce(o.worker = l.ask_worker and o.lifecycle not in ('stopped', 'lost') and (select now from clock) <= o.lease_expires_at, false) as fit,
           l.status = 'scheduled' and l.epoch = l.ask_epoch and l.incarnation = l.ask_incarnation
               and (select now from clock) < l.dispatch_deadline as lawful
      from locked l left join owner o on o.incarnation = l.ask_incarnation
),
moved as (
    update execution_work w
       set status = 'running', started_at = j.now, claim_beat = j.ask_beat, published_at = coalesce(w.published_at, j.now),
           run_deadline = j.now + make_interval(secs => coalesce(r.timeout_seconds, $2::float8)),
           written_by = 'worker', written_incarnation = j.ask_incarnation, written_epoch = j.ask_epoch, written_reason = null
      from judged j join execution_record r on r.id = j.id
     where w.id = j.id and w.id = any($3::bigint[]) and r.id = any($3::bigint[]) and j.fit and j.lawful
    returning j.n, j.status::text as was, {open}
)
select m.n, true, false, m.was, {m} from moved m
union all
select j.n, false, not j.fit, j.status::text, {judged} from judged j join execution_record r on r.id = j.id
 where r.id = any($3::bigint[]) and not (j.fit and j.lawful)`)

// Claim implements store.Worker.
func (s *Store) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	if len(cs) == 0 {
		return nil, s.claimRefusal(ctx, w)
	}
	items := make([]claimItem, len(cs))
	for i := range cs {
		items[i] = claimItem{w, cs[i]}
	}
	answers, err := s.claims.submitItems(ctx, "claiming", items)
	results := make([]store.ClaimResult, len(answers))
	if err != nil {
		// If only some rows failed, the answers about the others are valid.
		for i := range answers {
			if !answers[i].unfit {
				results[i] = answers[i].ClaimResult
			}
		}
		return results, err
	}
	unfit, absent, applied := false, true, false
	for i := range answers {
		results[i] = answers[i].ClaimResult
		unfit, absent, applied = unfit || answers[i].unfit, absent && answers[i].absent, applied || answers[i].Applied
	}
	if unfit || absent {
		err := s.claimRefusal(ctx, w)
		if err == nil && unfit && applied {
			// The database refused the batch, so the rows were claimed one by one, and the lease ended
			// between two of them. The worker retries, and recognises its own claims.
			return nil, fmt.Errorf("postgres: claiming: %w: the lease ended during the call", store.ErrUnknownOutcome)
		}
		if err == nil && unfit {
			// The incarnation had no valid lease at the claim, but has renewed it since.
			err = store.ErrLeaseOver
		}
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (s *Store) claimEach(ctx context.Context, cs []claimItem) ([]claimAnswer, []error) {
	const op = "claiming"
	return step[claimItem, claimAnswer]{
		op:  op,
		row: func(c *claimItem) any { return c.Key.ID },
		run: func(ctx context.Context, cs []claimItem, results []claimAnswer) error {
			var ids, epochs, workers, incarnations, beats []int64
			for i := range cs {
				c := &cs[i]
				ids, epochs = append(ids, int64(c.Key.ID)), append(epochs, int64(c.Key.Epoch))
				workers, incarnations = append(workers, int64(c.worker.ID)), append(incarnations, int64(c.worker.Incarnation))
				beats = append(beats, int64(c.Beat))
				results[i].absent = true
			}
			err := s.keptPlanQuery(keptHashed)(ctx, op, scanVerdicts(func(v *verdict) {
				key := cs[v.n-1].Key
				dispatched := v.row.Status == execution.Scheduled && v.row.Epoch == key.Epoch && v.row.Incarnation == cs[v.n-1].worker.Incarnation
				results[v.n-1] = claimAnswer{
					ClaimResult: store.ClaimResult{
						Outcome:        v.toOutcome(),
						DeadlinePassed: !v.applied && !v.remark && dispatched,
					},
					unfit: v.remark,
				}
			}), claimRows, s.clockOverride(), execution.DefaultTimeout.Seconds(), ids, epochs, workers, incarnations, beats)
			if err != nil {
				return err
			}
			// If no row of a call has work, Claim checks afterwards whether the incarnation may claim.
			return s.refuseEnded(ctx, op, ids, func(n int) bool { return !results[n].absent }, func(n int, o outcome) { results[n].Outcome = o })
		},
	}.runEach(ctx, cs)
}

// finishItem is one result of a batch, which may contain results of several incarnations.
type finishItem struct {
	worker store.WorkerKey
	store.Finish
}

// A row that completes and that nothing follows is handled in the same statement: it is the whole
// chain, can hold no slot, and has no children. The update of its record reads that; it locks the
// record and judges its newest version. The creation of a child writes to that row under the same
// lock: either the update sees it, or it finds the end handled. There was no other handling before,
// because a row that has not ended has none (orchestrated_after_end).
var finishRows = expandColumns(`
with asked as materialized (
    select * from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[])
        with ordinality as a(ask_id, ask_epoch, ask_incarnation, ask_to, ask_reason, ask_result, n)
),
locked as materialized (
    select a.*, w.* from asked a join execution_work w on w.id = a.ask_id
     where w.id = any($2::bigint[])
     order by w.id for no key update of w
),
clock as materialized (select coalesce($1::timestamptz, clock_timestamp()) as now from (select count(*) from locked) l),
judged as materialized (
    select l.*, (select now from clock) as now,
           l.status in ('running', 'canceling') and l.epoch = l.ask_epoch and l.incarnation = l.ask_incarnation
               and (l.status = 'canceling' or l.ask_to <> 'cancelled') as lawful
      from locked l
),
over as (
    update execution_record r
       set status = j.ask_to::execution_status, failure_reason = j.ask_reason::failure_reason, result = j.ask_result::json, ended = j.now,
           orchestrated_at = case when j.ask_to = 'completed' and r.original_execution is null and r.concurrency is null and not r.has_children
                                  then j.now end,
           ` + copyWorkColumns() + `,
           written_by = 'worker', written_incarnation = j.ask_incarnation, written_epoch = j.ask_epoch,
           written_reason = j.ask_reason::failure_reason, written_actor = null
      from judged j
     where r.id = j.id and r.id = any($2::bigint[]) and j.lawful
    returning j.n, j.status::text as was, {kept}
),` + deleteEndedWork("j.lawful") + `
select m.n, true, false, m.was, {m} from over m
union all
select j.n, false, false, j.status::text, {judged} from judged j join execution_record r on r.id = j.id
 where r.id = any($2::bigint[]) and not j.lawful`)

// Finish implements store.Worker.
func (s *Store) Finish(ctx context.Context, w store.WorkerKey, fs []store.Finish) ([]outcome, error) {
	items := make([]finishItem, len(fs))
	for i := range fs {
		items[i] = finishItem{w, fs[i]}
	}
	return s.finishes.submitItems(ctx, "finishing", items)
}

func (s *Store) finishEach(ctx context.Context, fs []finishItem) ([]outcome, []error) {
	const op = "finishing"
	return step[finishItem, outcome]{
		op:  op,
		row: func(f *finishItem) any { return f.Key.ID },
		run: func(ctx context.Context, fs []finishItem, results []outcome) error {
			var ids, epochs, incarnations []int64
			var to []string
			var reasons, texts []*string
			for i := range fs {
				f := &fs[i]
				ids, epochs = append(ids, int64(f.Key.ID)), append(epochs, int64(f.Key.Epoch))
				incarnations, to = append(incarnations, int64(f.worker.Incarnation)), append(to, f.To.String())
				reasons, texts = append(reasons, reasonOrNull(f.Reason)), append(texts, encodeResult(&f.Result))
			}
			err := s.keptPlanQuery(keptHashed)(ctx, op, collectOutcomes(results), finishRows, s.clockOverride(), ids, epochs, incarnations, to, reasons, texts)
			return s.outcomesOfEnded(ctx, op, ids, results, err)
		},
	}.runEach(ctx, fs)
}

var dispatchedTo = expandColumns(`
select {open} from (
    select w.* from execution_work w
     where w.incarnation = $2 and w.status = 'scheduled'
       and (select coalesce($1::timestamptz, clock_timestamp())) < w.dispatch_deadline
     order by w.scheduled_at, w.id limit $3
) w join execution_record r on r.id = w.id
 order by w.scheduled_at, w.id`)

// Dispatched implements store.Worker. It also returns unreadable rows: a message makes a worker run
// such a row as well, and the claim decides.
func (s *Store) Dispatched(ctx context.Context, w store.WorkerKey, limit int) ([]execution.Execution, error) {
	var found []execution.Execution
	err := s.query(ctx, "reading what is dispatched to a worker", collectLeniently(&found), dispatchedTo, s.clockOverride(), int64(w.Incarnation), max(0, limit))
	return found, err
}

const insertRefused = `
insert into refused_result (execution, epoch, worker, incarnation, status, reason, result, received_at)
values ($2, $3, $4, $5, $6::text::execution_status, $7::text::failure_reason, $8::text::json, coalesce($1::timestamptz, clock_timestamp()))`

// KeepRefusedResult implements store.Worker.
func (s *Store) KeepRefusedResult(ctx context.Context, w store.WorkerKey, f store.Finish) error {
	return s.query(ctx, "keeping a refused result", ignoreRow, insertRefused, s.clockOverride(), int64(f.Key.ID), int64(f.Key.Epoch),
		int64(w.ID), int64(w.Incarnation), f.To.String(), reasonOrNull(f.Reason), encodeResult(&f.Result))
}
