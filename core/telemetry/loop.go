package telemetry

import (
	"strings"
	"time"
)

// Loop reports the passes of one periodic loop: their result, duration and lag. Only one task may use it at a
// time. A nil Loop runs passes and reports nothing.
type Loop struct {
	recorder Recorder
	now      func() time.Duration
	label    Labels
	began    time.Duration
	// due is the time at which the next pass should begin; 0 before the first one.
	due time.Duration
	// failing is when the first of the latest consecutive failed passes began; negative if the last pass
	// succeeded.
	failing time.Duration
}

// NewLoop returns the reporter of the named loop; spaces in the name become underscores in the label. now is
// a monotonic clock. It returns nil if the recorder discards figures.
func NewLoop(r Recorder, now func() time.Duration, name string) *Loop {
	if !r.Listens() {
		return nil
	}
	return &Loop{recorder: r, now: now, label: Labels{strings.ReplaceAll(name, " ", "_")}, failing: -1}
}

// Pass runs one pass and returns its error.
func (l *Loop) Pass(pass func() error) error {
	if l == nil {
		return pass()
	}
	l.began = l.now()
	if l.due > 0 {
		l.recorder.Observe(LoopLag, max(0, l.began-l.due), l.label)
	}
	err := pass()
	l.recorder.Observe(LoopSeconds, l.now()-l.began, l.label)
	result := "ok"
	switch {
	case err == nil:
		l.failing = -1
	case l.failing < 0:
		l.failing = l.began
		result = "failed"
	default:
		result = "failed"
	}
	l.recorder.Add(LoopRuns, 1, Labels{l.label[0], result})
	failed := time.Duration(0)
	if l.failing >= 0 {
		failed = l.now() - l.failing
	}
	l.recorder.Set(LoopFailing, int64(failed), l.label)
	return err
}

// Interval sets the time from the beginning of the last pass to the next one. A pass that a hint starts
// earlier has no lag.
func (l *Loop) Interval(d time.Duration) {
	if l != nil {
		l.due = l.began + d
	}
}
