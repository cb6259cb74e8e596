package invariant

import (
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
)

// This file judges the statements by which executors look for work, as a part of invariant 18. Each kind has its period,
// which docs/contract.md names. An executor looks once a period, at once where the last look gave all that it asked for,
// and in between only for a reason: a hint, an end that it has handled, something that it knew to be due. It asks for no
// more than a batch, and does not look twice at what one pass has left.
//
// Only the simulated world tells of statements, so a recorded history and real daemons are not judged by it.

// Look is a kind of statement by which an executor looks for work.
type Look uint8

// The kinds of looks.
const (
	// LookSchedule claims what is due for scheduling.
	LookSchedule Look = iota
	// LookSettle finds chains whose children wait.
	LookSettle
	// LookOwners finds what is held by workers that are gone. It follows a worker that was marked lost, too.
	LookOwners
	LookClaims
	LookUnpublishedLate
	LookUnpublished
	LookEnds
	LookCancels
	LookUnclaimed
	LookOverrun
	LookDeadLetters
	LookObservations
	LookKeys
	LookSlots

	lookKinds
)

func (l Look) String() string {
	return [...]string{
		"executions to schedule", "children to settle", "what workers hold that are gone", "claims for scheduling that have expired", "late unpublished dispatches",
		"unpublished dispatches", "ends that nobody handled", "cancellations without an answer", "dispatches that nobody claimed", "runs past their deadline",
		"dead letters to purge", "observations to purge", "idempotency keys to forget", "slots to free",
	}[l]
}

// sweepPeriod is the period of the purges and of the sweeps of slots and of idempotency keys.
const sweepPeriod = time.Minute

// mostBatches is how many batches a pass may take.
const mostBatches = 200

// period is how often an executor looks.
func (l Look) period(c *config.Config) time.Duration {
	switch l {
	case LookUnclaimed, LookOverrun:
		return c.Executor.TimeoutCheckInterval
	case LookDeadLetters, LookObservations, LookKeys, LookSlots:
		return sweepPeriod
	default:
		return c.Executor.ReconcileInterval
	}
}

// always says that the kind is due once a period whatever happens. A scheduler and who publishes do not look while they
// have no connection to the broker, and a timeout monitor waits for a lease after an outage.
func (l Look) always() bool {
	return l != LookSchedule && l != LookUnpublished && l != LookUnclaimed && l != LookOverrun
}

// drift is by how much a process's clock may go wrong, and what is over sooner for one that is fast.
func drift(d time.Duration) time.Duration { return d / 8 }

// Found is one row that a look gave.
type Found struct {
	Key    execution.Key
	Status execution.Status
}

// Looker is one executor process, of one start, as its statements show it. It is told of each before it is sent and when
// its answer is there.
type Looker struct {
	c       *workChecker
	process string
	since   time.Duration
	kinds   [lookKinds]looked
	told    map[execution.Incarnation]toldOf
	// parked are the moments at which the scheduler has to look again at what it gave back.
	parked []time.Duration
	// reasons are what the scheduler may look for before its period is over.
	reasons  []reason
	stumbled bool
	// held is since when the process stands still, 0 if it does not.
	held time.Duration
	// passes is when the last row of passes without a pause began at the latest, next when the next pass did at the earliest,
	// 0 if it has not begun.
	passes, next time.Duration
	// settled are the moments of reasons to look for children that come from elsewhere than the looks. found are the chains
	// that the last look has found, until their children are settled.
	settled []time.Duration
	found   []execution.ID
	// lost are how many workers it has marked lost since it looked at what they hold.
	lost int
}

// looked is what is known of one kind of look.
type looked struct {
	began, timed time.Duration
	answered     time.Duration
	any          bool
	// again says that the last look gave all that it asked for, due that the next one has to follow.
	again, due bool
	failed     bool
	batches    int
	left       map[Found]bool
}

// reason is when something may wake the scheduler: from and to bound the moment.
type reason struct{ from, to time.Duration }

// Looks has the looks of an executor process judged, which has just started; nil if this invariant is not judged.
func (s *Suite) Looks(process string, at time.Duration) *Looker {
	for _, c := range s.checkers {
		if w, ok := c.(*workChecker); ok {
			k := &Looker{c: w, process: process, since: at, told: make(map[execution.Incarnation]toldOf)}
			for i := range k.kinds {
				// Its start, which hinders it, comes before what it does.
				k.kinds[i].began, k.kinds[i].answered, k.kinds[i].timed = at, at+1, at
			}
			w.lookers = slices.DeleteFunc(w.lookers, func(o *Looker) bool { return o.process == process })
			w.lookers = append(w.lookers, k)
			return k
		}
	}
	return nil
}

// Woken notes that something may make the scheduler look after a delay, and at once.
func (k *Looker) Woken(at, delay time.Duration) {
	k.reasons = append(k.reasons, reason{at, at + k.slack(at)})
	if delay > 0 {
		k.Remembers(at, delay)
	}
}

// Remembers notes that the scheduler knows of something that is due after a delay.
func (k *Looker) Remembers(at, delay time.Duration) {
	k.reasons = append(k.reasons, reason{at + delay - drift(delay), at + delay + drift(delay) + k.slack(at)})
}

// slack is how late what wakes a scheduler may come to it: a message is told of when the broker sends it.
func (k *Looker) slack(at time.Duration) time.Duration {
	s := k.c.s
	if from := s.recovered(at); !s.roads.clear(from) || !s.roads.byName[k.process].clear(from) {
		return s.prompt() + s.bounds.Recovery
	}
	return s.prompt()
}

// Parks notes that the scheduler has given a row back for a while.
func (k *Looker) Parks(at, delay time.Duration) {
	k.Remembers(at, delay)
	k.parked = append(k.parked, at+delay)
}

// wakeGrain is how long after a call was answered the executor may be woken for what it said.
const wakeGrain = 50 * time.Millisecond

// parkGrain is how far apart the moments are at which rows that were given back are looked at again, and parkCalls how long
// the calls before the look may take while nothing is wrong.
const (
	parkGrain = 500 * time.Millisecond
	parkCalls = 200 * time.Millisecond
)

// putOff judges whether what was given back is looked at again in time.
func (k *Looker) putOff(at time.Duration) {
	s := k.c.s
	for _, due := range k.parked {
		from := s.recovered(due)
		if at-due <= parkGrain+parkCalls || k.stumbled || !s.roads.byName[k.process].clear(from) || !s.roads.clear(from) {
			continue
		}
		s.judged(k.c.i)
		s.violate(k.c.i, 0, "%s gave a row back that was due again at %v, and looked for it %v later; it may take %v, and the calls before it %v", k.process, due, at-due, parkGrain, parkCalls)
	}
	k.parked = slices.DeleteFunc(k.parked, func(due time.Duration) bool { return due <= at })
}

// Lost notes that the executor has marked a worker lost.
func (k *Looker) Lost() { k.lost++ }

// Settled notes how children of chains were settled: left says that some wait, more that others of a chain follow of which
// some were settled. What a look has found goes on at once while there is more. What was settled beside the looks, when the
// ends of its chains were handled, is a reason for a row of looks of its own, after the one that goes on.
func (k *Looker) Settled(at time.Duration, chains []execution.ID, left, more bool) {
	if !slices.Equal(chains, k.found) {
		if left {
			k.settled = append(k.settled, at)
		}
		return
	}
	k.found = nil
	if more {
		k.kinds[LookSettle].due, k.kinds[LookSettle].answered = true, at
	}
}

// Asks judges a look that is about to be sent, which asks for so many rows, of that age where the kind has a fixed one.
func (k *Looker) Asks(at time.Duration, l Look, most int, age time.Duration) {
	s, t := k.c.s, &k.kinds[l]
	s.judged(k.c.i)
	if l == LookSchedule {
		k.putOff(at)
	}
	if l == LookSchedule && (k.stumbled || t.failed) {
		for i := range k.reasons {
			k.reasons[i].to = max(k.reasons[i].to, at+s.prompt())
		}
		k.stumbled = false
	}
	if batch := s.config.Executor.BatchSize; most > batch {
		s.violate(k.c.i, 0, "%s asked for %d rows in one statement, looking for %v; a batch has %d", k.process, most, l, batch)
	}
	if kept := l.kept(&s.config); kept > 0 && age != kept {
		s.violate(k.c.i, 0, "%s looked for %v that are older than %v; they are kept for %v", k.process, l, age, kept)
	}
	period := l.period(&s.config)
	// The scheduler counts its period from the last look of any kind, the others from the last one that was due.
	from := t.timed
	if l == LookSchedule || l == LookSettle {
		from = t.began
	}
	timed := !t.any || at-from >= period-drift(period)
	ok := timed || t.again || t.failed || k.reasoned(l, at)
	if !ok {
		s.violate(k.c.i, 0, "%s looked for %v at %v and again at %v, and the first look had not given all that it asked for; it looks every %v, and nothing is known that made it look before", k.process, l, t.began, at, period)
	}
	if timed && !t.again || !t.any {
		t.timed = at
	}
	if !t.again || timed {
		t.left, t.batches = nil, 0
	}
	if l == LookSchedule && !t.again {
		k.passes = max(k.next, k.passes)
	}
	if l == LookSchedule {
		k.next = 0
	}
	t.began, t.answered, t.any, t.again, t.due, t.failed = at, at, true, false, false, true
}

// kept is how long what is purged is kept; 0 where nothing is.
func (l Look) kept(c *config.Config) time.Duration {
	switch l {
	case LookDeadLetters, LookObservations:
		return oracle.DeadLettersKept(&c.MessageQueue.RabbitMQ)
	case LookKeys:
		return oracle.KeyLifetime
	default:
		return 0
	}
}

// reasoned says that something is known for which an executor looks before its period is over, and uses it up.
func (k *Looker) reasoned(l Look, at time.Duration) bool {
	switch l {
	case LookSchedule:
		// A row of passes without a pause acts on everything that came before it. It begins with a look at the workers.
		late := k.passes
		k.reasons = slices.DeleteFunc(k.reasons, func(r reason) bool { return r.to < late })
		best := -1
		for i, r := range k.reasons {
			if r.from <= at && (best < 0 || r.to < k.reasons[best].to) {
				best = i
			}
		}
		if best < 0 {
			return false
		}
		k.reasons = slices.Delete(k.reasons, best, best+1)
		return true
	case LookSettle:
		if k.kinds[l].due {
			return true
		}
		// A look is for all that came before it. What came just now may wake the executor once more.
		was := len(k.settled) > 0
		if was {
			k.settled = slices.DeleteFunc(k.settled[1:], func(noted time.Duration) bool { return noted < at-wakeGrain })
		}
		// Where calls fail, chains are settled one by one, and what is left is known to the executor alone.
		from := k.c.s.recovered(k.kinds[l].began)
		return was || !k.c.s.roads.clear(from) || !k.c.s.roads.byName[k.process].clear(from)
	case LookOwners:
		was := k.lost > 0
		k.lost = max(0, k.lost-1)
		return was
	default:
		return false
	}
}

// Answered tells of an answer: full says that it gave all that was asked for, goesOn that a look has to follow at once.
func (k *Looker) Answered(at time.Duration, l Look, full, goesOn bool, rows []Found) {
	t := &k.kinds[l]
	t.answered, t.again, t.failed = at, full, false
	if t.batches++; t.batches >= mostBatches {
		goesOn = false
	}
	t.due = goesOn
	// Chains with many children come again and again, and two loops look for what workers hold that are gone.
	if l == LookSettle {
		k.found = k.found[:0]
		for _, r := range rows {
			k.found = append(k.found, r.Key.ID)
		}
	}
	if l == LookSettle || l == LookOwners {
		return
	}
	for _, r := range rows {
		if t.left[r] {
			k.c.s.violate(k.c.i, r.Key.ID, "%s looked for %v and found execution %d (epoch %d, %v) twice in one pass, as it had left it", k.process, l, r.Key.ID, r.Key.Epoch, r.Status)
		}
		if full {
			if t.left == nil {
				t.left = make(map[Found]bool)
			}
			t.left[r] = true
		}
	}
}

// Failed tells that a look was answered with an error.
func (k *Looker) Failed(at time.Duration, l Look) { k.kinds[l].answered, k.kinds[l].failed = at, true }

// Began notes that the executor has looked at the workers, which takes it since a moment.
func (k *Looker) Began(since time.Duration) {
	if k.next == 0 || since < k.next {
		k.next = since
	}
}

// stands notes that the process stands still, and resumes that it does so no more. Its own clock may have stood still, too,
// so what it had to look for comes later by as much.
func (k *Looker) stands(at time.Duration) {
	if k.held == 0 {
		k.held = at
	}
}

func (k *Looker) resumes(at time.Duration) {
	if k.held == 0 {
		return
	}
	for i := range k.reasons {
		if r := &k.reasons[i]; r.to >= k.held {
			r.to += at - k.held
		}
	}
	k.held = 0
}

// Stumbled notes that another statement failed. If it was of a pass of the scheduler, the next pass comes after a pause, and
// what wakes it meanwhile wakes it for one more.
func (k *Looker) Stumbled() { k.stumbled = true }

// GoesOn notes that the last claim of the scheduler has to be followed by another one.
func (k *Looker) GoesOn(at time.Duration) {
	if t := &k.kinds[LookSchedule]; t.again && !t.due {
		t.due, t.answered = true, at
	}
}

// Tells judges what a prober that only observes is about to tell of a worker.
func (k *Looker) Tells(at time.Duration, incarnation execution.Incarnation, ready bool, reason string) {
	s := k.c.s
	s.judged(k.c.i)
	if told, known := k.told[incarnation]; known && told.ready == ready && at-told.at < 3*s.config.Executor.HealthCheckInterval/2+probeTimeout {
		s.violate(k.c.i, 0, "%s told the database in two rounds that the health endpoint of incarnation %d answers: %v", k.process, incarnation, ready)
	}
	if ready && reason != "" {
		s.violate(k.c.i, 0, "%s told the database that the health endpoint of incarnation %d answers that it is ready, although the probe failed: %s", k.process, incarnation, reason)
	}
}

// Told notes that the database knows it.
func (k *Looker) Told(at time.Duration, incarnation execution.Incarnation, ready bool) {
	k.told[incarnation] = toldOf{ready, at}
}

// toldOf is what a prober has told of a worker, and when.
type toldOf struct {
	ready bool
	at    time.Duration
}

// overdue judges whether looks have come in time.
func (c *workChecker) overdue(now time.Duration) {
	if now < c.nextOverdue {
		return
	}
	prompt := c.s.prompt()
	c.nextOverdue = now + prompt
	for _, k := range c.lookers {
		for l := range lookKinds {
			c.late(k, l, now, prompt)
		}
		c.untested(k.process, now)
	}
}

func (c *workChecker) late(k *Looker, l Look, now, prompt time.Duration) {
	t := &k.kinds[l]
	within := l.period(&c.s.config)
	within += drift(within) + 2*prompt
	switch {
	case t.due:
		within = 2 * prompt
	case !l.always():
		return
	}
	if now-t.answered <= within || t.failed && t.any {
		return
	}
	// An executor that was hindered may have begun its pause later.
	if p := c.s.roads.byName[k.process]; !p.clear(t.answered) || !c.s.roads.clear(t.answered) || now-p.wrong.last < c.s.bounds.Recovery || now-c.s.roads.servers.last < c.s.bounds.Recovery {
		return
	}
	c.s.judged(c.i)
	if t.due {
		c.s.violate(c.i, 0, "%s looked for %v at %v and was given all that it asked for, and has not looked again for what is left within %v", k.process, l, t.began, within)
		return
	}
	c.s.violate(c.i, 0, "%s has not looked for %v since %v; it looks every %v", k.process, l, t.began, l.period(&c.s.config))
}

// hinted notes a hint that comes to a scheduler.
func (c *workChecker) hinted(e *history.Event) {
	for _, k := range c.lookers {
		if k.process == e.Process {
			k.Woken(e.At, 0)
		}
	}
}
