package figures

import (
	"time"

	"handoff/core/telemetry"
)

// passes is what a process has told of the passes of one of its loops. A pass tells how late it began, then how long it
// took, and then that it was.
type passes struct {
	counted, measured, late int64
	// began is when the last pass began.
	began time.Duration
}

// loop returns what is known of a loop.
func (w *Watch) loop(name string) *passes {
	p := w.loops[name]
	if p == nil {
		p = new(passes)
		w.loops[name] = p
	}
	return p
}

// measures notes what a process measures of a pass, and judges it.
func (w *Watch) measures(f telemetry.Figure, d time.Duration, loop string) {
	now, p := w.j.now(), w.loop(loop)
	switch f {
	case telemetry.LoopSeconds:
		p.measured++
		p.began = now - d
	case telemetry.LoopLag:
		p.late++
		w.j.judged++
		switch since := now - p.began; {
		case p.counted == 0:
			w.violate("%s of %s is told of its first pass, which can't be late", w.j.table[f].Name, loop)
		case d > since+since/10+clockSlack:
			w.violate("%s of %s is %v, and the pass before began %v ago", w.j.table[f].Name, loop, d, since)
		}
	default:
	}
}

// counts judges a pass of a loop that has come to its end. A worker's loops begin anew with each of its sessions.
func (w *Watch) counts(loop string) {
	p := w.loop(loop)
	w.j.judged++
	if p.measured != p.counted+1 {
		w.violate("%d passes of %s are counted, and %d of them measured", p.counted+1, loop, p.measured)
	}
	if w.samples && p.late != p.counted {
		w.violate("%d passes of %s are counted, and of %d it was told how late they were: of all but the first", p.counted+1, loop, p.late)
	}
	p.counted++
}
