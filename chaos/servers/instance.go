package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// instance is a PostgreSQL or RabbitMQ across restarts. launch is nil for a given server. Its methods are
// safe for concurrent use.
type instance struct {
	name       string                                // for errors
	launch     func(context.Context) (server, error) // starts it
	probe      func(context.Context) error           // succeeds if this very server answers
	log        func() string                         // returns the path of its log
	stopSignal signal
	// before starts other processes that the server needs; nil for none.
	before func(context.Context) error

	mu     sync.Mutex
	server server // nil before the first start
}

// Timeouts for a server. They suffice on a very busy machine, and say nothing about the usual times.
const (
	startWithin   = 5 * time.Minute
	stopWithin    = 3 * time.Minute
	cleanupWithin = 2 * time.Minute
)

// Private reports whether this process started the server, and so may stop, kill and pause it.
func (i *instance) Private() bool { return i.launch != nil }

// Log returns the path of the server's log; empty for a given server. For a container, it first writes the
// log to that path.
func (i *instance) Log() string {
	if !i.Private() {
		return ""
	}
	return i.log()
}

// Start restarts a stopped or killed server with the same data and port. It returns when the server answers,
// after any recovery. RabbitMQ takes about 4 s.
func (i *instance) Start(ctx context.Context) error {
	if !i.Private() {
		return ErrNotOurs
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.server != nil && i.server.isRunning() {
		return errors.New(i.name + " already runs")
	}
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	if i.before != nil {
		if err := i.before(ctx); err != nil {
			return err
		}
	}
	s, err := i.launch(ctx)
	if err != nil {
		return err
	}
	i.server = s
	if err := awaitAnswer(ctx, i.probe, s.isRunning); err != nil {
		s.kill()
		return &StartError{Component: i.name, Err: err, LogTail: logTail(i.log())}
	}
	return nil
}

// Stop ends the server gracefully. PostgreSQL closes connections and rolls transactions back, so it needs no
// recovery. RabbitMQ writes everything to disk.
func (i *instance) Stop() error {
	return i.withServer(func(s server) error { return s.stop(i.stopSignal, stopWithin) })
}

// Kill ends all processes of the server at once, with SIGKILL; the next Start recovers.
func (i *instance) Kill() error { return i.withServer(func(s server) error { s.kill(); return nil }) }

// Pause suspends all processes of the server: connections stay open and nothing answers.
func (i *instance) Pause() error { return i.withServer(server.pause) }

// Resume lets a paused server continue.
func (i *instance) Resume() error {
	return i.withServer(func(s server) error { s.resume(); return nil })
}

// Running reports whether the process exists, paused or not. It is always true for a given server.
func (i *instance) Running() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return !i.Private() || i.server != nil && i.server.isRunning()
}

func (i *instance) withServer(f func(server) error) error {
	if !i.Private() {
		return ErrNotOurs
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.server == nil {
		return nil
	}
	return f(i.server)
}

// attempt is one attempt to start a private server.
type attempt struct {
	start func(context.Context) error
	// open creates the server's database or virtual host.
	open  func(context.Context) error
	close func() error
	// logs returns the logs of other programs that the server needs; nil for none.
	logs func() string
	// what describes the server in log messages. address is its listening address.
	what, address string
}

// startServer starts a private server. If another process takes one of its ports first, it retries, with at
// most three attempts.
func startServer(ctx context.Context, name string, log *lineLog, prepare func(n int) (*attempt, error)) error {
	began := time.Now()
	for n := 1; ; n++ {
		a, err := prepare(n)
		if err != nil {
			return &StartError{Component: name, Err: err}
		}
		if err = a.start(ctx); err == nil {
			if err = a.open(ctx); err != nil {
				return errors.Join(&StartError{Component: name, Err: err}, a.close())
			}
			log.printf("%s: %s on %s, ready in %v", name, a.what, a.address, time.Since(began).Round(10*time.Millisecond))
			return nil
		}
		said := err.Error()
		if a.logs != nil {
			said += a.logs()
		}
		if err = errors.Join(err, a.close()); n == 3 || !portTaken(said) {
			return err
		}
	}
}

// imageError adds the name of the variable that selects another image.
func imageError(variable string, err error) error {
	return fmt.Errorf("%w (%s names another image)", err, variable)
}
