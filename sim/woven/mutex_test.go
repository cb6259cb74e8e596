//go:build preempt

package woven

import (
	"context"
	"slices"
	"testing"
	"time"

	"handoff/sim/kernel"
)

// world runs the tasks of one process in a kernel, with a given seed, until all have ended.
func world(t *testing.T, seed uint64, tasks ...func(k *kernel.Kernel)) *kernel.Kernel {
	t.Helper()
	k := kernel.New(kernel.Options{Chooser: kernel.NewRandom(seed)})
	end := Begin(k)
	t.Cleanup(end)
	t.Cleanup(k.Close)
	p := k.NewProcess("p")
	for _, run := range tasks {
		p.Go("task", func() { run(k) })
	}
	k.Run(nil, time.Hour)
	return k
}

func TestMutexGoesToLongestWaiter(t *testing.T) {
	var m Mutex
	var order []int
	hold := func(n int) func(*kernel.Kernel) {
		return func(k *kernel.Kernel) {
			_, _ = k.NewWait().AwaitFor(context.Background(), time.Duration(n)*time.Millisecond)
			m.Lock()
			order = append(order, n)
			_, _ = k.NewWait().AwaitFor(context.Background(), 10*time.Millisecond)
			order = append(order, n)
			m.Unlock()
		}
	}
	world(t, 1, hold(3), hold(1), hold(2))
	if want := []int{1, 1, 2, 2, 3, 3}; !slices.Equal(order, want) {
		t.Errorf("the order of critical sections is %v, want %v", order, want)
	}
}

func TestUnlockOfUnlockedMutexPanics(t *testing.T) {
	var m Mutex
	if k := world(t, 1, func(*kernel.Kernel) { m.Unlock() }); k.Failure() == nil {
		t.Error("unlocking an unlocked mutex does not panic")
	}
}

func TestOwnerCrashSuppressesUnlock(t *testing.T) {
	var m Mutex
	k := world(t, 1, func(k *kernel.Kernel) {
		m.Lock()
		defer m.Unlock()
		k.Current().Process().Crash()
	})
	if k.Failure() != nil {
		t.Errorf("%v", k.Failure())
	}
}

func TestPreemptionLosesUnlockedUpdate(t *testing.T) {
	for seed := uint64(1); seed <= 100; seed++ {
		n := 0
		add := func(*kernel.Kernel) {
			read := n
			Point(0, 0)
			n = read + 1
		}
		lost := false
		t.Run("", func(t *testing.T) {
			world(t, seed, add, add)
			lost = n == 1
		})
		if lost {
			return
		}
	}
	t.Error("two tasks that add one to a number without a lock came to 2 under 100 seeds")
}
