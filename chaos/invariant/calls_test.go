package invariant

import (
	"strings"
	"testing"
	"time"

	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
)

// Each story is lawful up to its last call, which breaks the given invariant.
func TestUnlawfulWorkerCallBreaksInvariant(t *testing.T) {
	key := execution.Key{ID: 7, Epoch: 1}
	c := config.Default(config.Hardened)
	lease := oracle.Lease(&c.Worker)
	fence := lease - c.Worker.FenceMargin + c.Worker.KillGrace
	applied, failed := Answer{Applied: true}, Answer{Failed: true, Wrong: true}
	claimed := func(k *Calls) {
		k.Claims(time.Second, key)
		k.Claimed(time.Second, key, applied, time.Minute)
	}
	for _, story := range []struct {
		name   string
		number int
		lawful func(k *Calls)
		breaks func(k *Calls)
	}{
		{"an old fence", 4, func(k *Calls) {
			k.Fences(key, fence)
			k.Renewed(6*time.Second, 5*time.Second)
			k.Fences(key, fence+5*time.Second)
		}, func(k *Calls) { k.Fences(key, fence) }},
		{"a claim during a drain", 10, func(k *Calls) {
			k.s.now.At = time.Second
			claimed(k)
			k.Drains()
			k.s.now.At = 2 * time.Second
			k.Claims(2*time.Second, key)
		}, func(k *Calls) { k.Claims(2*time.Second, execution.Key{ID: 8, Epoch: 1}) }},
		{"a reason that it did not have", 13, func(k *Calls) {
			claimed(k)
			k.Starts(key)
			k.Told(key, true)
			k.Finishes(2*time.Second, End{key, execution.Failed, execution.WorkerLost}, "")
		}, func(k *Calls) { k.Keeps(3*time.Second, End{key, execution.Failed, execution.Unroutable}, "") }},
		{"a result that waits too long", 13, func(k *Calls) {
			claimed(k)
			k.Exited(2*time.Second, key, execution.Completed, execution.NoReason)
			k.Finishes(2*time.Second+oracle.ResultWindow, End{key, execution.Completed, execution.NoReason}, "")
			k.Finished(3*time.Second, End{key, execution.Completed, execution.NoReason}, applied)
			claimed(k)
			k.Exited(4*time.Second, key, execution.Completed, execution.NoReason)
		}, func(k *Calls) {
			k.Finishes(4*time.Second+oracle.ResultWindow+2*sameMoment, End{key, execution.Completed, execution.NoReason}, "")
		}},
		{"a result that waits behind the fence", 13, func(k *Calls) {
			claimed(k)
			k.Exited(k.fenceTime()-oracle.ResultWindow/2, key, execution.Completed, execution.NoReason)
		}, func(k *Calls) {
			k.Finishes(k.fenceTime()+oracle.ResultWindow/2, End{key, execution.Completed, execution.NoReason}, "")
		}},
		{"a run that took longer", 15, func(k *Calls) {
			k.Reports(time.Second, RunFigures{})
			claimed(k)
			k.Exited(4*time.Second, key, execution.Completed, execution.NoReason)
			k.Finishes(4*time.Second, End{key, execution.Completed, execution.NoReason}, "")
			k.Finished(4*time.Second, End{key, execution.Completed, execution.NoReason}, applied)
			k.Reports(5*time.Second, RunFigures{Total: 1, Average: 3 * time.Second})
		}, func(k *Calls) { k.Reports(6*time.Second, RunFigures{Total: 1, Average: 4 * time.Second}) }},
		{"a query too soon", 18, func(k *Calls) {
			k.LooksBehind(time.Second)
			k.LookedBehind(time.Second)
			k.LooksBehind(2 * time.Second)
			k.LookedBehind(2 * time.Second)
		}, func(k *Calls) { k.LooksBehind(2500 * time.Millisecond) }},
		{"a query too late", 18, func(k *Calls) {
			k.s.roads.roadOf("shell-1").up = true
			for range fruitless {
				k.Wastes(time.Second)
			}
			k.judgeNextQuestion(time.Second + callsTime)
		}, func(k *Calls) { k.judgeNextQuestion(time.Second + 2*callsTime) }},
		{"the same call repeated at once", 23, func(k *Calls) {
			k.Claims(time.Second, key)
			k.Claimed(time.Second, key, Answer{Failed: true, Unknown: true}, time.Minute)
			k.Claims(1050*time.Millisecond, key)
			k.Claimed(1050*time.Millisecond, key, failed, time.Minute)
		}, func(k *Calls) { k.Claims(1060*time.Millisecond, key) }},
	} {
		s := New(c, nil)
		k := s.Calls("shell-1", 4)
		k.Registered(0)
		story.lawful(k)
		if f := s.Findings(); len(f) > 0 {
			t.Errorf("%s: the lawful part of the story has the finding %v", story.name, f[0].Message)
			continue
		}
		story.breaks(k)
		f := s.Findings()
		if len(f) != 1 || f[0].Invariant.Number != story.number || !strings.HasPrefix(f[0].Message, "shell-1 ") {
			t.Errorf("%s: findings %v, want one of invariant %d", story.name, f, story.number)
		}
	}
}
