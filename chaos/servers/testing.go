package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	ossignal "os/signal"
	"sync"
	"syscall"
)

// TB is the part of *testing.T and *testing.B that this package needs. It keeps package testing out of
// binaries.
type TB interface {
	Helper()
	Name() string
	Cleanup(func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// shared has the servers that a test process shares between its tests. Each component starts when the first
// test needs it.
var shared struct {
	inMain   bool
	ctx      context.Context //nolint:containedctx // ends with the process
	cancel   context.CancelFunc
	postgres sharedSet
	rabbitmq sharedSet
}

type sharedSet struct {
	once sync.Once
	set  *Set
	err  error
}

func (s *sharedSet) startOnce(o Options) (*Set, error) {
	s.once.Do(func() { s.set, s.err = Up(shared.ctx, o) })
	return s.set, s.err
}

// requireSet returns the set, or skips or fails the test.
func (s *sharedSet) requireSet(t TB, o Options) *Set {
	t.Helper()
	if !shared.inMain {
		t.Fatalf("%s: this package's tests need: func TestMain(m *testing.M) { servers.Main(m) }", t.Name())
	}
	set, err := s.startOnce(o)
	Require(t, err)
	return set
}

// shutDown ends the set, and prevents it from starting later.
func (s *sharedSet) shutDown() error {
	s.once.Do(func() { s.err = errors.New("the tests are over") })
	if s.set == nil {
		return nil
	}
	return s.set.Down()
}

// Main runs a package's tests, ends the servers that Database and Broker started, and exits the process, also
// after Ctrl-C:
//
//	func TestMain(m *testing.M) { servers.Main(m) }
func Main(m interface{ Run() int }) {
	shared.inMain = true
	shared.ctx, shared.cancel = context.WithCancel(context.Background())
	interrupted := make(chan os.Signal, 1)
	ossignal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		shared.cancel()  // a server may be starting right now
		_ = downShared() // the process exits anyway
		os.Exit(130)
	}()
	code := m.Run()
	if err := downShared(); err != nil {
		fmt.Fprintln(os.Stderr, "provision:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func downShared() error {
	var wg sync.WaitGroup
	var pgErr, mqErr error
	wg.Go(func() { pgErr = shared.postgres.shutDown() })
	wg.Go(func() { mqErr = shared.rabbitmq.shutDown() })
	wg.Wait()
	return errors.Join(pgErr, mqErr)
}

// Database returns an empty database on the PostgreSQL that this test process shares; it is dropped when the
// test ends. A test that stops or kills the server must restart it, or better use Own.
//
// Without PostgreSQL the test is skipped with the reason. With CI=true it fails instead, unless
// HANDOFF_WITHOUT declares that this machine has none.
func Database(t TB) *DB {
	t.Helper()
	db, err := shared.postgres.requireSet(t, Options{Postgres: true}).Postgres.CreateDatabase(context.Background())
	if err != nil {
		t.Fatalf("making a database: %v", err)
	}
	t.Cleanup(func() { dropAfterTest(t, db.Name, db.Drop) })
	return db
}

// Broker returns an empty virtual host on the RabbitMQ that this test process shares; it is dropped when the
// test ends. See Database. If Prefix is set, names must begin with it.
func Broker(t TB) *MQ {
	t.Helper()
	mq, err := shared.rabbitmq.requireSet(t, Options{RabbitMQ: true}).RabbitMQ.CreateVhost(context.Background())
	if err != nil {
		t.Fatalf("making a virtual host: %v", err)
	}
	t.Cleanup(func() { dropAfterTest(t, mq.Vhost, mq.Drop) })
	return mq
}

// Own provides servers for a single test that stops, kills or pauses them; they end with the test. It ignores
// given addresses, and skips or fails the test as Database does.
func Own(t TB, o Options) *Set {
	t.Helper()
	o.PrivateOnly = true
	set, err := Up(context.Background(), o)
	Require(t, err)
	t.Cleanup(func() {
		if err := set.Down(); err != nil {
			t.Errorf("ending servers: %v", err)
		}
	})
	return set
}

// Require skips or fails a test whose servers are unavailable, as Database does. err is the result
// of Up or EnsureInstalled.
func Require(t TB, err error) {
	t.Helper()
	var unavailable *UnavailableError
	switch {
	case err != nil && errors.As(err, &unavailable) && unavailable.OnlyWithout():
		t.Skipf("not run: %v", err)
	case err != nil && errors.As(err, &unavailable) && os.Getenv("CI") != "true":
		t.Skipf("not run: %v", err)
	case err != nil:
		// A server that was found but does not start is a failure on every machine.
		t.Fatalf("%v", err)
	}
}

func dropAfterTest(t TB, name string, drop func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupWithin)
	defer cancel()
	if err := drop(ctx); err != nil {
		t.Errorf("dropping %s: %v", name, err)
	}
}
