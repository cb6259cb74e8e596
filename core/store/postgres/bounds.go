package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"handoff/core/execution"
	"handoff/core/store"
)

// While any session holds an old snapshot (pg_dump, a forgotten transaction), the index entries of rows that
// have left since then can't be removed. Each walk from the head of an index must pass over all of them. So a
// store remembers lower bounds from its latest look. A lane's bound is a time before which no waiting row is
// due. An incarnation's bound is a time before which none of the rows that it holds was assigned. Walks begin
// there.
//
// A bound is a hint. It may delay a row but never loses one: the next walk from the head finds whatever
// appears behind it. That can happen after a slow commit, a manual edit, or an undetected backward step of
// the clock. If the database's clock is seen to step backwards, the bounds are discarded. Each store has its
// own memory, and a new one has none.
const (
	// fullWalkEvery is the pause between walks from the head, and so the longest time that a bound can hide a
	// row. After a slow walk, the pause is fullWalkShare times as long as the walk took.
	fullWalkEvery = 10 * time.Second
	fullWalkShare = 20
	// queueLookEvery is the age at which lane bounds are renewed.
	queueLookEvery = 500 * time.Millisecond
	// dueMargin is how far a lane's bound stays behind the clock. A row may become due before its transaction
	// commits, nearly always by less than this.
	dueMargin = time.Second
	// emptyQueues bounds the remembered lanes in which no row waits at present; their indexes still have
	// entries of rows that have left. mostQueues bounds the remembered lanes in which something waits.
	emptyQueues = 64
	mostQueues  = 1000
)

// heldMargin returns how far an incarnation's bound stays behind the clock. It is longer than a dispatch may
// take from reading the clock to its commit. Otherwise a count would miss rows, and the worker would get more
// than its limit.
func (s *Store) heldMargin() time.Duration { return s.options.StatementTimeout + time.Second }

// noteClockOverride records the time of a clock that a test moves. If it has been set back, all bounds are
// discarded, because it may be far ahead again before the next look.
func (s *Store) noteClockOverride(at time.Time) {
	if was := s.virtual.Swap(&at); was == nil || !at.Before(*was) {
		return
	}
	s.waiting.mu.Lock()
	s.waiting.forgetAll()
	s.waiting.mu.Unlock()
	s.holding.mu.Lock()
	s.holding.forgetAll()
	s.holding.mu.Unlock()
	s.beating.mu.Lock()
	s.beating.own = nil
	s.beating.mu.Unlock()
}

// fullWalkSchedule decides when a walk begins at the head.
type fullWalkSchedule struct{ next time.Time }

func (f *fullWalkSchedule) isDue(now time.Time) bool { return !now.Before(f.next) }

func (f *fullWalkSchedule) scheduleNext(began, now time.Time) {
	f.next = now.Add(max(fullWalkEvery, fullWalkShare*now.Sub(began)))
}

// boundRenewal decides when bounds are renewed, and whether they are used.
type boundRenewal struct {
	mu      sync.Mutex
	looking bool
	// asOf is the time of the latest look, by the database's clock. looked is the time at which it ended.
	asOf, looked time.Time
	full         fullWalkSchedule
	// slow reports whether the latest walk from the head was slow, so that bounds are worth their cost.
	slow bool
}

// renewIfOld calls ask, without the lock, if the latest look is older than age, and then remember with the
// time of the look. While walks from the head are quick, it looks only when such a walk is due, unless always
// is set. ask returns whether a walk from the head was slow. A failed look does not fail the call: the
// earlier bounds remain valid, and a later call retries.
func (b *boundRenewal) renewIfOld(age time.Duration, always bool, ask func(full bool) (asOf time.Time, slow bool, err error), remember func(asOf time.Time), forget func()) {
	began := time.Now()
	b.mu.Lock()
	full := b.full.isDue(began)
	begins := !b.looking && (full || (always || b.slow) && began.Sub(b.looked) >= age)
	b.looking = b.looking || begins
	b.mu.Unlock()
	if !begins {
		return
	}
	asOf, slow, err := ask(full)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looking, b.looked = false, time.Now()
	if full {
		b.full.scheduleNext(began, b.looked)
		b.slow = err != nil || slow
	}
	switch {
	case err != nil:
	case asOf.Before(b.asOf) && !full:
		forget()
	default:
		b.asOf = asOf
		remember(asOf)
	}
}

// numberParameters replaces {1} to {n} by parameters, numbered from first.
func numberParameters(sql string, first, n int) string {
	var numbers []string
	for i := range n {
		numbers = append(numbers, fmt.Sprintf("{%d}", i+1), fmt.Sprintf("$%d", first+i))
	}
	return strings.NewReplacer(numbers...).Replace(sql)
}

// queueKey names a lane: see claimForScheduling.
type queueKey struct {
	action  int64
	runtime string
	worker  int64
}

// queueBounds holds the lanes' bounds. Its zero value has none.
type queueBounds struct {
	boundRenewal
	// known holds the time at which a row was last seen waiting in each known lane, by the program's clock.
	known map[queueKey]time.Time
	// arguments are the bounds in the form of statement arguments.
	arguments queueArguments
}

// queueArguments are the last five arguments of a statement that begins with queueHeads. They are the lanes
// (three lists), each one's bound, and the common bound of all other lanes.
type queueArguments struct {
	actions  []int64
	runtimes []string
	workers  []int64
	since    []time.Time
	others   *time.Time
}

func (q *queueArguments) statementArgs() []any {
	return []any{q.actions, q.runtimes, q.workers, q.since, q.others}
}

// headsOfAll is the list "lane" of a statement that walks all lanes from the head. It finds each lane by a
// skip from the one before.
const headsOfAll = `
lane (action, runtime, pinned, due_at) as (
    (select e.lane_action, e.runtime, e.lane_worker, '-infinity'::timestamptz from execution_work e
      where e.waits
      order by e.lane_action, e.runtime, e.lane_worker limit 1)
    union all
    select n.*, '-infinity'::timestamptz from lane l
     cross join lateral (
        select e.lane_action, e.runtime, e.lane_worker from execution_work e
         where e.waits and (e.lane_action, e.runtime, e.lane_worker) > (l.action, l.runtime, l.pinned)
         order by e.lane_action, e.runtime, e.lane_worker limit 1
     ) n
)`

// queueHeads returns lists of a statement. The list "lane" has each lane with the time at which the first of
// its waiting rows is due. Known lanes are looked up, each beginning at its bound. The other lanes lie in the
// gaps between known ones, in the order of the index, and are found by skipping from one to the next. For
// entries in the gaps that are due before the common bound, the table is not read. first is the number of the
// first of its parameters, which are queueArguments.
//
// A scan of the index ends at an upper bound on one column if all columns before it are compared with "=". It
// does not end at an upper bound on several columns, but reads on to the end. So a gap has up to four parts:
// (1) actions between two; (2) of one action, what is behind a runtime and a worker, to a runtime; (3) of one
// action and runtime, workers between two; (4) the same as (2) to the end of the action. Ids of actions and
// workers are whole numbers from 0.
func queueHeads(first int) string {
	return numberParameters(`
known as materialized (
    select k.*, lead(k.action) over w as to_action, lead(k.runtime) over w as to_runtime, lead(k.pinned) over w as to_pinned
      from (
        select -1::bigint as action, '' as runtime, 0::bigint as pinned, null::timestamptz as since
        union all
        select * from unnest({1}::bigint[], {2}::text[], {3}::bigint[], {4}::timestamptz[])
      ) k
    window w as (order by k.action, k.runtime, k.pinned)
),
part as materialized (
    select 1 as kind, k.action, k.runtime, k.pinned, coalesce(k.to_action, 9223372036854775807) as to_action, k.to_runtime, k.to_pinned
      from known k where k.to_action > k.action + 1 or k.to_action is null
    union all
    select 2, k.action, k.runtime, k.pinned, k.to_action, k.to_runtime, k.to_pinned
      from known k where k.to_action = k.action and k.to_runtime <> k.runtime
    union all
    select 2, k.to_action, '', -1, k.to_action, k.to_runtime, k.to_pinned from known k where k.to_action > k.action
    union all
    select 3, k.action, k.runtime, k.pinned, k.to_action, k.to_runtime, k.to_pinned
      from known k where k.to_action = k.action and k.to_runtime = k.runtime
    union all
    select 3, k.to_action, k.to_runtime, -1, k.to_action, k.to_runtime, k.to_pinned
      from known k where (k.to_action > k.action or k.to_runtime <> k.runtime) and k.to_pinned > 0
    union all
    select 4, k.action, k.runtime, k.pinned, k.to_action, k.to_runtime, k.to_pinned
      from known k where k.action >= 0 and (k.to_action > k.action or k.to_action is null)
),
gap (kind, action, runtime, pinned, due_at, to_action, to_runtime, to_pinned) as (
    select n.*, p.to_action, p.to_runtime, p.to_pinned
      from part p cross join lateral (`+nextQueue("p.kind", "p")+`) n
    union all
    select n.*, g.to_action, g.to_runtime, g.to_pinned
      from gap g cross join generate_series(1, 4) s(kind) cross join lateral (`+nextQueue("s.kind", "g")+`) n
     where s.kind = g.kind or s.kind = 4 and g.kind = 1
),
lane as materialized (
    select g.action, g.runtime, g.pinned, g.due_at from gap g
    union all
    select k.action, k.runtime, k.pinned, h.due_at
      from known k
     cross join lateral (
        select e.due_at from execution_work e
         where e.waits and e.lane_action = k.action and e.runtime = k.runtime and e.lane_worker = k.pinned and e.due_at >= k.since
         order by e.due_at, e.id limit 1
     ) h
     where k.since is not null
)`, first, 5)
}

// nextQueue selects the first row of the first lane in a part of a gap.
func nextQueue(kind, from string) string {
	var parts []string
	for i, p := range []struct{ within, order string }{
		{"e.lane_action > @.action and e.lane_action < @.to_action", "e.lane_action, e.runtime, e.lane_worker, e.due_at"},
		{"e.lane_action = @.action and (e.runtime, e.lane_worker) > (@.runtime, @.pinned) and e.runtime < @.to_runtime", "e.runtime, e.lane_worker, e.due_at"},
		{"e.lane_action = @.action and e.runtime = @.runtime and e.lane_worker > @.pinned and e.lane_worker < @.to_pinned", "e.lane_worker, e.due_at"},
		{"e.lane_action = @.action and (e.runtime, e.lane_worker) > (@.runtime, @.pinned)", "e.runtime, e.lane_worker, e.due_at"},
	} {
		parts = append(parts, fmt.Sprintf(`
        (select %[1]d as kind, e.lane_action, e.runtime, e.lane_worker, e.due_at from execution_work e
          where %[2]s = %[1]d and e.waits and %[3]s and e.due_at >= coalesce({5}::timestamptz, '-infinity')
          order by %[4]s limit 1)`, i+1, kind, strings.ReplaceAll(p.within, "@", from), p.order))
	}
	return strings.Join(parts, `
        union all`)
}

// The look's time is when the statement arrives, which is before its snapshot: any row that it does not see
// commits later.
var selectQueueHeads = `
with recursive` + queueHeads(2) + `,
clock as materialized (select coalesce($1::timestamptz, statement_timestamp()) as now),` + timedList("lane") + `
select d.took, c.now, l.action, l.runtime, l.pinned, least(l.due_at, c.now) from clock c cross join timed d left join lane l on true`

// timedList returns a list with the time for which the statement has executed when another list is complete.
// It excludes planning and the network: measured by the program, a session's first look takes several times
// as long.
func timedList(list string) string {
	return `
timed as materialized (select clock_timestamp() - statement_timestamp() as took from (select count(*) from ` + list + `) l)`
}

// queuesNow returns where walks of lanes begin, as arguments of queueHeads; nil if at the heads. They begin
// at the heads while the occasional walk from the head is quick, because a statement with bounds takes up to
// twice as long for a single row.
func (s *Store) queuesNow(ctx context.Context) []any {
	virtual, b := s.clockOverride(), &s.waiting
	if s.options.NoBounds {
		return nil
	}
	asked := b.currentArgs()
	found := make(map[queueKey]time.Time)
	b.renewIfOld(queueLookEvery, false, func(full bool) (asOf time.Time, slow bool, err error) {
		if full || asked == nil {
			asked = (&queueArguments{}).statementArgs()
		}
		var took time.Duration
		var action, worker *int64
		var runtime *string
		var due pgtype.Timestamptz
		err = s.keptPlanQuery(keptLooped)(ctx, "looking for the oldest waiting executions", scanInto(func() {
			if action != nil {
				found[queueKey{*action, *runtime, *worker}] = timeOrZero(due)
			}
		}, &took, &asOf, &action, &runtime, &worker, &due), selectQueueHeads, append([]any{virtual}, asked...)...)
		return asOf, took >= slowWalk(s.options.SlowWalk, len(found)), err
	}, func(asOf time.Time) { b.recordLook(found, asOf, time.Now()) }, b.forgetAll)
	return b.currentArgs()
}

// slowWalk returns the duration above which a walk from the head that found this many lanes is slow. Each
// lane takes some microseconds in any case, and twice that with bounds.
func slowWalk(one time.Duration, found int) time.Duration {
	return one + one*time.Duration(found)/200
}

func (q *queueBounds) currentArgs() []any {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.slow {
		return nil
	}
	return q.arguments.statementArgs()
}

// forgetAll makes all walks begin at the head, and the next look a full walk.
func (q *queueBounds) forgetAll() {
	q.known, q.asOf, q.full, q.arguments = nil, time.Time{}, fullWalkSchedule{}, queueArguments{}
}

// recordLook records the result of a look: the times at which the first rows of all occupied lanes are due.
func (q *queueBounds) recordLook(found map[queueKey]time.Time, asOf, now time.Time) {
	type entry struct {
		queueKey
		since, occupied time.Time
	}
	latest := asOf.Add(-dueMargin)
	var occupied, empty []entry
	for key, due := range found {
		if due.After(latest) {
			due = latest
		}
		occupied = append(occupied, entry{key, due, now})
	}
	for key, was := range q.known {
		if _, is := found[key]; !is {
			empty = append(empty, entry{key, latest, was})
		}
	}
	// Lanes whose oldest row is recent gain most from a bound. All others share the lowest of their bounds.
	others := latest
	slices.SortFunc(occupied, func(x, y entry) int { return y.since.Compare(x.since) })
	if len(occupied) > mostQueues {
		others = occupied[len(occupied)-1].since
		occupied = occupied[:mostQueues]
	}
	slices.SortFunc(empty, func(x, y entry) int {
		return cmp.Or(y.occupied.Compare(x.occupied), cmp.Compare(x.action, y.action), cmp.Compare(x.runtime, y.runtime), cmp.Compare(x.worker, y.worker))
	})
	empty = empty[:min(len(empty), emptyQueues)]
	q.known, q.arguments = make(map[queueKey]time.Time, len(occupied)+len(empty)), queueArguments{others: &others}
	for _, e := range append(occupied, empty...) {
		q.known[e.queueKey] = e.occupied
		a := &q.arguments
		a.actions, a.runtimes, a.workers = append(a.actions, e.action), append(a.runtimes, e.runtime), append(a.workers, e.worker)
		a.since = append(a.since, e.since)
	}
}

// heldLookEvery is the age at which the bounds of incarnations are renewed. Rows that were assigned long ago
// and are still held are remembered one by one, or a single long run would hold the bound back. mostOld
// bounds those of one incarnation, and mostOldOfAll roughly those of all.
const (
	heldLookEvery = time.Second
	mostOld       = 128
	mostOldOfAll  = 4096
)

// oldHeldRows are those rows of an incarnation that were assigned to it long ago.
type oldHeldRows struct {
	// since is a time before which no other held row was assigned to the incarnation.
	since time.Time
	ids   []int64
}

// heldRow is a row that an incarnation holds.
type heldRow struct {
	id int64
	at time.Time
}

// oldRowsOf makes an oldHeldRows of rows that were assigned before latest. If more is set, there may be
// further ones, none of which was assigned before the last of rows.
func oldRowsOf(rows []heldRow, most int, more bool, latest time.Time) oldHeldRows {
	slices.SortFunc(rows, func(a, b heldRow) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) })
	old := oldHeldRows{since: latest}
	if len(rows) > 0 && (more || len(rows) > most) {
		old.since = rows[min(most, len(rows)-1)].at
	}
	for _, r := range rows {
		if r.at.Before(old.since) {
			old.ids = append(old.ids, r.id)
		}
	}
	return old
}

// heldBounds holds the bounds of the incarnations of all workers. Its zero value has none. Counting from a
// bound costs a statement half a millisecond.
type heldBounds struct {
	boundRenewal
	old map[int64]oldHeldRows
	// all are the arguments for all incarnations.
	all heldArguments
}

// heldArguments are arguments of a statement. In order, they are the incarnations that are known to hold old
// rows, the beginning of each one's count, and the end of its ids in the list of old rows. The beginning of
// all other counts (nil if nothing is known) and the old rows follow. No row was assigned before latest to
// any other incarnation, including those that register later.
type heldArguments struct {
	incarnations []int64
	since        []time.Time
	ends         []int32
	latest       *time.Time
	ids          []int64
}

func (h *heldArguments) statementArgs() []any {
	return []any{h.incarnations, h.since, h.ends, h.latest, h.ids}
}

func (h *heldArguments) addIncarnation(incarnation int64, old oldHeldRows) {
	h.incarnations, h.since = append(h.incarnations, incarnation), append(h.since, old.since)
	h.ids = append(h.ids, old.ids...)
	h.ends = append(h.ends, int32(len(h.ids))) //nolint:gosec // some thousands
}

// heldOf returns the query that counts the rows held by each incarnation in a list of owners, within a
// statement that has waited for locks.
func heldOf(owners, condition string, first int) string {
	return numberParameters(`
bound as materialized (
    select b.incarnation, b.since, ({5}::bigint[])[coalesce(lag(b.ends) over (order by b.n), 0) + 1 : b.ends] as ids
      from unnest({1}::bigint[], {2}::timestamptz[], {3}::int[]) with ordinality as b(incarnation, since, ends, n)
),
held as materialized (
    select o.*, case when coalesce(b.since, {4}::timestamptz) is null then held_by(o.incarnation)
                     else held_since(o.incarnation, coalesce(b.since, {4}::timestamptz), b.ids) end as load
      from `+owners+` o left join bound b on b.incarnation = o.incarnation
     where `+condition+`
)`, first, 5)
}

// selectOldHeld selects the rows that were assigned to each incarnation more than $7 ago. They are those of
// $6 that are still held, and the first $8 of the others.
var selectOldHeld = `
with clock as materialized (
    select n.now, n.now - $7::interval as latest from (select coalesce($1::timestamptz, statement_timestamp()) as now) n
),
bound as materialized (select * from unnest($2::bigint[], $3::timestamptz[], $4::int[]) as b(incarnation, since, ends)),
old as materialized (
    select x.incarnation, x.id, x.scheduled_at, false as walked from execution_work x where x.id = any($6::bigint[]) and x.scheduled_at < $5
    union all
    select w.incarnation, h.id, h.scheduled_at, true
      from clock c cross join worker w left join bound b on b.incarnation = w.incarnation
     cross join lateral (
        select e.id, e.scheduled_at from execution_work e
         where e.incarnation = w.incarnation and e.scheduled_at >= coalesce(b.since, $5, '-infinity') and e.scheduled_at < c.latest
         order by e.scheduled_at limit $8
     ) h
),` + timedList("old") + `
select d.took, c.now, o.incarnation, o.id, o.scheduled_at, o.walked from clock c cross join timed d left join old o on true`

// lookAtHeld renews the bounds of all incarnations if they are too old.
func (s *Store) lookAtHeld(ctx context.Context) {
	virtual, b := s.clockOverride(), &s.holding
	if s.options.NoBounds {
		return
	}
	from := b.argsForAll()
	found, walked := make(map[int64][]heldRow), make(map[int64]int)
	b.renewIfOld(heldLookEvery, true, func(full bool) (asOf time.Time, slow bool, err error) {
		if full {
			from = (&heldArguments{}).statementArgs()
		}
		var took time.Duration
		var incarnation, id *int64
		var at *time.Time
		var byWalk *bool
		err = s.keptPlanQuery(keptHashed)(ctx, "looking for executions that are held for long", scanInto(func() {
			if id == nil || incarnation == nil {
				return
			}
			found[*incarnation] = append(found[*incarnation], heldRow{*id, *at})
			if *byWalk {
				walked[*incarnation]++
			}
		}, &took, &asOf, &incarnation, &id, &at, &byWalk), selectOldHeld, append(append([]any{virtual}, from...), s.heldMargin(), mostOld+1)...)
		return asOf, took >= s.options.SlowWalk, err
	}, func(asOf time.Time) {
		latest := asOf.Add(-s.heldMargin())
		b.old, b.all = make(map[int64]oldHeldRows, len(found)), heldArguments{latest: &latest}
		most := min(mostOld, max(4, mostOldOfAll/max(1, len(found))))
		for incarnation, rows := range found {
			old := oldRowsOf(rows, most, walked[incarnation] > mostOld, latest)
			b.old[incarnation] = old
			b.all.addIncarnation(incarnation, old)
		}
	}, b.forgetAll)
}

// argsFor returns the arguments for the given incarnations, which may contain duplicates: none if counts
// begin at the heads.
func (h *heldBounds) argsFor(incarnations ...int64) []any {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.slow {
		return (&heldArguments{}).statementArgs()
	}
	some := heldArguments{latest: h.all.latest}
	for _, incarnation := range incarnations {
		if old, ok := h.old[incarnation]; ok && !slices.Contains(some.incarnations, incarnation) {
			some.addIncarnation(incarnation, old)
		}
	}
	return some.statementArgs()
}

// argsForAll returns the arguments for all incarnations.
func (h *heldBounds) argsForAll() []any {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all.statementArgs()
}

func (h *heldBounds) forgetAll() {
	h.old, h.asOf, h.full, h.all = nil, time.Time{}, fullWalkSchedule{}, heldArguments{}
}

// beatBounds holds the bounds of the incarnations whose leases this store renews.
type beatBounds struct {
	// off makes all counts begin at the head.
	off bool
	mu  sync.Mutex
	own map[execution.Incarnation]*beatBound
}

type beatBound struct {
	oldHeldRows
	// running are the rows that the worker held at its latest heartbeat. They are not among the old rows
	// until the worker stops holding them, because until then they need not be looked for.
	running []execution.Key
	asOf    time.Time
	full    fullWalkSchedule
}

// mostBeats bounds the remembered incarnations. A worker process has one at a time.
const mostBeats = 100

// countStart returns where the counts of a heartbeat begin, nil for the head, and the ids of the older rows
// that they include.
func (b *beatBounds) countStart(beat *store.Beat) (since *time.Time, ids []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.own[beat.Incarnation]
	if own == nil || b.off || own.full.isDue(time.Now()) {
		return nil, nil
	}
	held := make(map[execution.Key]bool, len(beat.Held))
	for _, key := range beat.Held {
		held[key] = true
	}
	at := own.since
	ids = slices.Clip(own.ids)
	for _, key := range own.running {
		if !held[key] && !slices.Contains(own.ids, int64(key.ID)) {
			ids = append(ids, int64(key.ID))
		}
	}
	return &at, ids
}

// recordBeat records the old rows found by a heartbeat that began its counts at since. If the heartbeat found
// something to end, the next one examines everything.
func (b *beatBounds) recordBeat(beat *store.Beat, since *time.Time, began time.Time, old []heldRow, asOf time.Time, margin time.Duration, ends bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.own[beat.Incarnation]
	if ends || since != nil && own != nil && asOf.Before(own.asOf) {
		delete(b.own, beat.Incarnation)
		return
	}
	if own == nil {
		if b.own == nil || len(b.own) >= mostBeats {
			b.own = make(map[execution.Incarnation]*beatBound)
		}
		own = &beatBound{}
		b.own[beat.Incarnation] = own
	}
	if since == nil {
		own.full.scheduleNext(began, time.Now())
	}
	own.oldHeldRows = oldRowsOf(old, mostOld, len(old) > mostOld, asOf.Add(-margin))
	own.running, own.asOf = slices.Clone(beat.Held), asOf
}
