package kernel

import (
	"maps"
	"slices"
	"time"
)

// A task that loops without waiting stops virtual time, so nothing that needs time ever happens. The kernel
// counts the steps at the same virtual time. If there are too many, it samples which task makes them.

const (
	// spinLook is the number of steps at the same virtual time after which the kernel first reads the limit.
	// Nearly always there are far fewer steps, so the check costs nothing.
	spinLook = 1 << 14
	// spinSample is how many steps the kernel samples to find the spinning task.
	spinSample = 4096
)

// spinCount counts the steps at the current virtual time.
type spinCount struct {
	at    time.Duration
	steps uint64
	// bound is the limit that was exceeded. tasks counts the steps of each task since then, and is nil
	// before.
	bound uint64
	tasks map[string]int
}

// isSpinning reports whether the limit is exceeded and the sample is complete.
func (k *Kernel) isSpinning() bool {
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

// Spun returns, after StopSpin, who made most of the sampled steps: a process and its task, or "a timer".
// steps is the number of steps at this virtual time, and bound the limit.
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

func spinnerName(t *Task) string {
	if t == nil {
		return "a timer"
	}
	return t.process.Name() + " (task " + t.name + ")"
}
