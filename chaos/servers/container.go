package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"handoff/chaos/servers/containers"
)

// Timeouts for a container engine, which may have to pull an image from a remote registry.
const (
	imageWithin  = 5 * time.Minute
	engineWithin = 30 * time.Second
)

// boxes holds the containers of a set.
type boxes struct {
	engine *containers.Engine
	run    string // the set's directory; while its lock is held, no other process removes the containers
	guard  *guard

	mu   sync.Mutex
	made []*containers.Container
}

// openBoxes removes the containers of finished runs, and returns empty boxes for a set.
func openBoxes(ctx context.Context, engine *containers.Engine, run string, g *guard, log *lineLog) *boxes {
	removed, err := engine.Sweep(ctx, runIsOver)
	for _, name := range removed {
		log.printf("removed %s, left behind by a process that is gone", name)
	}
	if err != nil {
		// Up must not fail because of other processes' leftovers.
		log.printf("removing what earlier runs left in the engine: %v", err)
	}
	return &boxes{engine: engine, run: run, guard: g}
}

// runIsOver reports whether no process holds the lock of a run's directory. A directory that can't be
// examined belongs to another user, who sweeps it.
func runIsOver(directory string) bool {
	lock, err := lockFile(filepath.Join(directory, lockName), false)
	if err == nil {
		_ = lock.Close() // nothing was written
	}
	return err == nil || errors.Is(err, os.ErrNotExist)
}

func (b *boxes) createContainer(ctx context.Context, s containers.Spec) (*containers.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, imageWithin)
	defer cancel()
	s.Run = b.run
	c, err := b.engine.Create(ctx, s)
	if err != nil {
		return nil, err
	}
	b.adoptContainer(c)
	return c, nil
}

func (b *boxes) adoptContainer(c *containers.Container) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made = append(b.made, c)
	b.guard.addItems(containerItem(c.ID()))
}

// removeContainer removes one container.
func (b *boxes) removeContainer(ctx context.Context, c *containers.Container) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := c.Remove(ctx); err != nil {
		return fmt.Errorf("removing a container: %w", err)
	}
	b.guard.dropItems(containerItem(c.ID()))
	b.made = slices.DeleteFunc(b.made, func(other *containers.Container) bool { return other == c })
	return nil
}

// close removes every container and everything else with the run's label: networks, and containers that
// docker compose created before it was interrupted. It sets its own timeout.
func (b *boxes) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), engineWithin)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, c := range b.made {
		if err := c.Remove(ctx); err != nil {
			errs = append(errs, fmt.Errorf("removing a container: %w", err))
			continue
		}
		b.guard.dropItems(containerItem(c.ID()))
	}
	b.made = nil
	if _, err := b.engine.Sweep(ctx, func(run string) bool { return run == b.run }); err != nil {
		errs = append(errs, fmt.Errorf("removing what is left of this run: %w", err))
	}
	return errors.Join(append(errs, b.engine.Close())...)
}

// boxedServer is a server that runs in a container.
type boxedServer struct {
	container *containers.Container
	name      string // for errors
}

// containerLauncher returns a function that starts the container.
func containerLauncher(c *containers.Container, name string) func(context.Context) (server, error) {
	return func(ctx context.Context) (server, error) {
		if err := c.Start(ctx); err != nil {
			return nil, &StartError{Component: name, Err: err}
		}
		return &boxedServer{container: c, name: name}, nil
	}
}

func (b *boxedServer) isRunning() bool {
	ctx, cancel := engineContext()
	defer cancel()
	running, _, err := b.container.State(ctx)
	return err == nil && running
}

// stop ignores the signal, because the image names the one that stops the server.
func (b *boxedServer) stop(_ signal, within time.Duration) error {
	if !b.isRunning() {
		return nil
	}
	b.resume()
	ctx, cancel := context.WithTimeout(context.Background(), within+engineWithin)
	defer cancel()
	return b.container.Stop(ctx, within)
}

func (b *boxedServer) kill() {
	b.resume()
	ctx, cancel := engineContext()
	defer cancel()
	// A container that does not run can't be killed, and needn't be.
	_ = b.container.Kill(ctx)
}

func (b *boxedServer) pause() error {
	ctx, cancel := engineContext()
	defer cancel()
	running, paused, err := b.container.State(ctx)
	switch {
	case err != nil:
		return err
	case !running:
		return fmt.Errorf("%s does not run", b.name)
	case paused:
		return nil
	}
	return b.container.Pause(ctx)
}

func (b *boxedServer) resume() {
	ctx, cancel := engineContext()
	defer cancel()
	if _, paused, err := b.container.State(ctx); err == nil && paused {
		// If the engine refuses, the server does not answer, and its clients report that.
		_ = b.container.Resume(ctx)
	}
}

// logSaver returns a function that writes a container's log to a file of that name and returns its path.
func (b *boxes) logSaver(c *containers.Container, name string) func() string {
	path := filepath.Join(b.run, name+".log")
	return func() string {
		ctx, cancel := engineContext()
		defer cancel()
		text, err := c.Log(ctx)
		if err != nil {
			text = "the engine returned no log: " + err.Error()
		}
		_ = os.WriteFile(path, []byte(text), 0o600) // only errors and tests read the file, and they report that it is missing
		return path
	}
}

func engineContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), engineWithin)
}

// containedPostgres starts PostgreSQL in a container. Its password, which is new each time, gives
// superuser rights.
func containedPostgres(ctx context.Context, image string, b *boxes, log *lineLog) (p *Postgres, err error) {
	err = startServer(ctx, "PostgreSQL", log, func(int) (*attempt, error) {
		password := uniqueName()
		c, name, ports, err := b.createServerContainer(ctx, containers.Spec{
			Image: image, Command: append([]string{"postgres"}, postgresSettings()...),
			Env: map[string]string{"POSTGRES_USER": "handoff", "POSTGRES_PASSWORD": password, "POSTGRES_DB": "postgres"},
		}, 5432)
		if err != nil {
			return nil, imageError(ImagePostgres, err)
		}
		address := loopbackAddress(ports[0])
		admin := fmt.Sprintf("postgres://handoff:%s@%s/postgres?sslmode=disable", password, address)
		p = privatePostgres(admin, "", containerLauncher(c, "PostgreSQL"), b.logSaver(c, name))
		return &attempt{start: p.Start, open: p.openEmpty, close: p.close, what: "a container of " + image, address: address}, nil
	})
	return p, err
}

// containedRabbit starts RabbitMQ in a container. Its user has a new password each time.
func containedRabbit(ctx context.Context, image string, management bool, b *boxes, log *lineLog) (m *RabbitMQ, err error) {
	inside := []int{5672}
	if management {
		inside = append(inside, 15672)
	}
	err = startServer(ctx, "RabbitMQ", log, func(int) (*attempt, error) {
		password := uniqueName()
		c, name, ports, err := b.createServerContainer(ctx, containers.Spec{
			Image: image, Env: map[string]string{"RABBITMQ_DEFAULT_USER": "handoff", "RABBITMQ_DEFAULT_PASS": password},
		}, inside...)
		if err != nil {
			return nil, imageError(ImageRabbitMQ, err)
		}
		address := loopbackAddress(ports[0])
		m = &RabbitMQ{
			node: "rabbit@" + name, // a node is named after its host, which is the container
			user: "handoff", admin: fmt.Sprintf("amqp://handoff:%s@%s", password, address), ctl: ctlIn(c),
		}
		if management {
			m.Management = "http://" + loopbackAddress(ports[1])
		}
		m.makePrivate(containerLauncher(c, "RabbitMQ"), b.logSaver(c, name))
		return &attempt{start: m.Start, open: m.openEmpty, close: m.close, what: "a container of " + image, address: address}, nil
	})
	return m, err
}

// ctlScript runs rabbitmqctl itself, even where Debian's PATH leads to a wrapper that changes the user.
const ctlScript = `PATH=/usr/lib/rabbitmq/bin:$PATH; exec rabbitmqctl "$@"`

// createServerContainer creates a server's container with a unique name, and publishes its ports on free
// ports of this machine. It does not start the container.
func (b *boxes) createServerContainer(ctx context.Context, s containers.Spec, inside ...int) (c *containers.Container, name string, ports []int, err error) {
	if ports, err = pickPorts(len(inside)); err != nil {
		return nil, "", nil, err
	}
	s.Name, s.Ports = boxName(), make(map[int]int)
	for i, port := range inside {
		s.Ports[port] = ports[i]
	}
	c, err = b.createContainer(ctx, s)
	return c, s.Name, ports, err
}

// boxName returns a unique name that is also a valid host name.
func boxName() string { return strings.ReplaceAll(uniqueName(), "_", "-") }
