package figures

import (
	"time"

	"handoff/core/telemetry"
)

// passCounts is what a process has told of the passes of one of its loops. A pass tells how late it began, then how long it
// took, and then that it was.
type passCounts struct {
	counted, measured, late int64
	// began is when the last pass began.
	began time.Duration
}

// passesOf returns what is known of a loop.
func (w *Watch) passesOf(name string) *passCounts {
	p := w.loops[name]
	if p == nil {
		p = new(passCounts)
		w.loops[name] = p
	}
	return p
}

// judgePassTime notes what a process measures of a pass, and judges it.
func (w *Watch) judgePassTime(f telemetry.Figure, d time.Duration, loop string) {
	now, p := w.j.now(), w.passesOf(loop)
	switch f {
	case telemetry.LoopSeconds:
		p.measured++
		p.began = now - d
	case telemetry.LoopLag:
		p.late++
		w.j.judged++
		switch since := now - p.began; {
		case p.counted == 0:
			w.recordViolation("%s of %s is told of its first pass, which can't be late", w.j.table[f].Name, loop)
		case d > since+since/10+clockSlack:
			w.recordViolation("%s of %s is %v, and the pass before began %v ago", w.j.table[f].Name, loop, d, since)
		}
	default:
	}
}

// judgePass judges a pass of a loop that has come to its end. A worker's loops begin anew with each of its sessions.
func (w *Watch) judgePass(loop string) {
	p := w.passesOf(loop)
	w.j.judged++
	if p.measured != p.counted+1 {
		w.recordViolation("%d passes of %s are counted, and %d of them measured", p.counted+1, loop, p.measured)
	}
	if w.samples && p.late != p.counted {
		w.recordViolation("%d passes of %s are counted, and of %d it was told how late they were: of all but the first", p.counted+1, loop, p.late)
	}
	p.counted++
}
