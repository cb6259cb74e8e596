// Package servers provides a real PostgreSQL and a real RabbitMQ to a command or a test.
//
// It uses the first of three sources. First, addresses in the harness's own variables AddressPostgres and
// AddressRabbitMQ, never DATABASE_URL or the daemons' variables, which may point at production. Second,
// installed server binaries, which it starts as private instances on free loopback ports in a temporary
// directory. Third, a container engine on this machine. An image that ImagePostgres or ImageRabbitMQ names
// has priority over installed binaries. On a given server it uses its own database and virtual host, and
// never stops, pauses or kills that server.
//
// Private instances, including containers, do not outlive the process that started them: Set.Down ends them.
// If the process dies without calling it (kill -9, a panic, Ctrl-C), the kernel kills them (Linux), or a
// small guard process does (every Unix; containers only with a docker client). Their directory remains until
// the next Up on this machine, which removes it and any leftover containers.
//
// On Windows only given addresses work.
package servers

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"handoff/core/host/without"
)

// The environment variables that this package reads.
const (
	// AddressPostgres holds the postgres:// URL of a server to use. Its user needs the right CREATEDB.
	AddressPostgres = "HANDOFF_CHAOS_DATABASE_URL"
	// AddressRabbitMQ holds the amqp:// URL of a node to use.
	AddressRabbitMQ = "HANDOFF_CHAOS_AMQP_URL"
	// AddressManagement holds the http:// URL of that node's management API, unless it is at port
	// 15672 of the same host.
	AddressManagement = "HANDOFF_CHAOS_AMQP_MANAGEMENT_URL"
	// ImagePostgres and ImageRabbitMQ name container images, for versions other than the installed or the
	// default version. They must accept POSTGRES_USER, POSTGRES_PASSWORD, RABBITMQ_DEFAULT_USER and
	// RABBITMQ_DEFAULT_PASS like the official images.
	ImagePostgres = "HANDOFF_CHAOS_POSTGRES_IMAGE"
	ImageRabbitMQ = "HANDOFF_CHAOS_RABBITMQ_IMAGE"
	// Without lists the components that this machine lacks: see package without.
	Without = without.Variable
	// Install, if set to "no", keeps EnsureInstalled from installing packages.
	Install = "HANDOFF_INSTALL"
)

// Options selects what Up provides.
type Options struct {
	// Postgres and RabbitMQ request the two components.
	Postgres, RabbitMQ bool

	// PrivateOnly ignores given addresses, for tests that stop and kill servers.
	PrivateOnly bool

	// Management enables the management plugin on a private RabbitMQ, which otherwise runs without
	// plugins. It costs memory and another second at the start.
	Management bool

	// Keep is a directory that keeps the data and logs of private instances for a later Up; empty for a
	// temporary directory. The later Up has the same database, virtual host and queues, and the same addresses
	// if their ports are free. With containers, and for an unsuitable directory, Up returns a *KeepError.
	Keep string

	// Log receives a line for each step; may be nil.
	Log io.Writer

	places *places // where to search; nil for the usual places
}

// Set is the result of Up. A component that was not requested is nil.
type Set struct {
	Postgres *Postgres
	RabbitMQ *RabbitMQ

	dir   *workDir // nil without private components
	guard *guard
	boxes *boxes // nil without containers
	down  sync.Once
	err   error
}

// Up provides the requested components in parallel and returns when they answer. If it fails, it ends
// everything that it started. Errors about the machine, as opposed to the caller, match ErrEnvironment.
func Up(ctx context.Context, o Options) (*Set, error) {
	plan, err := makePlan(ctx, o)
	if err != nil {
		return nil, err
	}
	log := &lineLog{w: o.Log}
	set := &Set{}
	if plan.hasPrivate() {
		address := ""
		if plan.engine != nil {
			address = plan.engine.Address()
		}
		if o.Keep != "" && plan.engine != nil {
			return nil, plan.abandonPlan(&KeepError{o.Keep, "can't keep what runs in a container: install the servers (" + installHint +
				") and name no image, or keep nothing"})
		}
		if set.dir, set.guard, err = openPrivate(address, o.Keep, log); err != nil {
			return nil, plan.abandonPlan(err)
		}
	}
	if plan.engine != nil {
		set.boxes = openBoxes(ctx, plan.engine, set.dir.path, set.guard, log)
	}
	var wg sync.WaitGroup
	var pgErr, mqErr error
	if o.Postgres {
		wg.Go(func() { set.Postgres, pgErr = plan.providePostgres(ctx, set, log) })
	}
	if o.RabbitMQ {
		wg.Go(func() { set.RabbitMQ, mqErr = plan.provideRabbitMQ(ctx, set, o.Management, log) })
	}
	wg.Wait()
	if err := errors.Join(pgErr, mqErr); err != nil {
		return nil, errors.Join(err, set.Down())
	}
	return set, nil
}

// Down ends private instances, removes their directory unless it is kept, and drops what Up has created on
// given servers. It may be called repeatedly. It sets its own timeouts, so it also works when the caller's
// context has ended.
func (s *Set) Down() error {
	s.down.Do(func() {
		var wg sync.WaitGroup
		var pgErr, mqErr error
		if s.Postgres != nil {
			wg.Go(func() { pgErr = s.Postgres.close() })
		}
		if s.RabbitMQ != nil {
			wg.Go(func() { mqErr = s.RabbitMQ.close() })
		}
		wg.Wait()
		s.err = errors.Join(pgErr, mqErr)
		if s.boxes != nil {
			s.err = errors.Join(s.err, s.boxes.close())
		}
		if s.guard != nil {
			s.err = errors.Join(s.err, s.guard.close())
		}
		if s.dir != nil {
			s.err = errors.Join(s.err, s.dir.removeDir())
		}
	})
	return s.err
}

// openPrivate removes leftovers of earlier processes, opens or creates the directory, and starts the guard.
func openPrivate(engine, keep string, log *lineLog) (*workDir, *guard, error) {
	base, err := baseDir()
	if err != nil {
		return nil, nil, &StartError{Component: "private instances", Err: err}
	}
	if err := sweepWorkDirs(base, log); err != nil {
		// Up must not fail because of other processes' leftovers.
		log.printf("cleaning up after earlier runs: %v", err)
	}
	var dir *workDir
	if keep != "" {
		if dir, err = openKept(keep); err != nil {
			return nil, nil, err
		}
	} else if dir, err = makeWorkDir(base); err != nil {
		return nil, nil, &StartError{Component: "private instances", Err: err}
	}
	g, err := startGuard(engine)
	if err != nil {
		return nil, nil, errors.Join(&StartError{Component: "private instances", Err: err}, dir.removeDir())
	}
	return dir, g, nil
}

// lineLog writes whole lines, from several goroutines, to a writer that may be nil.
type lineLog struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lineLog) printf(format string, args ...any) {
	if l == nil || l.w == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// An unwritable log must not be a cause of failure.
	_, _ = io.WriteString(l.w, strings.TrimRight(fmt.Sprintf(format, args...), "\n")+"\n")
}

// uniqueName returns a unique name for a database, virtual host or node.
func uniqueName() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return "handoff_" + hex.EncodeToString(b[:])
}
