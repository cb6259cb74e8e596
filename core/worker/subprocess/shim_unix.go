//go:build unix

package subprocess

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"handoff/core/worker/rundir"
)

// shimArgument is the first argument of a shim process.
const shimArgument = "action-shim"

// reportsFD is the descriptor of the pipe for a shim's reports.
const reportsFD = 3

// stopSignals lists the signals that request a stop. A shim survives them.
var stopSignals = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT}

// ShimMain runs the shim in a process that was started as one, and never returns there. In any other process
// it returns at once. Main calls it before anything else.
func ShimMain() {
	if len(os.Args) > 1 && os.Args[1] == limitArgument {
		fmt.Fprintln(os.Stderr, "action limits:", limitMain(os.Args[2:]))
		os.Exit(1)
	}
	if len(os.Args) < 2 || os.Args[1] != shimArgument {
		return
	}
	// The kernel ties the action's life to the thread that starts the action, so that thread must not end.
	runtime.LockOSThread()
	if err := shimMain(); err != nil {
		fmt.Fprintln(os.Stderr, "action shim:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// shim is the state of this process, which guards one action.
type shim struct {
	launch  launch
	reports *os.File
	witness *witness
	orders  chan order
	// excess gets the cause when the action exceeds a limit.
	excess chan cause
	// stops receives the stop signals sent to this process. stopped is when the last of them came, on
	// shimClock. The shim continues, but the action may have received the same signal.
	stops   chan os.Signal
	stopped time.Duration
	// children wakes the shim when a process has ended.
	children chan os.Signal
	alarm    *alarm
	family   family

	// The deadlines, on shimClock. fence only moves later, kill only moves earlier, and limit is fixed.
	fence, limit, kill time.Duration

	cause cause
	// asked reports whether SIGTERM was sent, and killed whether SIGKILL was sent.
	asked, killed bool
}

func shimMain() error {
	concealProcess()
	s := &shim{
		reports: os.NewFile(reportsFD, "reports"), orders: make(chan order), children: make(chan os.Signal, 1),
		stops: make(chan os.Signal, 1), excess: make(chan cause, 1), kill: never, stopped: -never,
	}
	// The signals are caught, not ignored, because the action would inherit that they are ignored.
	signal.Notify(s.stops, stopSignals...)
	signal.Notify(s.children, syscall.SIGCHLD)
	control := bufio.NewReader(os.Stdin)
	line, err := control.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no launch on standard input: %w", err)
	}
	if err := json.Unmarshal(line, &s.launch); err != nil {
		return fmt.Errorf("reading the launch: %w", err)
	}
	now := shimClock()
	s.fence = shimDeadline(now, s.launch.At, s.launch.Fence)
	s.limit = shimDeadline(now, s.launch.At, s.launch.Limit)
	go s.readOrders(control)
	if err := s.startAction(); err != nil {
		return s.sendReport(report{Failed: err.Error()})
	}
	s.watchAction()
	if s.launch.Group != "" {
		_ = s.launch.Group.Kill(groupTimeout) // if this fails, reapAll may still kill the processes
	}
	status, err := s.family.reapAll()
	if err != nil {
		return err
	}
	ended := s.describeEnd(status)
	s.witness.writeNote("end", s.family.leader, shimClock(), ended)
	err = s.sendReport(report{Ended: ended})
	s.removeLeftovers()
	return err
}

const (
	// groupTimeout bounds how long a control group may take to die before the shim kills its processes one by
	// one.
	groupTimeout = time.Second
	// tidyTimeout bounds the removal of a run's leftovers by a shim without a worker.
	tidyTimeout = time.Minute
)

// removeLeftovers removes the leftovers of the run if its worker is gone; otherwise the worker removes them.
func (s *shim) removeLeftovers() {
	if s.orders != nil {
		select {
		case _, alive := <-s.orders:
			if alive {
				return
			}
		default:
			return
		}
	}
	if s.launch.Group != "" {
		_ = s.launch.Group.Remove(groupTimeout)
	}
	if s.launch.RunDir == "" {
		return
	}
	// This runs on another thread, because the current one may be in the action's mount namespace.
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = rundir.Remove(s.launch.RunDir, time.Now().Add(tidyTimeout))
	}()
	<-done
}

// readOrders forwards orders until the worker is gone. It ignores invalid orders, which is safe because they
// extend nothing.
func (s *shim) readOrders(control *bufio.Reader) {
	defer close(s.orders)
	for {
		line, err := control.ReadString('\n')
		if err != nil {
			return
		}
		if o, err := parseOrder(line); err == nil {
			s.orders <- o
		}
	}
}

// startAction starts the action, if its worker still has the right to run it.
func (s *shim) startAction() (err error) {
	if s.alarm, err = newAlarm(); err != nil {
		return err
	}
	if s.witness, err = openWitness(s.launch); err != nil {
		return err
	}
	becomeSubreaper()
	if c := s.dueCause(shimClock()); c != "" {
		return fmt.Errorf("not started: %s", c)
	}
	l := &s.launch
	if err := s.startMeasuring(); err != nil {
		return err
	}
	attributes, release, err := l.processAttributes()
	if err != nil {
		return err
	}
	defer release()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	began, argv := shimClock(), l.limitedArgv()
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Dir: l.Dir, Env: l.Environment, Files: []uintptr{read.Fd(), 1, 2}, Sys: attributes,
	})
	_ = read.Close()
	if err != nil {
		return fmt.Errorf("starting %s: %w", l.Argv[0], err)
	}
	// An action that does not read its parameters must not block the shim.
	go func() {
		_, _ = write.Write(l.Parameters)
		_ = write.Close()
	}()
	s.family.leader = pid
	s.witness.writeNote("start", pid, began, nil)
	_ = s.sendReport(report{Started: pid}) // if the worker is gone, the end of the other pipe shows it
	return nil
}

// measureInterval is the interval at which a run's directory is measured. It grows if a measurement takes
// more than a tenth of it.
const measureInterval = time.Second

// startMeasuring starts watching the size of the run's directory. It opens the directory before the action
// could replace it.
func (s *shim) startMeasuring() error {
	if s.launch.RunDir == "" || s.launch.Disk == 0 {
		return nil
	}
	dir, err := os.Open(s.launch.RunDir)
	if err != nil {
		return fmt.Errorf("opening the directory of the run: %w", err)
	}
	go func() {
		pause := measureInterval
		for {
			time.Sleep(pause)
			began := shimClock()
			size, err := rundir.Size(dir, s.launch.Disk)
			switch {
			case errors.Is(err, rundir.ErrTooDeep):
				s.excess <- causeDeep
				return
			case size > s.launch.Disk:
				s.excess <- causeDisk
				return
			}
			pause = max(measureInterval, 10*(shimClock()-began))
		}
	}()
	return nil
}

// watchAction enforces the deadlines and limits, until the action's first process has ended.
func (s *shim) watchAction() {
	for !s.family.hasEnded() {
		if c := s.dueCause(shimClock()); c != "" {
			s.killAction(c)
		}
		if !s.killed {
			s.alarm.set(min(s.fence, s.limit, s.kill))
		}
		select {
		case o, ok := <-s.orders:
			if !ok {
				s.orders = nil
				s.killAction(causeOrphan)
				continue
			}
			s.obeyOrder(o)
		case c := <-s.excess:
			s.killAction(c)
		case <-s.children:
		case <-s.stops:
			s.stopped = shimClock()
		case <-s.alarm.c:
		}
	}
}

// dueCause returns the reason why the action must be killed now; empty if it may live.
func (s *shim) dueCause(now time.Duration) cause {
	switch {
	case now >= s.kill:
		return causeAsked
	case now >= s.limit:
		return causeLimit
	case now >= s.fence:
		return causeFence
	}
	return ""
}

// obeyOrder follows an order. It checks the deadlines first, so as not to extend a fence that has passed.
func (s *shim) obeyOrder(o order) {
	now := shimClock()
	if c := s.dueCause(now); c != "" {
		s.killAction(c)
		return
	}
	at := shimDeadline(now, o.at, o.left)
	switch o.verb {
	case verbFence:
		s.fence = max(s.fence, at)
	case verbFlood:
		s.killAction(causeOutput)
	case verbKill:
		s.kill = min(s.kill, at)
		if now < s.kill && !s.asked {
			s.asked = true
			s.setCause(causeAsked)
			s.family.signalGroup(syscall.SIGTERM)
		}
	}
}

// killAction kills the group. reapAll kills the processes that have left the group.
func (s *shim) killAction(c cause) {
	if s.killed {
		return
	}
	s.killed = true
	s.setCause(c)
	s.family.signalGroup(syscall.SIGKILL)
}

// setCause keeps the first cause.
func (s *shim) setCause(c cause) {
	if s.cause == "" {
		s.cause = c
	}
}

// describeEnd returns how the action ended. If it exited although only SIGKILL was sent, it ended by itself
// before the signal arrived. An exit after SIGTERM counts as obeying it.
func (s *shim) describeEnd(status syscall.WaitStatus) *actionEnd {
	e := &actionEnd{Cause: s.cause}
	if s.cause == "" && s.stoppedTogether(status) {
		e.Cause = causeStopped
	}
	if status.Signaled() {
		e.Signal = status.Signal().String()
		e.OutOfMemory = s.cause == "" && s.launch.Group.OutOfMemory() > 0
		return e
	}
	e.Code = status.ExitStatus()
	if !s.asked && e.Cause != causeStopped {
		e.Cause = ""
	}
	return e
}

const (
	// stopDelay bounds how long the shim waits for the signal that has ended its action, because several
	// processes are signalled one after the other.
	stopDelay = 200 * time.Millisecond
	// stopWindow is how long after such a signal a failure of the action counts as its effect. By default no
	// stop of a machine or service takes longer (systemd: 90 s).
	stopWindow = 90 * time.Second
)

// stoppedTogether reports whether the action ended because of a signal that the shim received, too. This is
// how systemd stops a control group, a machine all its processes, and an operator all processes of a user.
func (s *shim) stoppedTogether(status syscall.WaitStatus) bool {
	var wait <-chan time.Time
	switch {
	case status.Signaled():
		if !slices.Contains(stopSignals, os.Signal(status.Signal())) {
			return false
		}
		wait = time.After(stopDelay)
	case status.ExitStatus() == 0:
		return false
	default:
		wait = time.After(0)
	}
	select {
	case <-s.stops:
		return true
	default:
	}
	if s.stopped >= shimClock()-stopWindow {
		return true
	}
	select {
	case <-s.stops:
		return true
	case <-wait:
		return false
	}
}

// sendReport writes a report. It is not an error if the worker is gone: nothing then needs the report.
func (s *shim) sendReport(r report) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = s.reports.Write(append(line, '\n'))
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// witness is the file that records starts and ends; nil for none.
type witness struct {
	file   io.Writer
	launch launch
}

func openWitness(l launch) (*witness, error) {
	name := os.Getenv("HANDOFF_WITNESS")
	if name == "" || l.Rehearsal {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("opening HANDOFF_WITNESS: %w", err)
	}
	return &witness{file: f, launch: l}, nil
}

// writeNote appends one line in one write, so that O_APPEND does not mix it with other shims' lines. If a
// line can't be written, readers see a start without an end. how is nil for a start.
func (w *witness) writeNote(event string, pid int, at time.Duration, how *actionEnd) {
	if w == nil {
		return
	}
	line, err := json.Marshal(note{
		Event: event, Execution: w.launch.Execution, Epoch: w.launch.Epoch, PID: pid, Mono: int64(at), Wall: time.Now().UnixNano(), How: how,
	})
	if err == nil {
		_, _ = w.file.Write(append(line, '\n'))
	}
}

// note is one line of the witness.
type note struct {
	Event     string     `json:"event"`
	Execution int64      `json:"execution"`
	Epoch     int64      `json:"epoch"`
	PID       int        `json:"pid"`
	Mono      int64      `json:"mono_ns"`
	Wall      int64      `json:"wall_ns"`
	How       *actionEnd `json:"how,omitempty"`
}
