package figures

import (
	"strconv"
	"time"

	"handoff/core/broker"
	"handoff/core/telemetry"
)

// Clock reads the clocks of a process's machine.
type Clock interface {
	Now() time.Time
	Monotonic() time.Duration
}

// Clock sets the clocks of the process's machine. Without them, handling times are not judged.
func (w *Watch) Clock(c Clock) { w.clock = c }

// clockSlack is the tolerated difference between the process's measurement and the judge's, because the calls
// between them take time.
const clockSlack = time.Second

// letter is the dead letter that the process is handling.
type letter struct {
	// died is when its message died, by the process's monotonic clock.
	died time.Duration
	// measured reports whether its handling time was reported. unhandled counts the dispatches of its message
	// that were given up on; each dispatch is handled separately.
	measured  bool
	unhandled int
	// named counts the reported dead-lettered dispatches by their labels.
	named map[telemetry.Labels]int
}

// beginLetter records a dead letter's delivery. The broker records deaths in whole seconds by its clock.
func (w *Watch) beginLetter(d *broker.Delivery) {
	w.letter = &letter{named: make(map[telemetry.Labels]int)}
	if w.clock == nil {
		return
	}
	w.letter.died = w.clock.Monotonic()
	if len(d.Deaths) > 0 && !d.Deaths[0].Time.IsZero() {
		w.letter.died -= max(0, w.clock.Now().Sub(d.Deaths[0].Time))
	}
}

// judgeLetterTime judges the handling time that the process reports for the current dead letter.
func (w *Watch) judgeLetterTime(d time.Duration) {
	if w.letter == nil || w.clock == nil {
		return
	}
	w.letter.measured = true
	w.j.judged++
	if want := w.clock.Monotonic() - w.letter.died; d < want-want/10-clockSlack || d > want+want/10+clockSlack {
		w.recordViolation("a dead letter is reported as handled %v after its death, which was %v ago", d, want)
	}
}

// finishLetter records the counts that an acknowledged dead letter must lead to. Its handling time must have
// been reported unless it was given up on.
func (w *Watch) finishLetter(d *broker.Delivery) {
	j, name, of := w.j, w.p.name, w.letter
	w.letter = nil
	reason, queue := broker.DeathUnknown.String(), ""
	if len(d.Deaths) > 0 {
		reason, queue = d.Deaths[0].Reason.String(), d.Deaths[0].Queue
	}
	e := &d.Envelope
	ds := e.Dispatches
	if e.Type != broker.ExecutionScheduled || !broker.IsWorkerQueue(queue) {
		ds = nil
	}
	gaveUp := 0
	if of != nil {
		gaveUp = of.unhandled
	}
	letters := max(1, len(ds))
	for i := range letters {
		j.expectCount(name, telemetry.DeadLetters, reason)
		if i >= gaveUp {
			j.expectCount(name, telemetry.DeadLetterSeconds)
		}
	}
	for i := range ds {
		action := j.actions[ds[i].Key.ID]
		if action == "" {
			continue
		}
		labels := telemetry.Labels{reason, action, strconv.FormatInt(int64(ds[i].Worker), 10)}
		if gaveUp > 0 {
			// Whether the process could read the letter's subject does not follow from the history.
			if of.named[labels] == 0 {
				continue
			}
			of.named[labels]--
		}
		j.expectCount(name, telemetry.DeadLettered, labels[:]...)
	}
}
