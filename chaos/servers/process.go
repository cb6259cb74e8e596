package servers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// Program is a program to run alongside the servers of a set.
type Program struct {
	// Name identifies the program and names its log file.
	Name string
	Path string
	Args []string
	Env  []string
}

// Supervised is a running program. Signals go only to it, not to its children: when a worker is killed, its
// actions survive until their shims detect it, and tests rely on that.
type Supervised struct{ c *child }

// Spawn starts a program. Like the servers, it does not outlive this process. Its standard output and error
// go to a log file in the set's directory, which Down removes. The set must have a private component.
func (s *Set) Spawn(p Program) (*Supervised, error) {
	if s.dir == nil {
		return nil, errors.New("this set runs no private server, so it has no directory for logs")
	}
	c, err := startChild(&program{
		name: p.Name, path: p.Path, args: p.Args, env: p.Env, dir: s.dir.path, log: filepath.Join(s.dir.path, p.Name+".log"),
	}, s.guard)
	if err != nil {
		return nil, err
	}
	return &Supervised{c}, nil
}

// Dir returns the set's directory; empty if the set has no private component.
func (s *Set) Dir() string {
	if s.dir == nil {
		return ""
	}
	return s.dir.path
}

// Log returns the path of the program's log file.
func (s *Supervised) Log() string { return s.c.program.log }

// PID returns the program's process number.
func (s *Supervised) PID() int { return s.c.pid }

// Running reports whether the program still runs.
func (s *Supervised) Running() bool { return s.c.isRunning() }

// Kill ends the program at once, with SIGKILL, and returns when the program has ended.
func (s *Supervised) Kill() {
	if s.c.isRunning() {
		signalProcess(s.c.pid, sigKill)
		<-s.c.done
	}
}

// Terminate sends SIGTERM and returns at once. Use Wait to wait for the end.
func (s *Supervised) Terminate() { signalProcess(s.c.pid, sigTerm) }

// Pause suspends the program (SIGSTOP); Resume lets it continue.
func (s *Supervised) Pause() { signalProcess(s.c.pid, sigStop) }

// Resume lets a paused program continue.
func (s *Supervised) Resume() { signalProcess(s.c.pid, sigCont) }

// Wait returns nil once the program has ended, or ctx's error.
func (s *Supervised) Wait(ctx context.Context) error {
	select {
	case <-s.c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s still runs: %w", s.c.program.name, ctx.Err())
	}
}

// Ready polls until probe succeeds. If the program ends first, the error has the end of its log.
func (s *Supervised) Ready(ctx context.Context, probe func(context.Context) error) error {
	if err := awaitAnswer(ctx, probe, s.c.isRunning); err != nil {
		return &StartError{Component: s.c.program.name, Err: err, LogTail: logTail(s.c.program.log)}
	}
	return nil
}
