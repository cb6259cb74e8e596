package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// spawner runs functions on one operating-system thread that lives as long as the process. The kernel sends
// Pdeathsig, which kills a child, when the parent thread ends, and an ordinary goroutine's thread may end
// before the program.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func startOnSpawner(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	spawner() <- func() { done <- cmd.Start() }
	return <-done
}

// program describes how to start a server.
type program struct {
	name string // for errors
	path string
	args []string
	env  []string
	dir  string
	log  string
	user *account // nil for this process's user
}

func (p *program) logPath() string { return p.log }

// childLauncher returns a function that starts the program as a child.
func childLauncher(p *program, g *guard) func(context.Context) (server, error) {
	return func(context.Context) (server, error) { return startChild(p, g) }
}

// server is a running PostgreSQL or RabbitMQ: a child process or a container.
type server interface {
	isRunning() bool
	stop(sig signal, within time.Duration) error
	kill()
	pause() error
	resume()
}

// child is a child process. A goroutine waits for it, so it never stays a zombie: PostgreSQL refuses to start
// while the process number in its lock file exists, even if a zombie has it.
type child struct {
	program *program
	pid     int
	done    chan struct{} // closed when it has ended and been reaped
	guard   *guard

	mu     sync.Mutex
	paused []int // processes outside the process group that pause has stopped
	stuck  bool  // paused
}

func startChild(p *program, g *guard) (*child, error) {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: p.path, Args: append([]string{p.path}, p.args...), Env: p.env, Dir: p.dir}
	setProcess(cmd, p.user)
	cmd.Stdout, cmd.Stderr = log, log
	err = startOnSpawner(cmd)
	_ = log.Close() // the child has its own descriptor
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.path, err)
	}
	c := &child{program: p, pid: cmd.Process.Pid, done: make(chan struct{}), guard: g}
	g.watchProcesses(-c.pid)
	go func() {
		_ = cmd.Wait() // the program's log shows how it ended
		g.forgetProcesses(-c.pid)
		close(c.done)
	}()
	return c, nil
}

// isRunning reports whether the process runs. A nil child never ran.
func (c *child) isRunning() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// stop sends the process a signal to end. If it has not ended within the given time, stop kills it and
// returns an error.
func (c *child) stop(sig signal, within time.Duration) error {
	if !c.isRunning() {
		return nil
	}
	c.resume()
	signalProcess(c.pid, sig)
	select {
	case <-c.done:
		return nil
	case <-time.After(within):
		c.kill()
		return fmt.Errorf("%s did not stop within %v and was killed", c.program.name, within)
	}
}

// kill ends the process and all its descendants at once. It returns when all are gone, so that a restart
// finds neither their locks nor their shared memory. It stops the process before it lists descendants:
// PostgreSQL starts a backend for every client, and a backend that started after the listing would survive
// and keep the shared memory.
func (c *child) kill() {
	if !c.isRunning() {
		return
	}
	below := c.suspendTree()
	signalProcess(-c.pid, sigKill)
	signalProcess(c.pid, sigKill)
	for _, pid := range below {
		signalProcess(pid, sigKill)
	}
	<-c.done
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if !anyAlive(below) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetPaused()
}

// pause stops the process group and all descendants (PostgreSQL's backends have groups of their own). It
// stops the parent first, so that the parent starts no more processes.
func (c *child) pause() error {
	if !c.isRunning() {
		return fmt.Errorf("%s does not run", c.program.name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stuck {
		return nil
	}
	c.stuck = true
	c.paused = c.suspendTree()
	// A stopped process does not detect that its parent died, so the guard must kill these too.
	c.guard.watchProcesses(c.paused...)
	return nil
}

// stopsWithin limits the wait until SIGSTOP takes effect. A process that waits for a disk may take long.
const stopsWithin = time.Second

// suspendTree stops the process and all its descendants, and returns the descendants. A signal takes effect
// when the process next gets a processor; until then it may start more processes. So suspendTree lists
// descendants until the process has halted and their number no longer changes.
func (c *child) suspendTree() []int {
	signalProcess(-c.pid, sigStop)
	before := -1
	for until := time.Now().Add(stopsWithin); ; time.Sleep(2 * time.Millisecond) {
		done := isHalted(c.pid)
		below := descendantPIDs(c.pid)
		for _, pid := range below {
			signalProcess(pid, sigStop)
		}
		if done && len(below) == before || time.Now().After(until) {
			return below
		}
		before = len(below)
	}
}

// resume lets a paused process continue, and has no effect on a process that is not paused.
func (c *child) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stuck {
		return
	}
	for _, pid := range c.paused {
		signalProcess(pid, sigCont)
	}
	signalProcess(-c.pid, sigCont)
	c.forgetPaused()
}

func (c *child) forgetPaused() {
	c.guard.forgetProcesses(c.paused...)
	c.paused, c.stuck = nil, false
}

// awaitAnswer polls until a server answers, the process has ended, or ctx is done.
func awaitAnswer(ctx context.Context, probe func(context.Context) error, running func() bool) error {
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last error
	for {
		if last = probe(ctx); last == nil {
			return nil
		}
		if !running() {
			return errEnded
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		case <-tick.C:
		}
	}
}

var (
	errEnded    = errors.New("the process ended")
	errStranger = errors.New("another server answers at its port")
)

// runCommand runs a command and returns its output. When ctx ends, it kills the command and its process group.
func runCommand(ctx context.Context, p *program) (string, error) {
	cmd := exec.CommandContext(ctx, p.path, p.args...)
	cmd.Env, cmd.Dir = p.env, p.dir
	setProcess(cmd, p.user)
	var out limitedOutput
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = killGroup(cmd)
	cmd.WaitDelay = 10 * time.Second // until what was written last is read, on a busy machine
	err := startOnSpawner(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", filepath.Base(p.path), errors.Join(err, ctx.Err()), out.String())
	}
	return out.String(), err
}

// killGroup returns a function that kills a command together with its process group.
func killGroup(cmd *exec.Cmd) func() error {
	return func() error { signalProcess(-cmd.Process.Pid, sigKill); return nil }
}

// OwnGroup protects a command from Ctrl-C. When its context ends, the command is killed with its process group.
func OwnGroup(cmd *exec.Cmd) {
	if privateSupported {
		ownGroup(cmd)
		cmd.Cancel = killGroup(cmd)
	}
}

// limitedOutput is a writer that keeps the first megabyte.
type limitedOutput struct{ b []byte }

func (l *limitedOutput) Write(p []byte) (int, error) {
	const most = 1 << 20
	l.b = append(l.b, p[:min(len(p), most-len(l.b))]...)
	return len(p), nil
}

func (l *limitedOutput) String() string { return string(l.b) }
