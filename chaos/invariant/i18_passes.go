package invariant

import (
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
)

// This file is the part of invariant 18 about the statements with which executors look for work.
// docs/contract.md sets a period for each kind of look. An executor looks once a period, and immediately if
// the last look returned as many rows as requested. In between it looks only for a reason: a hint, an end
// that it has handled, or a row that it knew to be due. It requests at most one batch, and no rows that the
// same pass has left in place.
//
// Only the simulated world reports statements, so recorded histories and real daemons are not judged.

// Look is a kind of statement with which an executor looks for work.
type Look uint8

// The kinds of looks.
const (
	// LookSchedule claims executions that are due for scheduling.
	LookSchedule Look = iota
	// LookSettle finds chains with waiting children.
	LookSettle
	// LookOwners finds executions held by workers that are gone. A worker's loss is also a reason for it.
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
		"executions to schedule", "children to settle", "what departed workers hold", "claims for scheduling that have expired", "late unpublished dispatches",
		"unpublished dispatches", "ends that nobody handled", "cancellations without an answer", "dispatches that nobody claimed", "runs past their deadline",
		"dead letters to purge", "observations to purge", "idempotency keys to forget", "slots to free",
	}[l]
}

// sweepPeriod is the period of the purges and of the sweeps of slots and idempotency keys.
const sweepPeriod = time.Minute

// mostBatches is the maximum number of batches in a pass.
const mostBatches = 200

// lookPeriod returns the period of a kind of look.
func (l Look) lookPeriod(c *config.Config) time.Duration {
	switch l {
	case LookUnclaimed, LookOverrun:
		return c.Executor.TimeoutCheckInterval
	case LookDeadLetters, LookObservations, LookKeys, LookSlots:
		return sweepPeriod
	default:
		return c.Executor.ReconcileInterval
	}
}

// isAlwaysDue reports whether the kind is due every period, in all circumstances. The looks of the scheduler
// and of the publishers pause without a connection to the broker, and the timeout monitor waits for a lease
// after an outage.
func (l Look) isAlwaysDue() bool {
	return l != LookSchedule && l != LookUnpublished && l != LookUnclaimed && l != LookOverrun
}

// clockDrift returns the maximum error of a process's clock over d: by a fast clock, d ends that much
// earlier.
func clockDrift(d time.Duration) time.Duration { return d / 8 }

// Found identifies a row that a look returned, with its status.
type Found struct {
	Key    execution.Key
	Status execution.Status
}

// Looker follows the statements of one executor process, from its start to its end. It is notified before
// each statement is sent and after it is answered.
type Looker struct {
	c        *workChecker
	process  string
	since    time.Duration
	kinds    [lookKinds]lookState
	recorded map[execution.Incarnation]readinessRecord
	// parked holds the times at which the scheduler must retry rows that it released.
	parked []time.Duration
	// woken, patient and reasons hold reasons for the scheduler to look before its period is over. woken and
	// patient hold events that have come, those that lapse first in front. Events in patient came while
	// something was wrong, so they lapse later, and not before until. Each look of the scheduler postpones
	// until while something is wrong, because the part that got the event may not have passed it on yet.
	// reasons holds what the scheduler remembers.
	woken, patient queue[lookReason]
	until          time.Duration
	reasons        []lookReason
	stumbled       bool
	// held is when the process was halted, 0 if it isn't halted.
	held time.Duration
	// passes is the latest possible start of the last uninterrupted series of passes. next is the earliest
	// possible start of the next pass, 0 if it hasn't begun.
	passes, next time.Duration
	// settled holds the times of reasons to look for children, except those that result from such a look
	// itself. found holds the chains that the last look found, until their children are settled.
	settled []time.Duration
	found   []execution.ID
	// lost is the number of workers that the executor has marked lost since it last looked for their
	// executions. Two loops look for these. owed reports whether one of them got a full answer, so another
	// look must follow; an answer to the other loop may come in between.
	lost int
	owed bool
}

// lookState is the state of one kind of look.
type lookState struct {
	began, timed time.Duration
	answered     time.Duration
	any          bool
	// full reports whether the last look returned as many rows as requested, and due whether the next must
	// follow.
	full, due bool
	failed    bool
	batches   int
	left      map[Found]bool
}

// lookReason is an event that may wake the scheduler at a time between from and to.
type lookReason struct{ from, to time.Duration }

// Looks returns a Looker for an executor process that has just started; nil if this invariant is not judged.
func (s *Suite) Looks(process string, at time.Duration) *Looker {
	for _, c := range s.checkers {
		if w, ok := c.(*workChecker); ok {
			k := &Looker{c: w, process: process, since: at, recorded: make(map[execution.Incarnation]readinessRecord)}
			for i := range k.kinds {
				// Its start, which counts as a hindrance, precedes its first statement.
				k.kinds[i].began, k.kinds[i].answered, k.kinds[i].timed = at, at+1, at
			}
			w.lookers = slices.DeleteFunc(w.lookers, func(o *Looker) bool { return o.process == process })
			w.lookers = append(w.lookers, k)
			return k
		}
	}
	return nil
}

// Lost notes that the executor has marked a worker lost.
func (lo *Looker) Lost() { lo.lost++ }

// Settled records a call that settled children of chains. left reports whether some children may still wait,
// and more whether the call settled only some of a chain's children. If the last look found exactly these
// chains, more means that the next look must follow immediately. Otherwise the executor handled the end of a
// chain, or retried each chain of a failed call separately. In that case left is a reason for another series
// of looks after the present one.
func (lo *Looker) Settled(at time.Duration, chains []execution.ID, left, more bool) {
	if !slices.Equal(chains, lo.found) {
		if left {
			lo.settled = append(lo.settled, at)
		}
		return
	}
	lo.found = nil
	if more {
		lo.kinds[LookSettle].due, lo.kinds[LookSettle].answered = true, at
	}
}

// Asks judges a look that is about to be sent. most is the number of rows that it requests, and age their age
// if the kind has a fixed one.
func (lo *Looker) Asks(at time.Duration, l Look, most int, age time.Duration) {
	s, t := lo.c.s, &lo.kinds[l]
	s.countOccasion(lo.c.i)
	if l == LookSchedule {
		lo.judgeParked(at)
		if slack := lo.wakeSlack(at); slack != s.promptBound() {
			lo.until = at + slack
		}
		lo.dropLapsed(&lo.patient, lo.until)
	}
	if l == LookSchedule && (lo.stumbled || t.failed) {
		for _, of := range [...][]lookReason{lo.woken.all[lo.woken.head:], lo.patient.all[lo.patient.head:], lo.reasons} {
			for i := range of {
				of[i].to = max(of[i].to, at+s.promptBound())
			}
		}
		lo.stumbled = false
	}
	if batch := s.config.Executor.BatchSize; most > batch {
		s.recordViolation(lo.c.i, 0, "%s asked for %d rows in one statement when it looked for %v; a batch has %d", lo.process, most, l, batch)
	}
	if kept := l.retentionTime(&s.config); kept > 0 && age != kept {
		s.recordViolation(lo.c.i, 0, "%s looked for %v that are older than %v; they are kept for %v", lo.process, l, age, kept)
	}
	period := l.lookPeriod(&s.config)
	// The periods of scheduling and settling count from the last look for any reason, the other periods from
	// the last look that was due.
	from := t.timed
	if l == LookSchedule || l == LookSettle {
		from = t.began
	}
	timed := !t.any || at-from >= period-clockDrift(period)
	ok := timed || t.full || t.failed || lo.useReason(l, at)
	if !ok {
		s.recordViolation(lo.c.i, 0, "%s looked for %v at %v and again at %v, although the first look returned fewer rows than it asked for; its period is %v, and no reason for an earlier look is known", lo.process, l, t.began, at, period)
	}
	// A pass ends after its maximum number of batches, even if the last answer was full.
	over := t.batches >= mostBatches
	if timed && (!t.full || over) || !t.any {
		t.timed = at
	}
	if !t.full || timed {
		t.left, t.batches = nil, 0
	}
	if l == LookSchedule && !t.full {
		lo.passes = max(lo.next, lo.passes)
	}
	if l == LookSchedule {
		lo.next = 0
	}
	t.began, t.answered, t.any, t.full, t.due, t.failed = at, at, true, false, false, true
}

// retentionTime returns how long rows of the kind are kept before they are purged; 0 for other kinds.
func (l Look) retentionTime(c *config.Config) time.Duration {
	switch l {
	case LookDeadLetters, LookObservations:
		return oracle.DeadLettersKept(&c.MessageQueue.RabbitMQ)
	case LookKeys:
		return oracle.KeyLifetime
	default:
		return 0
	}
}

// Answered records an answer. full reports whether it had as many rows as requested, and goesOn whether
// another look must follow immediately.
func (lo *Looker) Answered(at time.Duration, l Look, full, goesOn bool, rows []Found) {
	t := &lo.kinds[l]
	t.answered, t.full, t.failed = at, full, false
	if t.batches++; t.batches >= mostBatches {
		goesOn = false
	}
	t.due = goesOn
	// Chains with many children are returned repeatedly, and executions held by workers that are gone are
	// returned to two loops.
	if l == LookSettle {
		lo.found = lo.found[:0]
		for _, r := range rows {
			lo.found = append(lo.found, r.Key.ID)
		}
	}
	if l == LookOwners && full {
		lo.owed = true
	}
	if l == LookSettle || l == LookOwners {
		return
	}
	for _, r := range rows {
		if t.left[r] {
			lo.c.s.recordViolation(lo.c.i, r.Key.ID, "%s looked for %v and found execution %d (epoch %d, %v) twice in one pass, unchanged", lo.process, l, r.Key.ID, r.Key.Epoch, r.Status)
		}
		if full {
			if t.left == nil {
				t.left = make(map[Found]bool)
			}
			t.left[r] = true
		}
	}
}

// Failed notes that a look was answered with an error.
func (lo *Looker) Failed(at time.Duration, l Look) {
	lo.kinds[l].answered, lo.kinds[l].failed = at, true
}

// Began records that the executor has looked at the workers. That look began at since.
func (lo *Looker) Began(since time.Duration) {
	if lo.next == 0 || since < lo.next {
		lo.next = since
	}
}

// noteHalt notes that the process is halted.
func (lo *Looker) noteHalt(at time.Duration) {
	if lo.held == 0 {
		lo.held = at
	}
}

// noteResume records that the process resumes. Its clock may have been stopped, too, so its reasons lapse
// later by that time.
func (lo *Looker) noteResume(at time.Duration) {
	if lo.held == 0 {
		return
	}
	for i := range lo.reasons {
		if r := &lo.reasons[i]; r.to >= lo.held {
			r.to += at - lo.held
		}
	}
	lo.held = 0
}

// Stumbled records that a statement other than a look failed. If a pass of the scheduler made it, the next
// pass follows after a pause. A reason that comes during the pause remains valid for the pass after that.
func (lo *Looker) Stumbled() { lo.stumbled = true }

// GoesOn notes that another claim must follow the last claim of the scheduler.
func (lo *Looker) GoesOn(at time.Duration) {
	if t := &lo.kinds[LookSchedule]; t.full && !t.due {
		t.due, t.answered = true, at
	}
}

// Tells judges a record about a worker's readiness that an observing prober is about to write.
func (lo *Looker) Tells(at time.Duration, incarnation execution.Incarnation, ready bool, reason string) {
	s := lo.c.s
	s.countOccasion(lo.c.i)
	if told, known := lo.recorded[incarnation]; known && told.ready == ready && at-told.at < 3*s.config.Executor.HealthCheckInterval/2+probeTimeout {
		s.recordViolation(lo.c.i, 0, "%s recorded in two rounds that the readiness of the health endpoint of incarnation %d is: %v", lo.process, incarnation, ready)
	}
	if ready && reason != "" {
		s.recordViolation(lo.c.i, 0, "%s recorded that the health endpoint of incarnation %d is ready, although the probe failed: %s", lo.process, incarnation, reason)
	}
}

// Told notes that the database has stored such a record.
func (lo *Looker) Told(at time.Duration, incarnation execution.Incarnation, ready bool) {
	lo.recorded[incarnation] = readinessRecord{ready, at}
}

// readinessRecord is a prober's last record about a worker.
type readinessRecord struct {
	ready bool
	at    time.Duration
}

// judgeOverdueLooks judges whether every executor has looked in time.
func (wc *workChecker) judgeOverdueLooks(now time.Duration) {
	if now < wc.nextOverdue {
		return
	}
	prompt := wc.s.promptBound()
	wc.nextOverdue = now + prompt
	for _, k := range wc.lookers {
		for l := range lookKinds {
			wc.judgeLateLook(k, l, now, prompt)
		}
		wc.judgeMissingCanary(k.process, now)
	}
}

// isDisconnected reports whether looks of this kind pause without a connection to the broker, and the
// executor has given up its session at or after from.
func (lo *Looker) isDisconnected(l Look, from time.Duration) bool {
	return (l == LookSchedule || l == LookUnpublished) && lo.c.s.roads.gaveUp(lo.process, from)
}

func (wc *workChecker) judgeLateLook(k *Looker, l Look, now, prompt time.Duration) {
	t := &k.kinds[l]
	within := l.lookPeriod(&wc.s.config)
	within += clockDrift(within) + 2*prompt
	switch {
	case t.due && k.isDisconnected(l, t.began-prompt):
		within = wc.s.reconnectBound()
	case t.due:
		if within = 2 * prompt; wc.s.lockedRows > 0 {
			return // the rest may be rows that a foreign session has locked
		}
	case !l.isAlwaysDue():
		return
	}
	if now-t.answered <= within || t.failed && t.any {
		return
	}
	// A hindered executor may have begun its pause later.
	if p := wc.s.roads.byName[k.process]; !p.isClear(t.answered) || !wc.s.roads.serversClear(t.answered) || now-p.wrong.last < wc.s.bounds.Recovery || now-wc.s.roads.servers.last < wc.s.bounds.Recovery {
		return
	}
	wc.s.countOccasion(wc.i)
	if t.due {
		wc.s.recordViolation(wc.i, 0, "%s looked for %v at %v and got as many rows as it asked for, but has not looked again for the rest within %v", k.process, l, t.began, within)
		return
	}
	wc.s.recordViolation(wc.i, 0, "%s has not looked for %v since %v; it looks every %v", k.process, l, t.began, l.lookPeriod(&wc.s.config))
}

// noteHint records a hint that has reached a scheduler.
func (wc *workChecker) noteHint(e *history.Event) {
	for _, k := range wc.lookers {
		if k.process == e.Process {
			k.Woken(e.At, 0)
		}
	}
}
