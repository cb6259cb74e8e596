package brokertest

import (
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// StepsVariable sets how many commands of random sequences are compared.
const StepsVariable = "HANDOFF_CONFORMANCE_STEPS"

// SeedVariable sets the first sequence; a failure names the one to begin with.
const SeedVariable = "HANDOFF_CONFORMANCE_SEED"

// ParallelVariable sets how many sequences are compared at a time: fewer on a busy machine.
const ParallelVariable = "HANDOFF_CONFORMANCE_PARALLEL"

func envSetting(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("%s is %q, not a number", variable, text)
	}
	return n
}

// subjectPair are the two compared subjects.
type subjectPair struct{ reference, subject WithSubject }

// verdict is the result of one sequence: an empty difference means agreement.
type verdict struct {
	difference string
	deliveries int
	tooLate    bool
}

// compareSequence runs a sequence on both, pace times slower than the subject's own times.
func (sp subjectPair) compareSequence(t *testing.T, seq sequence, pace int) verdict {
	t.Helper()
	var slot Subject
	sp.subject(t, func(s Subject) { slot = s })
	var want, got []observation
	sp.reference(t, func(s Subject) {
		// Both keep the same time, that of the slower one.
		s.Slot = slot.Slot
		want, _ = playSequence(t, &s, seq, pace, nil)
	})
	inTime := false
	sp.subject(t, func(s Subject) { got, inTime = playSequence(t, &s, seq, pace, want) })
	v := verdict{difference: firstDifference(seq, want, got), tooLate: !inTime}
	for _, o := range want {
		v.deliveries += o.deliveries
	}
	return v
}

// paces are the factors by which a sequence is slowed down after it disagreed or was too late. A
// slow sequence hardly suffers from a busy machine, and a real difference remains.
var paces = []int{1, 3, 8}

// slowest is the last pace of a sequence that differs although nothing in it expires.
const slowest = 32

// compareAtPaces runs a sequence until it agrees, or has disagreed at every pace.
func (sp subjectPair) compareAtPaces(t *testing.T, seq sequence) (v verdict, tries int) {
	t.Helper()
	all := paces
	if !seq.mortal {
		all = append(slices.Clone(paces), slowest)
	}
	for _, pace := range all {
		v = sp.compareSequence(t, seq, pace)
		tries++
		if v.difference == "" && !v.tooLate {
			break
		}
	}
	return v, tries
}

// shrinkFor bounds the time in which a difference is shrunk.
const shrinkFor = time.Minute

// shrinkDifference leaves out commands that the difference does not need, within the time.
func (sp subjectPair) shrinkDifference(t *testing.T, seq sequence, v verdict) (sequence, verdict) {
	t.Helper()
	end := time.Now().Add(shrinkFor)
	for size := len(seq.commands) / 2; size > 0; size /= 2 {
		for from := 0; from < len(seq.commands) && time.Now().Before(end); {
			less := seq.withoutCommands(from, size)
			if w := sp.compareSequence(t, less, paces[1]); w.difference != "" && !w.tooLate {
				seq, v = less, w
			} else {
				from += size
			}
		}
	}
	return seq, v
}

// Sequences compares random command sequences on a reference and a subject, atOnce at a time, until
// that many commands were run. StepsVariable and ParallelVariable override both numbers. It returns
// how many commands there were.
func Sequences(t *testing.T, reference, subject WithSubject, steps, atOnce int) int {
	t.Helper()
	steps, atOnce = envSetting(t, StepsVariable, steps), max(1, envSetting(t, ParallelVariable, atOnce))
	first := uint64(envSetting(t, SeedVariable, 1)) //nolint:gosec // not negative
	a := subjectPair{reference, subject}
	canDelete, busy := false, false
	subject(t, func(s Subject) { canDelete, busy = s.DeleteQueue != nil, s.Busy })
	var all []sequence
	planned := 0
	for seed := first; planned < steps; seed++ {
		all = append(all, drawSequence(seed, canDelete))
		planned += len(all[len(all)-1].commands)
	}
	var calm, hasty []sequence
	for _, seq := range all {
		if seq.mortal {
			hasty = append(hasty, seq)
		} else {
			calm = append(calm, seq)
		}
	}
	c := &comparison{subjectPair: a, t: t}
	// A difference found among many sequences is judged again with fewer at a time. On a busy machine the
	// broker may move a dead letter so late that another event comes first. In mortal sequences messages
	// expire by the clock, so these sequences must keep time from the start.
	few := max(1, atOnce/16)
	differing := c.compareAll(calm, atOnce, false)
	unjudged := len(c.compareAll(differing, few, true)) + len(c.compareAll(c.compareAll(hasty, max(1, atOnce/4), false), few, true))
	t.Logf("%d commands in %d sequences, %d deliveries; %d runs repeated more slowly, %d sequences left unjudged for lack of time",
		planned, len(all), c.deliveries, c.again, unjudged)
	if unjudged > len(all)/10 && !busy {
		t.Errorf("%d of %d sequences could not be judged: the machine is too busy", unjudged, len(all))
	}
	return planned
}

// comparison is the result of all sequences.
type comparison struct {
	subjectPair
	t *testing.T

	mu                        sync.Mutex
	deliveries, again, failed int
}

// compareAll compares sequences, atOnce at a time, and returns those that could not keep their time.
// Unless this run is final, it also returns those that differ, because the delays of a busy machine
// look like differences.
func (c *comparison) compareAll(all []sequence, atOnce int, final bool) (late []sequence) {
	c.t.Helper()
	atATime(atOnce, len(all), func(i int) {
		c.mu.Lock()
		enough := c.failed >= 3
		c.mu.Unlock()
		if enough {
			return
		}
		v, tries := c.compareAtPaces(c.t, all[i])
		c.mu.Lock()
		c.deliveries += v.deliveries
		c.again += tries - 1
		again := v.tooLate || v.difference != "" && !final
		if again {
			late = append(late, all[i])
		} else if v.difference != "" {
			c.failed++
		}
		c.mu.Unlock()
		if again || v.difference == "" {
			return
		}
		less, w := c.shrinkDifference(c.t, all[i], v)
		c.t.Errorf("%v\ndiffers at %s\n(%s=%d begins with it)", less, w.difference, SeedVariable, all[i].seed)
	})
	return late
}
