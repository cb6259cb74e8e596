package kernel

import (
	"maps"
	"slices"
	"time"
)

// A process that goes round in a loop without waiting for anything keeps time from moving: nothing else of the run
// that needs time ever happens. The kernel counts the steps at one moment and, when they are too many, looks for a
// while who makes them.

const (
	// spinLook is from how many steps at one moment on the limit is asked for.
	spinLook = 1 << 14
	// spinSample is how many steps are looked at to say who goes round.
	spinSample = 4096
)

// spin is what has happened at one moment.
type spin struct {
	at    time.Duration
	steps uint64
	// bound is the limit that was exceeded, tasks who has made how many steps since: nil before.
	bound uint64
	tasks map[string]int
}

// spinning says that the limit is exceeded and that it is known who does it.
func (k *Kernel) spinning() bool {
	s := &k.spin
	switch {
	case k.opts.StepsAtOnce == nil:
		return false
	case s.tasks != nil:
		return s.steps >= s.bound+spinSample
	}
	if bound := k.opts.StepsAtOnce(); s.steps > bound {
		s.bound, s.tasks = bound, make(map[string]int)
	}
	return false
}

// Spun says after StopSpin who made most of the steps: the process, and the name of its task. steps were made at
// this moment, and bound is the limit.
func (k *Kernel) Spun() (who string, steps, bound uint64) {
	s := &k.spin
	names := slices.Sorted(maps.Keys(s.tasks))
	for _, name := range names {
		if who == "" || s.tasks[name] > s.tasks[who] {
			who = name
		}
	}
	return who, s.steps, s.bound
}

func spinner(t *Task) string {
	if t == nil {
		return "a timer"
	}
	return t.process.Name() + " (task " + t.name + ")"
}
