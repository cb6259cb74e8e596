package servers

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"handoff/chaos/servers/containers"
)

// OpenProject returns a set without servers, for containers that docker compose makes: what carries Labels is
// removed by Down, and ends when this process does. The set closes the engine.
func OpenProject(ctx context.Context, engine *containers.Engine, log io.Writer) (*Set, error) {
	lines := &lineLog{w: log}
	dir, g, err := openPrivate(engine.Address(), lines)
	if err != nil {
		return nil, err
	}
	s := &Set{dir: dir, guard: g, boxes: openBoxes(ctx, engine, dir.path, g, lines)}
	g.watchNetwork(s.Network())
	return s, nil
}

// Project is a name for the project of docker compose that nobody else has.
func (s *Set) Project() string { return filepath.Base(s.dir.path) }

// Network is what docker compose calls the network of that project.
func (s *Set) Network() string { return s.Project() + "_default" }

// Labels are what every container and network of the set has to carry.
func (s *Set) Labels() map[string]string { return s.boxes.engine.Labels(s.dir.path) }

// Adopt takes a container into the set.
func (s *Set) Adopt(c *containers.Container) { s.boxes.adopt(c) }

// Remove removes a container of the set before its time.
func (s *Set) Remove(ctx context.Context, c *containers.Container) error {
	return s.boxes.remove(ctx, c)
}

// AdoptPostgres takes a container into the set as its PostgreSQL, starts it, and returns when it answers.
// address is a database of its superuser.
func (s *Set) AdoptPostgres(ctx context.Context, c *containers.Container, address string) error {
	s.Adopt(c)
	p := &Postgres{admin: address, launch: launchingBox(c, "PostgreSQL"), log: boxLog(c, filepath.Join(s.dir.path, "postgres.log"))}
	if err := p.Start(ctx); err != nil {
		return err
	}
	s.Postgres = p
	return nil
}

// AdoptRabbitMQ takes a container into the set as its RabbitMQ, starts it, and returns when it answers. user is
// who is in the address, and administers the node.
func (s *Set) AdoptRabbitMQ(ctx context.Context, c *containers.Container, address, user string) error {
	s.Adopt(c)
	m := &RabbitMQ{
		user: user, admin: address, launch: launchingBox(c, "RabbitMQ"), log: boxLog(c, filepath.Join(s.dir.path, "rabbitmq.log")), ctl: ctlIn(c),
	}
	if err := m.Start(ctx); err != nil {
		return err
	}
	s.RabbitMQ = m
	return nil
}

// ctlIn runs rabbitmqctl in a container.
func ctlIn(c *containers.Container) func(context.Context, ...string) (string, error) {
	return func(ctx context.Context, args ...string) (string, error) {
		return c.Run(ctx, append([]string{"/bin/sh", "-c", ctlScript, "rabbitmqctl"}, args...))
	}
}

// Contained is a program in a container, from one start to the end of it. Signals go to the program alone and
// not to what it has started; but that ends with it, as everything in its container does.
type Contained struct {
	container *containers.Container
	log       func() string
	done      chan struct{}
}

// StartContained starts a container's program, the first time or again.
func (s *Set) StartContained(ctx context.Context, c *containers.Container, name string) (*Contained, error) {
	if err := c.Start(ctx); err != nil {
		return nil, &StartError{Component: name, Err: err}
	}
	p := &Contained{container: c, log: boxLog(c, filepath.Join(s.dir.path, name+".log")), done: make(chan struct{})}
	go p.await()
	return p, nil
}

// await closes done when the program has ended.
func (p *Contained) await() {
	defer close(p.done)
	for p.container.Wait(context.Background()) != nil {
		ctx, cancel := engineContext()
		running, _, err := p.container.State(ctx)
		cancel()
		if err == nil && !running || containers.Gone(err) {
			return
		}
		time.Sleep(100 * time.Millisecond) // the engine does not answer just now
	}
}

// Running says that it has not ended.
func (p *Contained) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Kill ends it at once, with everything in its container, and returns when it is gone.
func (p *Contained) Kill() {
	for p.Running() {
		p.signal("KILL")
		select {
		case <-p.done:
		case <-time.After(time.Second): // the engine did not answer
		}
	}
}

// Terminate asks it to stop (SIGTERM) and returns at once; Wait tells when it has.
func (p *Contained) Terminate() { p.signal("TERM") }

// Pause makes it stand still (SIGSTOP). What it has started goes on, which it would not if the engine froze the
// whole container: a process that stands still is what is meant, not a machine.
func (p *Contained) Pause() { p.signal("STOP") }

// Resume lets a paused program go on.
func (p *Contained) Resume() { p.signal("CONT") }

// signal has the engine send one; a program that is gone meanwhile needs none.
func (p *Contained) signal(name string) {
	ctx, cancel := engineContext()
	defer cancel()
	_ = p.container.Signal(ctx, name)
}

// Wait returns nil when it has ended, or ctx's error.
func (p *Contained) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Log is the path of its log file, which is written at this moment.
func (p *Contained) Log() string { return p.log() }

// Ready polls until probe succeeds, and fails with the end of its log if it ends before.
func (p *Contained) Ready(ctx context.Context, probe func(context.Context) error) error {
	if err := answers(ctx, 20*time.Millisecond, probe, p.Running); err != nil {
		return &StartError{Component: filepath.Base(p.log()), Err: err, LogTail: tail(p.log())}
	}
	return nil
}
