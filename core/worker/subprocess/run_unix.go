//go:build unix

package subprocess

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/worker"
)

const (
	// startTimeout bounds how long a shim may take to report that its action has started.
	startTimeout = 15 * time.Second
	// orderTimeout bounds how long a caller waits for a full pipe: the heartbeat must not wait for a stuck
	// shim.
	orderTimeout = 20 * time.Millisecond
	// answerTimeout is how long after its end was due an action may still seem alive. After that the shim
	// counts as broken, and the worker kills both.
	answerTimeout = 3 * time.Second
	// drainTimeout is how long the worker continues to read output after all writers should be dead.
	drainTimeout = time.Second
)

// unsupportedError returns why actions can't run on this system; nil if they can.
func unsupportedError() error { return nil }

// action is one action under its shim, seen from the worker.
type action struct {
	host           host.Host
	shim           *exec.Cmd
	control        *os.File
	reports        *os.File
	stdout, stderr *os.File
	out, err       tail
	retried        execution.ExitCodes

	// begun is closed when the action has started. done is closed when the action and its shim are gone.
	begun, done chan struct{}
	// exit and failure are set before done is closed. A failure means that nothing was started.
	exit    worker.Exit
	failure error

	mu sync.Mutex
	// group is the action's process group; 0 before it is known and after it is gone.
	group     int
	over      bool
	destroyed bool
	// backstops holds the timers of killWithShimAfter.
	backstops []*time.Timer
	// tidy releases what furnishRun gave the run.
	tidy func()
}

// launchAction starts a shim and makes it start the action.
func (r *Runner) launchAction(ctx context.Context, l launch) (worker.Run, error) {
	if err := r.furnishRun(&l); err != nil {
		return nil, err
	}
	line, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	a, err := r.spawnShim(l)
	if err != nil {
		r.tidyRun(l)
		return nil, fmt.Errorf("starting the action's shim: %w", err)
	}
	a.tidy = func() { r.tidyRun(l) }
	go a.superviseShim()
	bound, cancel := context.WithTimeout(ctx, min(startTimeout, l.Fence))
	defer cancel()
	stop := context.AfterFunc(bound, a.abandonShim)
	defer stop() // runs before cancel, which would otherwise abandon a started action
	if _, err := a.control.Write(append(line, '\n')); err != nil {
		a.abandonShim()
	}
	select {
	case <-a.begun:
		return a, nil
	case <-a.done:
		if a.failure != nil {
			return nil, a.failure
		}
		return a, nil
	}
}

// spawnShim starts the shim and connects its pipes.
func (r *Runner) spawnShim(l launch) (a *action, err error) {
	var ends [4][2]*os.File // control, reports, standard output, standard error
	defer func() {
		for _, e := range ends {
			if err != nil && e[0] != nil {
				_ = e[0].Close()
				_ = e[1].Close()
			}
		}
	}()
	for i := range ends {
		if ends[i][0], ends[i][1], err = os.Pipe(); err != nil {
			return nil, err
		}
	}
	self, err := ownBinary()
	if err != nil {
		return nil, err
	}
	a = &action{
		host: r.options.Host, control: ends[0][1], reports: ends[1][0], stdout: ends[2][0], stderr: ends[3][0],
		begun: make(chan struct{}), done: make(chan struct{}), retried: l.retried,
	}
	a.out = tail{limit: r.options.OutputLimit, most: r.options.Isolation.OutputBytes, flooded: a.endFlooding}
	a.err = tail{limit: r.options.OutputLimit, most: r.options.Isolation.OutputBytes, flooded: a.endFlooding}
	a.shim = &exec.Cmd{
		Path: self, Args: []string{os.Args[0], shimArgument, fmt.Sprintf("%d.%d", l.Execution, l.Epoch)},
		Env:   shimEnvironment(os.Environ()),
		Stdin: ends[0][0], Stdout: ends[2][1], Stderr: ends[3][1], ExtraFiles: []*os.File{ends[1][1]},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	release, err := r.useGuardGroup(a.shim.SysProcAttr)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := startShim(a.shim); err != nil {
		return nil, err
	}
	for _, theirs := range []*os.File{ends[0][0], ends[1][1], ends[2][1], ends[3][1]} {
		_ = theirs.Close()
	}
	return a, nil
}

// superviseShim reads from the shim and the action until both are gone.
func (a *action) superviseShim() {
	var streams sync.WaitGroup
	streams.Go(func() { a.out.readFrom(a.stdout) })
	streams.Go(func() { a.err.readFrom(a.stderr) })
	last := a.readReports()
	waitShim(a.shim)
	a.mu.Lock()
	a.over = true
	group, destroyed := a.group, a.destroyed
	for _, t := range a.backstops {
		t.Stop()
	}
	a.mu.Unlock()
	if last.Ended == nil {
		if group != 0 {
			_ = syscall.Kill(-group, syscall.SIGKILL)
		}
		killOrphans() // this also reaps them; otherwise the group would seem alive
		if group != 0 {
			killGroup(group)
		}
	}
	a.tidy()
	_ = a.stdout.SetReadDeadline(time.Now().Add(drainTimeout))
	_ = a.stderr.SetReadDeadline(time.Now().Add(drainTimeout))
	streams.Wait()
	readRest(a.stdout, &a.out)
	readRest(a.stderr, &a.err)
	for _, f := range []*os.File{a.control, a.reports, a.stdout, a.stderr} {
		_ = f.Close()
	}
	switch {
	case last.Ended != nil:
		a.exit = actionExit(*last.Ended, a.retried, &a.out, &a.err)
	case last.Failed != "":
		a.failure = errors.New(last.Failed)
	case destroyed:
		a.exit = worker.Exit{Killed: true, Message: "killed with its shim, which did not answer"}
	case group == 0 && a.shim.ProcessState != nil && a.shim.ProcessState.Exited():
		a.failure = errors.New(failureText("the action's shim ended before it started anything", &a.err))
	case stoppedEarly(a.shim.ProcessState):
		a.failure = errors.New("the action's shim was asked to stop before it started anything")
	default:
		a.exit = worker.Exit{Reason: execution.Transient, Message: failureText("the action's shim was killed, and the action with it", &a.err)}
	}
	close(a.done)
}

// stoppedEarly reports whether a stop signal has ended a shim. A shim catches these signals before it starts
// anything, so such a shim has started nothing.
func stoppedEarly(state *os.ProcessState) bool {
	if state == nil {
		return false
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && slices.Contains(stopSignals, os.Signal(status.Signal()))
}

// pipeCapacity is the maximum number of bytes in a pipe (pipe(7)).
const pipeCapacity = 64 << 10

// readRest reads the bytes that a pipe still holds, without waiting. Go does not try to read past a deadline,
// so on a busy machine the output of an ended action would be lost. readRest stops at one pipe's capacity,
// because an escaped descendant may continue to write.
func readRest(f *os.File, t *tail) {
	if f.SetReadDeadline(time.Time{}) != nil {
		return
	}
	c, err := f.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, pipeCapacity)
	_ = c.Read(func(fd uintptr) bool {
		if n, err := syscall.Read(int(fd), buf); err == nil && n > 0 {
			t.write(buf[:n])
		}
		return true
	})
}

// readReports reads reports until the shim ends, and returns them merged.
func (a *action) readReports() (all report) {
	lines := bufio.NewScanner(a.reports)
	for lines.Scan() {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue
		}
		if r.Started != 0 && all.Started == 0 {
			a.mu.Lock()
			a.group = r.Started
			a.mu.Unlock()
			all.Started = r.Started
			close(a.begun)
		}
		if r.Failed != "" {
			all.Failed = r.Failed
		}
		if r.Ended != nil {
			all.Ended = r.Ended
			a.mu.Lock()
			a.group = 0 // from now on the id may belong to another group
			a.mu.Unlock()
		}
	}
	return all
}

// killGroup kills a group whose shim is gone, and waits until the group has no processes, so that no action
// is reported as ended too early.
func killGroup(group int) {
	for deadline := time.Now().Add(answerTimeout); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if errors.Is(syscall.Kill(-group, syscall.SIGKILL), syscall.ESRCH) {
			return
		}
	}
}

func (a *action) Wait(ctx context.Context) (worker.Exit, error) {
	select {
	case <-a.done:
		return a.exit, nil
	default:
	}
	select {
	case <-a.done:
		return a.exit, nil
	case <-ctx.Done():
		return worker.Exit{}, ctx.Err()
	}
}

func (a *action) Kill(grace time.Duration) {
	grace = max(0, grace)
	a.sendOrder(order{verb: verbKill, at: machineClock(), left: grace})
	a.killWithShimAfter(grace + answerTimeout)
}

func (a *action) Extend(fence time.Duration) {
	at := machineClock()
	a.sendOrder(order{verb: verbFence, at: at, left: fence - a.host.Monotonic()})
}

// sendOrder sends an order to the shim. It drops an order that it can't send, which is safe: without a new
// fence the action ends earlier, and killWithShimAfter enforces a kill.
func (a *action) sendOrder(o order) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	_ = a.control.SetWriteDeadline(time.Now().Add(orderTimeout))
	_, _ = a.control.WriteString(o.String())
}

// endFlooding ends an action that has written too much output.
func (a *action) endFlooding() { a.sendOrder(order{verb: verbFlood}) }

// abandonShim makes the shim end everything, as it does when its worker dies.
func (a *action) abandonShim() {
	_ = a.control.Close()
	a.killWithShimAfter(answerTimeout)
}

// killWithShimAfter kills the action and its shim after d, unless they are gone by then.
func (a *action) killWithShimAfter(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	a.backstops = append(a.backstops, time.AfterFunc(d, a.killWithShim))
}

func (a *action) killWithShim() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	a.destroyed = true
	if a.group != 0 {
		_ = syscall.Kill(-a.group, syscall.SIGKILL)
	}
	_ = a.shim.Process.Kill()
}
