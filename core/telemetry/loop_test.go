package telemetry

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

type storyRecorder struct {
	Discard
	text string
}

func (*storyRecorder) Listens() bool { return true }

func (s *storyRecorder) Add(f Figure, _ int64, l Labels) {
	s.text += fmt.Sprint(Table()[f].Name, l[0], "/", l[1], " ")
}

func (s *storyRecorder) Observe(f Figure, d time.Duration, l Labels) {
	s.text += fmt.Sprint(Table()[f].Name, l[0], "=", d, " ")
}

func TestLoopReportsPassesAndLag(t *testing.T) {
	now := time.Hour
	var s storyRecorder
	loop := NewLoop(&s, func() time.Duration { return now }, "lease monitor")
	pass := func(at, takes time.Duration, err error, want string) {
		t.Helper()
		now = at
		s.text = ""
		got := loop.Pass(func() error {
			now += takes
			return err
		})
		if !errors.Is(got, err) || s.text != want {
			t.Errorf("%v: %s, %v", at, s.text, got)
		}
		loop.Interval(5 * time.Second)
	}
	const seconds, runs, lag = "handoff_loop_duration_secondslease_monitor=", "handoff_loop_runs_totallease_monitor/", "handoff_loop_lag_secondslease_monitor="
	pass(time.Hour, time.Second, nil, seconds+"1s "+runs+"ok ")
	pass(time.Hour+5*time.Second, 0, errors.ErrUnsupported, lag+"0s "+seconds+"0s "+runs+"failed ")
	pass(time.Hour+17*time.Second, 0, nil, lag+"7s "+seconds+"0s "+runs+"ok ")
	pass(time.Hour+18*time.Second, 0, nil, lag+"0s "+seconds+"0s "+runs+"ok ")
}

func TestNilLoopRunsPasses(t *testing.T) {
	loop := NewLoop(Discard{}, nil, "x")
	if err := loop.Pass(func() error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	loop.Interval(time.Second)
}
