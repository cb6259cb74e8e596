//go:build unix && !linux

package subprocess

import (
	"errors"
	"math"
	"os"
	"syscall"
	"time"
)

const never = time.Duration(math.MaxInt64)

func ownBinary() (string, error) { return os.Executable() }

// machineClock returns 0: this system has no clock that processes can compare.
func machineClock() time.Duration { return 0 }

var shimStart = time.Now()

func shimClock() time.Duration { return time.Since(shimStart) }

// alarm wakes the shim at a set time on shimClock, or later if the machine sleeps meanwhile.
type alarm struct {
	c     chan struct{}
	timer *time.Timer
}

func newAlarm() (*alarm, error) { return &alarm{c: make(chan struct{}, 1)}, nil }

func (a *alarm) set(at time.Duration) {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.timer = time.AfterFunc(at-shimClock(), func() {
		select {
		case a.c <- struct{}{}:
		default:
		}
	})
}

// becomeSubreaper does nothing: this system can't find descendants that leave the group.
func becomeSubreaper() {}

// family is the action's process group.
type family struct {
	leader int
	status syscall.WaitStatus
	reaped bool
}

func (f *family) signalGroup(s syscall.Signal) { _ = syscall.Kill(-f.leader, s) }

// hasEnded reaps the leader. From then until reapAll, the process id could be reused; this system can't wait
// without reaping.
func (f *family) hasEnded() bool {
	for !f.reaped {
		pid, err := syscall.Wait4(f.leader, &f.status, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		f.reaped = err != nil || pid == f.leader
		break
	}
	return f.reaped
}

// reapAll kills the rest of the group.
func (f *family) reapAll() (syscall.WaitStatus, error) {
	f.signalGroup(syscall.SIGKILL)
	return f.status, nil
}
