package figures

import (
	"time"

	"handoff/core/telemetry"
)

// passCounts counts the reports about one loop's passes. For each pass, the process reports how late it
// began, then its duration, then that it is finished.
type passCounts struct {
	counted, measured, late int64
	// began is the start of the last pass.
	began time.Duration
}

// passesOf returns the counts of a loop.
func (w *Watch) passesOf(name string) *passCounts {
	p := w.loops[name]
	if p == nil {
		p = new(passCounts)
		w.loops[name] = p
	}
	return p
}

// judgePassTime judges the duration or the lag that a process reports for a pass.
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
			w.recordViolation("%s of %s is reported for its first pass, which can't be late", w.j.table[f].Name, loop)
		case d > since+since/10+clockSlack:
			w.recordViolation("%s of %s is %v, and the pass before began %v ago", w.j.table[f].Name, loop, d, since)
		}
	default:
	}
}

// judgePass judges the report that a loop's pass is finished. A worker restarts its loops in each session.
func (w *Watch) judgePass(loop string) {
	p := w.passesOf(loop)
	w.j.judged++
	if p.measured != p.counted+1 {
		w.recordViolation("%d passes of %s are counted, and %d of them measured", p.counted+1, loop, p.measured)
	}
	if w.samples && p.late != p.counted {
		w.recordViolation("%d passes of %s are counted, and %d lags are reported; each pass but the first needs one", p.counted+1, loop, p.late)
	}
	p.counted++
}
