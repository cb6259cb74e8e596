package scenario

import (
	"strings"
	"testing"
	"time"

	"handoff/core/config"
)

const drawnFile = head + `
profile: hardened
faults:
  - { when: {at: 6s}, pause: shell-1, for: {log_uniform: [1s, 1h]} }
  - { when: {at: 6s}, partition: {cut: shell-2, from: [broker], for: {uniform: [2s, 4s]}} }
  - { when: {at: 6s}, crash: shell-1, restart_after: {log_uniform: [10s, 2h]} }
  - { when: {at: 6s}, pause: shell-2, for: {log_uniform: [5s, 5s]} }
`

// endDrawer always draws the same bound of a range, and records its calls.
type endDrawer struct {
	most  bool
	draws []string
}

func (e *endDrawer) drawEnd(how string, lo, hi time.Duration) time.Duration {
	e.draws = append(e.draws, how)
	if e.most {
		return hi
	}
	return lo
}

func (e *endDrawer) Duration(lo, hi time.Duration) time.Duration { return e.drawEnd("uniform", lo, hi) }

func (e *endDrawer) LogDuration(lo, hi time.Duration) time.Duration {
	return e.drawEnd("log_uniform", lo, hi)
}

func TestFaultDurationsAreDrawn(t *testing.T) {
	s := parseScenario(t, drawnFile)
	shortest, longest := &endDrawer{}, &endDrawer{most: true}
	for i, want := range [][2]time.Duration{{time.Second, time.Hour}, {2 * time.Second, 4 * time.Second}, {10 * time.Second, 2 * time.Hour}, {5 * time.Second, 5 * time.Second}} {
		f := &s.Faults[i]
		low, high := f.Drawn(shortest), f.Drawn(longest)
		if got := [2]time.Duration{low.For + low.RestartAfter, high.For + high.RestartAfter}; got != want {
			t.Errorf("%s is drawn from %v, want %v", f.Name, got, want)
		}
		if f.For+f.RestartAfter != want[1] {
			t.Errorf("%s lasts at most %v, want %v: bounds are computed from it", f.Name, f.For+f.RestartAfter, want[1])
		}
		if again := high.Drawn(shortest); again.For != high.For || again.RestartAfter != high.RestartAfter {
			t.Errorf("%s was drawn twice", f.Name)
		}
	}
	if got := strings.Join(longest.draws, " "); got != "log_uniform uniform log_uniform" {
		t.Errorf("drew %s; fixed durations must not be drawn", got)
	}
}

func TestActionsAndCancelsAreDrawnLogUniformly(t *testing.T) {
	s := parseScenario(t, strings.Replace(head, "takes: {uniform: [50ms, 2s]}", "takes: {log_uniform: [50ms, 2h]}, timeout: 3h", 1)+
		"  - {cancel: {action: core.echo, after: {log_uniform: [1ms, 1h]}}}\n")
	if a := s.Actions[0]; !a.TakesLog || a.TakesMin != 50*time.Millisecond || a.TakesMax != 2*time.Hour {
		t.Errorf("the action takes %v to %v, log-uniform %v", a.TakesMin, a.TakesMax, a.TakesLog)
	}
	if c := s.Cancels[0]; !c.AfterLog || c.AfterMin != time.Millisecond || c.AfterMax != time.Hour {
		t.Errorf("the cancellation comes after %v to %v, log-uniform %v", c.AfterMin, c.AfterMax, c.AfterLog)
	}
}

func TestBothDrawBoundsAreScaled(t *testing.T) {
	s := parseScenario(t, drawnFile)
	scaled, err := s.Scaled(0.5, config.Hardened)
	if err != nil {
		t.Fatal(err)
	}
	f := scaled.Faults[0]
	if f.ForMin != 500*time.Millisecond || f.For != 30*time.Minute || !f.ForLog {
		t.Errorf("1s to 1h at half the time is %v to %v, log-uniform %v", f.ForMin, f.For, f.ForLog)
	}
}

// An edit replaces a drawn duration with a fixed duration, both inside the kind's mapping and next to it.
func TestEditFixesDrawnDurations(t *testing.T) {
	s := parseScenario(t, drawnFile)
	d, err := Edit(s)
	if err != nil {
		t.Fatal(err)
	}
	d.SetFor(0, 3*time.Second)
	d.SetFor(1, 2500*time.Millisecond)
	d.SetTakes("core.echo", time.Second)
	edited, err := d.Parse("edited.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := edited.Faults[0], edited.Faults[1]; a.For != 3*time.Second || a.ForMin != 0 || b.For != 2500*time.Millisecond || b.ForMin != 0 {
		t.Errorf("after the edit the faults last %v to %v and %v to %v", a.ForMin, a.For, b.ForMin, b.For)
	}
}
