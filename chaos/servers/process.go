package servers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Program is a program to run beside the servers of a set.
type Program struct {
	// Name tells it from others; its log file is called after it.
	Name string
	Path string
	Args []string
	Env  []string
}

// Supervised is a supervised program. Signals go to it alone and not to what it has started: a worker's
// actions live on when it is killed, until their shims notice, and that is what a test is after.
type Supervised struct{ c *child }

// Spawn starts a program. Like the servers it does not outlive this process, and its standard output and
// error go to a log file in the set's directory, which Down removes. The set must have something private.
func (s *Set) Spawn(p Program) (*Supervised, error) {
	if s.dir == nil {
		return nil, errors.New("nothing private runs in this set, so there is no directory for logs")
	}
	c, err := startChild(&program{
		name: p.Name, path: p.Path, args: p.Args, env: p.Env, dir: s.dir.path, log: filepath.Join(s.dir.path, p.Name+".log"),
	}, s.guard)
	if err != nil {
		return nil, err
	}
	return &Supervised{c}, nil
}

// Dir is the set's directory, empty if nothing private runs.
func (s *Set) Dir() string {
	if s.dir == nil {
		return ""
	}
	return s.dir.path
}

// Log is the path of its log file.
func (p *Supervised) Log() string { return p.c.program.log }

// PID is its process number.
func (p *Supervised) PID() int { return p.c.pid }

// Running says that it has not ended.
func (p *Supervised) Running() bool { return p.c.running() }

// Kill ends it at once, as SIGKILL does, and returns when it is gone.
func (p *Supervised) Kill() {
	if p.c.running() {
		signalProcess(p.c.pid, sigKill)
		<-p.c.done
	}
}

// Terminate asks it to stop (SIGTERM) and returns at once; Wait tells when it has.
func (p *Supervised) Terminate() { signalProcess(p.c.pid, sigTerm) }

// Pause makes it stand still (SIGSTOP); Resume lets it go on.
func (p *Supervised) Pause() { signalProcess(p.c.pid, sigStop) }

// Resume lets a paused process go on.
func (p *Supervised) Resume() { signalProcess(p.c.pid, sigCont) }

// Wait returns nil when it has ended, or ctx's error.
func (p *Supervised) Wait(ctx context.Context) error {
	select {
	case <-p.c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s still runs: %w", p.c.program.name, ctx.Err())
	}
}

// Ready polls until probe succeeds, and fails with the end of its log if it ends before.
func (p *Supervised) Ready(ctx context.Context, probe func(context.Context) error) error {
	if err := p.c.ready(ctx, 20*time.Millisecond, probe); err != nil {
		return &StartError{Component: p.c.program.name, Err: err, LogTail: tail(p.c.program.log)}
	}
	return nil
}

// FreePorts returns that many different loopback ports that nobody listens on at this moment.
func FreePorts(n int) ([]int, error) { return freePorts(n) }
