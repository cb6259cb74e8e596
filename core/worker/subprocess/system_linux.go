package subprocess

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const never = time.Duration(math.MaxInt64)

// ownBinary returns a path to this process's binary, even if its file has been replaced meanwhile, because a
// worker must not start a shim of another version.
func ownBinary() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err == nil {
		return self, nil
	}
	return os.Executable()
}

// machineClock reads the clock that all processes of the machine share and that continues while the machine
// is suspended.
func machineClock() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// shimClock reads the clock that a shim's deadlines use.
func shimClock() time.Duration { return machineClock() }

// alarm wakes the shim at a set time on shimClock. The timers of package time stop while the machine is
// suspended, so with these an action would run too long after a suspension.
type alarm struct {
	fd int
	c  chan struct{}
}

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	a := &alarm{fd: fd, c: make(chan struct{}, 1)}
	file := os.NewFile(uintptr(fd), "alarm")
	go func() {
		var expirations [8]byte
		for {
			if _, err := file.Read(expirations[:]); err != nil {
				return
			}
			select {
			case a.c <- struct{}{}:
			default:
			}
		}
	}()
	return a, nil
}

// set replaces the time. If it has passed, the alarm fires at once.
func (a *alarm) set(at time.Duration) {
	// Zero would switch the timer off.
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(1, at)))}
	_ = unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &spec, nil)
}

// becomeSubreaper makes this process adopt every descendant whose parent is gone.
func becomeSubreaper() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// family represents the action's processes: the leader of its group, and every descendant.
type family struct {
	leader int
	// status is the leader's exit status, once the leader is reaped.
	status syscall.WaitStatus
	reaped bool
}

// signalGroup signals the group, and with SIGKILL also a leader that has left the group.
func (f *family) signalGroup(s syscall.Signal) {
	_ = syscall.Kill(-f.leader, s)
	if s == syscall.SIGKILL {
		_ = syscall.Kill(f.leader, s)
	}
}

// hasEnded reports whether the leader has ended. It reaps orphans, but normally not the leader, so that the
// leader's id, which is the group's, is not reused before the group is killed.
func (f *family) hasEnded() bool {
	for {
		if f.reaped || awaitsReaping(unix.P_PID, f.leader) {
			return true
		}
		if !awaitsReaping(unix.P_ALL, 0) {
			return false
		}
		// Some child has ended; when last checked, it was not the leader.
		var status syscall.WaitStatus
		if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); err == nil && pid == f.leader {
			f.status, f.reaped = status, true
		}
	}
}

// awaitsReaping reports whether a selected child has ended and is not reaped yet.
func awaitsReaping(kind, id int) bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(kind, id, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && info.Signo != 0
		}
	}
}

// reapAll kills and reaps every process that is left after the leader's end. When none is left, it
// returns the leader's status.
func (f *family) reapAll() (syscall.WaitStatus, error) {
	f.signalGroup(syscall.SIGKILL)
	for !f.reaped {
		pid, err := waitChild(f.leader, &f.status, 0)
		if err != nil {
			return f.status, os.NewSyscallError("wait4", err)
		}
		f.reaped = pid == f.leader
	}
	for {
		var status syscall.WaitStatus
		pid, err := waitChild(-1, &status, syscall.WNOHANG)
		if errors.Is(err, syscall.ECHILD) {
			return f.status, nil
		}
		if err != nil {
			return f.status, os.NewSyscallError("wait4", err)
		}
		if pid != 0 {
			continue
		}
		// A child's process id is not reused until it is reaped here.
		children, err := childrenOf(os.Getpid())
		if err != nil {
			return f.status, err
		}
		for _, child := range children {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
		if len(children) > 0 {
			_, _ = waitChild(-1, &status, 0)
		}
	}
}

func waitChild(pid int, status *syscall.WaitStatus, options int) (int, error) {
	for {
		n, err := syscall.Wait4(pid, status, options, nil)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// childrenOf lists the processes whose parent is pid.
func childrenOf(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return nil, errors.New("processes that left the action's group can't be found without /proc")
	}
	var children []int
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended meanwhile
		}
		// PID (NAME) STATE PARENT …, where NAME may contain any character.
		rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(pid) {
			continue
		}
		if child, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			children = append(children, child)
		}
	}
	return children, nil
}
