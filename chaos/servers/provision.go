// Package servers gives a command or a test a real PostgreSQL and a real RabbitMQ.
//
// It looks, in this order, at addresses in the harness's own variables (AddressPostgres and
// AddressRabbitMQ, never DATABASE_URL or the daemons' variables, which may point at production), at
// installed server binaries, which it starts as private instances on free loopback ports in a
// temporary directory, and at a container engine on this machine. An image that ImagePostgres or
// ImageRabbitMQ names comes before installed binaries. On a server it was given it works in a database and a virtual host of its
// own, and never stops, pauses or kills that server.
//
// Private instances, containers among them, do not outlive the process that started them: Set.Down
// ends them, and when the process dies without calling it (kill -9, a panic, Ctrl-C), the kernel
// kills them (Linux) or a small guard process does (every Unix; containers where there is a docker
// client). Their directory then stays behind; the next Up on this machine removes it, and containers
// that are still there.
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

// The variables this package reads.
const (
	// AddressPostgres holds a postgres:// URL of a server to work on; its user needs CREATEDB.
	AddressPostgres = "HANDOFF_CHAOS_DATABASE_URL"
	// AddressRabbitMQ holds an amqp:// URL of a node to work on.
	AddressRabbitMQ = "HANDOFF_CHAOS_AMQP_URL"
	// AddressManagement holds the http:// URL of that node's management API, where it is not at
	// port 15672 of the same host.
	AddressManagement = "HANDOFF_CHAOS_AMQP_MANAGEMENT_URL"
	// ImagePostgres and ImageRabbitMQ name images to make containers from, for other versions than
	// the installed or the usual ones. They take POSTGRES_USER, POSTGRES_PASSWORD,
	// RABBITMQ_DEFAULT_USER and RABBITMQ_DEFAULT_PASS as the official ones do.
	ImagePostgres = "HANDOFF_CHAOS_POSTGRES_IMAGE"
	ImageRabbitMQ = "HANDOFF_CHAOS_RABBITMQ_IMAGE"
	// Without lists what this machine does not offer: see package without.
	Without = without.Variable
	// Install set to "no" keeps EnsureInstalled from installing anything.
	Install = "HANDOFF_INSTALL"
)

// Options says what Up shall provide.
type Options struct {
	// Postgres and RabbitMQ say which of the two are wanted.
	Postgres, RabbitMQ bool

	// PrivateOnly passes over given addresses: for tests that stop and kill servers.
	PrivateOnly bool

	// AllowRemote permits given addresses on other machines.
	AllowRemote bool

	// Management enables the management plugin on a private RabbitMQ, which otherwise runs without
	// any plugin; it takes a second more to start, and memory.
	Management bool

	// Log receives a line for each thing done; nil for silence.
	Log io.Writer

	places *places // where to look for binaries; nil for the usual places
}

// Set is what Up provided. A component that was not asked for is nil.
type Set struct {
	Postgres *Postgres
	RabbitMQ *RabbitMQ

	dir   *workDir // nil while nothing private runs
	guard *guard
	boxes *boxes // nil without containers
	down  sync.Once
	err   error
}

// Up provides what the options ask for, both components at the same time, and returns when they
// answer. Whatever it started is ended again when it returns an error. Errors which say something
// about the machine rather than about the caller match ErrEnvironment.
func Up(ctx context.Context, o Options) (*Set, error) {
	plan, err := makePlan(ctx, o)
	if err != nil {
		return nil, err
	}
	log := &lineLog{w: o.Log}
	set := &Set{}
	if plan.private() {
		address := ""
		if plan.engine != nil {
			address = plan.engine.Address()
		}
		if set.dir, set.guard, err = openPrivate(address, log); err != nil {
			return nil, plan.drop(err)
		}
	}
	if plan.engine != nil {
		set.boxes = openBoxes(ctx, plan.engine, set.dir.path, set.guard, log)
	}
	var wg sync.WaitGroup
	var pgErr, mqErr error
	if o.Postgres {
		wg.Go(func() { set.Postgres, pgErr = plan.postgres(ctx, set, log) })
	}
	if o.RabbitMQ {
		wg.Go(func() { set.RabbitMQ, mqErr = plan.rabbitmq(ctx, set, o.Management, log) })
	}
	wg.Wait()
	if err := errors.Join(pgErr, mqErr); err != nil {
		return nil, errors.Join(err, set.Down())
	}
	return set, nil
}

// Down ends private instances and removes their directory, and drops what was made on given
// servers. It may be called more than once and takes its own time limits, so that it still works
// when the caller's context is over.
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
			s.err = errors.Join(s.err, s.dir.remove())
		}
	})
	return s.err
}

// openPrivate sweeps what earlier processes left behind and makes this process's directory.
func openPrivate(engine string, log *lineLog) (*workDir, *guard, error) {
	base, err := baseDir()
	if err != nil {
		return nil, nil, &StartError{Component: "private instances", Err: err}
	}
	if err := sweep(base, log); err != nil {
		// Somebody else's rubbish is no reason not to start.
		log.printf("cleaning up after earlier runs: %v", err)
	}
	dir, err := makeWorkDir(base)
	if err != nil {
		return nil, nil, &StartError{Component: "private instances", Err: err}
	}
	g, err := startGuard(engine)
	if err != nil {
		return nil, nil, errors.Join(&StartError{Component: "private instances", Err: err}, dir.remove())
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
	// A log that can't be written is the log's problem.
	_, _ = io.WriteString(l.w, strings.TrimRight(fmt.Sprintf(format, args...), "\n")+"\n")
}

// uniqueName makes names of databases, virtual hosts and nodes that differ between processes.
func uniqueName() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return "handoff_" + hex.EncodeToString(b[:])
}
