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
	"syscall"
	"time"
)

// shimArgument is the first argument of a process that is a shim.
const shimArgument = "action-shim"

// reportsFD is where a shim finds the pipe for its reports.
const reportsFD = 3

// ShimMain is the shim's entry point. Main calls it before anything else: it returns at once in any
// other process, and never in a shim.
func ShimMain() {
	if len(os.Args) < 2 || os.Args[1] != shimArgument {
		return
	}
	// The kernel ties the action's life to the thread that starts it, so that thread has to stay.
	runtime.LockOSThread()
	if err := shimMain(); err != nil {
		fmt.Fprintln(os.Stderr, "action shim:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// shim is the one action that this process guards.
type shim struct {
	launch  launch
	reports *os.File
	witness *witness
	orders  chan order
	// children wakes the shim when a process has ended.
	children chan os.Signal
	alarm    *alarm
	family   family

	// Deadlines, on shimClock. The fence moves, the kill comes closer, the limit stays.
	fence, limit, kill time.Duration

	cause cause
	// asked says that SIGTERM was sent, killed that SIGKILL was.
	asked, killed bool
}

func shimMain() error {
	syscall.CloseOnExec(reportsFD)
	s := &shim{
		reports: os.NewFile(reportsFD, "reports"), orders: make(chan order), children: make(chan os.Signal, 1), kill: never,
	}
	// Caught and not ignored: an ignored signal would stay ignored in the action.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
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
	s.fence = deadline(now, s.launch.At, s.launch.Fence)
	s.limit = deadline(now, s.launch.At, s.launch.Limit)
	go s.readOrders(control)
	if err := s.start(); err != nil {
		return s.tell(report{Failed: err.Error()})
	}
	s.watch()
	status, err := s.family.collect()
	if err != nil {
		return err
	}
	ended := s.end(status)
	s.witness.write("end", s.family.leader, shimClock(), ended)
	return s.tell(report{Ended: ended})
}

// readOrders hands orders over until the worker is gone. What can't be understood is passed over: it
// extends nothing.
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

// start starts the action, if its worker still has the right to.
func (s *shim) start() (err error) {
	if s.alarm, err = newAlarm(); err != nil {
		return err
	}
	if s.witness, err = openWitness(s.launch); err != nil {
		return err
	}
	prepare()
	if c := s.due(shimClock()); c != "" {
		return fmt.Errorf("not started: %s", c)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	began := shimClock()
	l := &s.launch
	pid, err := syscall.ForkExec(l.Argv[0], l.Argv, &syscall.ProcAttr{
		Dir: l.Dir, Env: l.Environment, Files: []uintptr{read.Fd(), 1, 2}, Sys: actionAttributes(),
	})
	_ = read.Close()
	if err != nil {
		return fmt.Errorf("starting %s: %w", l.Argv[0], err)
	}
	// An action that does not read its parameters holds up nobody.
	go func() {
		_, _ = write.Write(l.Parameters)
		_ = write.Close()
	}()
	s.family.leader = pid
	s.witness.write("start", pid, began, nil)
	_ = s.tell(report{Started: pid}) // a worker that is gone is noticed on the other pipe
	return nil
}

// watch returns when the action's first process has ended, and sees to it that it does in time.
func (s *shim) watch() {
	for !s.family.ended() {
		if c := s.due(shimClock()); c != "" {
			s.destroy(c)
		}
		if !s.killed {
			s.alarm.set(min(s.fence, s.limit, s.kill))
		}
		select {
		case o, ok := <-s.orders:
			if !ok {
				s.orders = nil
				s.destroy(causeOrphan)
				continue
			}
			s.obey(o)
		case <-s.children:
		case <-s.alarm.c:
		}
	}
}

// due is why the action has to be dead now; empty if it may live.
func (s *shim) due(now time.Duration) cause {
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

// obey follows an order. A fence that has passed is not extended: what is due is looked at first, and
// a right that was given up does not come back.
func (s *shim) obey(o order) {
	now := shimClock()
	if c := s.due(now); c != "" {
		s.destroy(c)
		return
	}
	at := deadline(now, o.at, o.left)
	switch o.verb {
	case verbFence:
		s.fence = max(s.fence, at)
	case verbKill:
		s.kill = min(s.kill, at)
		if now < s.kill && !s.asked {
			s.asked = true
			s.because(causeAsked)
			s.family.signal(syscall.SIGTERM)
		}
	}
}

// destroy kills the group. The family's collect kills what has left it.
func (s *shim) destroy(c cause) {
	if s.killed {
		return
	}
	s.killed = true
	s.because(c)
	s.family.signal(syscall.SIGKILL)
}

// because keeps the first cause.
func (s *shim) because(c cause) {
	if s.cause == "" {
		s.cause = c
	}
}

// end tells how the action ended. One that exits although only SIGKILL was sent was faster than the
// signal, and ended by itself; after SIGTERM an exit is how a program obeys.
func (s *shim) end(status syscall.WaitStatus) *end {
	e := &end{Cause: s.cause}
	if status.Signaled() {
		e.Signal = status.Signal().String()
		return e
	}
	e.Code = status.ExitStatus()
	if !s.asked {
		e.Cause = ""
	}
	return e
}

// tell writes a report. That the worker is gone is no error: there is nobody to tell.
func (s *shim) tell(r report) error {
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

// witness is the file in which starts and ends are noted; nil if nobody wants to know.
type witness struct {
	file   io.Writer
	launch launch
}

func openWitness(l launch) (*witness, error) {
	name := os.Getenv("HANDOFF_WITNESS")
	if name == "" {
		return nil, nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return nil, fmt.Errorf("opening HANDOFF_WITNESS: %w", err)
	}
	return &witness{file: f, launch: l}, nil
}

// write appends one line in one write, which O_APPEND keeps whole among those of other shims. What
// can't be written is missing there, and a start without an end counts against nobody but the reader.
// An end says how the action ended.
func (w *witness) write(event string, pid int, at time.Duration, how *end) {
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
	Event     string `json:"event"`
	Execution int64  `json:"execution"`
	Epoch     int64  `json:"epoch"`
	PID       int    `json:"pid"`
	Mono      int64  `json:"mono_ns"`
	Wall      int64  `json:"wall_ns"`
	How       *end   `json:"how,omitempty"`
}
