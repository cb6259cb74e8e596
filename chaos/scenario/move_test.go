package scenario

import (
	"strings"
	"testing"
	"time"
)

const movable = `name: moved
about: x
cluster:
  executors: 2
  workers: {shell-1: {runtimes: [shell]}, shell-2: {runtimes: [shell]}}
actions:
  a.b: {runtime: shell, takes: 1s}
workload:
  - {action: a.b, count: 5, every: 1s}
faults:
  # The first one.
  - {when: {between: [1s, 3s]}, pause: shell-1, for: 2s} # ä
  - {when: {after: scheduled, of: shell-1, nth: 3}, stop: shell-1, restart_after: 5s}
  - when:
      at: 2s
    pause: shell-2
    for: {uniform: [1s, 2s]}
  - {pause: shell-2, "for": 1s, when: {at: 4s}}
expect: {invariants: all}
`

func TestMoveFaultEditsInPlace(t *testing.T) {
	for _, c := range []struct {
		i         int
		at, lasts time.Duration
		old, now  string
	}{
		{0, 2500 * time.Millisecond, Unmoved, "when: {between: [1s, 3s]}, pause: shell-1, for: 2s} # ä", "when: {at: 2.5s}, pause: shell-1, for: 2s} # ä"},
		{0, Unmoved, 3 * time.Second, "for: 2s} # ä", "for: 3s} # ä"},
		{0, 0, time.Minute, "{when: {between: [1s, 3s]}, pause: shell-1, for: 2s}", "{when: {at: 0s}, pause: shell-1, for: 1m}"},
		{1, time.Second, 7 * time.Second, "{when: {after: scheduled, of: shell-1, nth: 3}, stop: shell-1, restart_after: 5s}", "{when: {at: 1s}, stop: shell-1, restart_after: 7s}"},
		{2, Unmoved, time.Second, "for: {uniform: [1s, 2s]}", "for: 1s"},
		{3, 5 * time.Second, 2 * time.Second, `"for": 1s, when: {at: 4s}`, `"for": 2s, when: {at: 5s}`},
	} {
		got, err := MoveFault("moved.yaml", []byte(movable), c.i, c.at, c.lasts)
		if want := strings.Replace(movable, c.old, c.now, 1); err != nil || string(got) != want {
			t.Errorf("fault %d to %v for %v: %v\n%s", c.i, c.at, c.lasts, err, got)
		}
	}
}

// If a value can't be replaced in place, the whole file is rewritten.
func TestMoveFaultRewritesBlockStyle(t *testing.T) {
	got, err := MoveFault("moved.yaml", []byte(movable), 2, 3*time.Second, 4*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse("moved.yaml", got)
	if err != nil {
		t.Fatal(err)
	}
	if f := s.Faults[2]; f.When.Min != 3*time.Second || f.When.Max != 3*time.Second || f.For != 4*time.Second || f.ForMin != 0 {
		t.Errorf("%+v\n%s", f, got)
	}
	for _, i := range []int{-1, 4} {
		if _, err := MoveFault("moved.yaml", []byte(movable), i, 0, Unmoved); err == nil {
			t.Errorf("there is no fault %d", i)
		}
	}
}
