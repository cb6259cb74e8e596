package live

import (
	"time"

	"handoff/chaos/run"
)

// clock is real time as the runner wants it, counted from when the cluster was up.
type clock struct{ w *world }

var _ run.Clock = clock{}

func (w *world) clock() clock { return clock{w} }

// Now implements run.Clock.
func (c clock) Now() time.Duration { return c.w.now() - c.w.ready }

// After implements run.Clock. It calls f in a goroutine of its own.
func (c clock) After(d time.Duration, f func()) { c.w.after(d, f) }
