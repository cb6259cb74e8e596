package servers

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"handoff/chaos/servers/containers"
)

// OpenProject returns a set without servers, to which containers that docker compose creates can be added.
// Down, or the end of this process, removes everything with the set's Labels. Down also closes the engine.
func OpenProject(ctx context.Context, engine *containers.Engine, log io.Writer) (*Set, error) {
	lines := &lineLog{w: log}
	dir, g, err := openPrivate(engine.Address(), "", lines)
	if err != nil {
		return nil, err
	}
	s := &Set{dir: dir, guard: g, boxes: openBoxes(ctx, engine, dir.path, g, lines)}
	g.addItems(networkItem(s.Network()))
	return s, nil
}

// Project returns a unique name for a docker compose project.
func (s *Set) Project() string { return filepath.Base(s.dir.path) }

// Network returns docker compose's name for the network of that project.
func (s *Set) Network() string { return s.Project() + "_default" }

// Labels returns the labels that every container and network of the set must have.
func (s *Set) Labels() map[string]string { return s.boxes.engine.Labels(s.dir.path) }

// Adopt adds a container to the set.
func (s *Set) Adopt(c *containers.Container) { s.boxes.adoptContainer(c) }

// Remove removes one of the set's containers before Down.
func (s *Set) Remove(ctx context.Context, c *containers.Container) error {
	return s.boxes.removeContainer(ctx, c)
}

// AdoptPostgres adds a container to the set as its PostgreSQL, starts it, and returns when it
// answers. address is a database URL of its superuser.
func (s *Set) AdoptPostgres(ctx context.Context, c *containers.Container, address string) error {
	s.Adopt(c)
	s.Postgres = privatePostgres(address, "", containerLauncher(c, "PostgreSQL"), s.boxes.logSaver(c, "postgres"))
	return s.Postgres.Start(ctx)
}

// AdoptRabbitMQ adds a container to the set as its RabbitMQ, starts it, and returns when it
// answers. user is the user in the address, who administers the node.
func (s *Set) AdoptRabbitMQ(ctx context.Context, c *containers.Container, address, user string) error {
	s.Adopt(c)
	m := &RabbitMQ{user: user, admin: address, ctl: ctlIn(c)}
	s.RabbitMQ = m.makePrivate(containerLauncher(c, "RabbitMQ"), s.boxes.logSaver(c, "rabbitmq"))
	return m.Start(ctx)
}

// ctlIn returns a function that runs rabbitmqctl in a container.
func ctlIn(c *containers.Container) func(context.Context, ...string) (string, error) {
	return func(ctx context.Context, args ...string) (string, error) {
		return c.Run(ctx, append([]string{"/bin/sh", "-c", ctlScript, "rabbitmqctl"}, args...))
	}
}

// Contained is a program that runs in a container. Signals go only to the program, not to its children; but
// these end with it, because its container does.
type Contained struct {
	container *containers.Container
	log       func() string
	done      chan struct{}
}

// StartContained starts or restarts a container's program.
func (s *Set) StartContained(ctx context.Context, c *containers.Container, name string) (*Contained, error) {
	if err := c.Start(ctx); err != nil {
		return nil, &StartError{Component: name, Err: err}
	}
	p := &Contained{container: c, log: s.boxes.logSaver(c, name), done: make(chan struct{})}
	go p.awaitEnd()
	return p, nil
}

// awaitEnd closes done when the program has ended.
func (c *Contained) awaitEnd() {
	defer close(c.done)
	for c.container.Wait(context.Background()) != nil {
		ctx, cancel := engineContext()
		running, _, err := c.container.State(ctx)
		cancel()
		if err == nil && !running || containers.Gone(err) {
			return
		}
		time.Sleep(100 * time.Millisecond) // the engine does not answer
	}
}

// Running reports whether the program still runs.
func (c *Contained) Running() bool {
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// Kill ends all processes in the container at once, and returns when they have ended.
func (c *Contained) Kill() {
	for c.Running() {
		c.sendSignal("KILL")
		select {
		case <-c.done:
		case <-time.After(time.Second): // the engine did not answer
		}
	}
}

// Terminate sends SIGTERM and returns at once. Use Wait to wait for the end.
func (c *Contained) Terminate() { c.sendSignal("TERM") }

// Pause suspends the program (SIGSTOP). Its children continue. If the engine paused the whole container, they
// would be suspended too, but the fault is a suspended process, not a suspended machine.
func (c *Contained) Pause() { c.sendSignal("STOP") }

// Resume lets a paused program continue.
func (c *Contained) Resume() { c.sendSignal("CONT") }

// sendSignal sends a signal through the engine, and ignores a program that has ended.
func (c *Contained) sendSignal(name string) {
	ctx, cancel := engineContext()
	defer cancel()
	_ = c.container.Signal(ctx, name)
}

// Wait returns nil once the program has ended, or ctx's error.
func (c *Contained) Wait(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Log writes the program's log file and returns its path.
func (c *Contained) Log() string { return c.log() }

// Ready polls until probe succeeds. If the program ends first, the error has the end of its log.
func (c *Contained) Ready(ctx context.Context, probe func(context.Context) error) error {
	if err := awaitAnswer(ctx, probe, c.Running); err != nil {
		return &StartError{Component: filepath.Base(c.log()), Err: err, LogTail: logTail(c.log())}
	}
	return nil
}
