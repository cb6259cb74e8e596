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

// machineClock is 0: this system has no clock that processes can compare.
func machineClock() time.Duration { return 0 }

var shimStart = time.Now()

func shimClock() time.Duration { return time.Since(shimStart) }

// alarm wakes the shim at a moment on shimClock, or later if the machine sleeps meanwhile.
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

// prepare does nothing: descendants that leave the group are not found on this system.
func prepare() {}

// family is the action's process group.
type family struct {
	leader int
	status syscall.WaitStatus
	reaped bool
}

func (f *family) signal(s syscall.Signal) { _ = syscall.Kill(-f.leader, s) }

// ended reaps the leader. From then until collect, the number could pass to another process; this
// system has no way to wait without reaping.
func (f *family) ended() bool {
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

// collect kills the rest of the group.
func (f *family) collect() (syscall.WaitStatus, error) {
	f.signal(syscall.SIGKILL)
	return f.status, nil
}
