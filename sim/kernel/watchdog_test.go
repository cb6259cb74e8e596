package kernel

import (
	"strings"
	"testing"
	"time"
)

func TestWatchdogFindsBlockedTask(t *testing.T) {
	release := make(chan struct{})
	reports := make(chan string, 10)
	k := New(Options{})
	defer k.Close()
	wd := NewWatchdog(50*time.Millisecond, func(stuck *Kernel, stacks []byte) {
		if stuck != k {
			t.Error("another kernel is reported")
		}
		reports <- string(stacks)
		close(release)
	})
	defer wd.Close()
	defer wd.Watch(k)()
	k.NewProcess("p").Go("main", func() { blockOutside(release) })
	if stop := k.Run(nil, time.Hour); stop != StopIdle {
		t.Errorf("Run = %v", stop)
	}
	if stacks := <-reports; !strings.Contains(stacks, "blockOutside") {
		t.Errorf("the stacks do not show the culprit:\n%s", stacks)
	}
}

func blockOutside(release chan struct{}) { <-release }

// The test passes made-up times to the watchdog, so that it can't fail on a busy machine.
func TestWatchdogReportsOnlyMissingProgress(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	wd := NewWatchdog(time.Hour, func(*Kernel, []byte) {})
	defer wd.Close()
	stop := wd.Watch(k)
	at := time.Now()
	stuckAfter := func(d time.Duration) bool {
		at = at.Add(d)
		return len(wd.stuckKernels(at)) == 1
	}
	if stuckAfter(3 * time.Hour) {
		t.Error("a kernel that does not run is reported")
	}
	k.NewProcess("p").Go("main", func() {
		stuckAfter(0)
		for range 200 {
			k.Yield()
			if k.Step()%64 == 0 && stuckAfter(2*time.Hour) {
				t.Errorf("reported at step %d, in spite of progress", k.Step())
			}
		}
		if stuckAfter(59*time.Minute) || !stuckAfter(time.Minute) || stuckAfter(time.Hour) {
			t.Error("a task that stands still is to be reported once, after the limit")
		}
	})
	k.Run(nil, time.Second)
	stop()
	if stuckAfter(5 * time.Hour) {
		t.Error("reported after the end of the watch")
	}
}
