package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// instance is the process of a PostgreSQL or RabbitMQ. A given server has none: launch is nil. Several
// goroutines may call its methods; they take effect one at a time.
type instance struct {
	name       string                                // for errors
	launch     func(context.Context) (server, error) // runs it
	probe      func(context.Context) error           // succeeds if our own server answers
	log        func() string                         // the path of its log
	stopSignal signal
	// before starts what the server needs beside itself; nil for nothing.
	before func(context.Context) error

	mu     sync.Mutex
	server server // nil before the first start
}

// Time limits for a server. They are generous, for a machine that is busy with other things; they
// are no expectations.
const (
	startWithin   = 5 * time.Minute
	stopWithin    = 3 * time.Minute
	cleanupWithin = 2 * time.Minute
)

// Private reports whether the server was started here and may be stopped, killed and paused.
func (i *instance) Private() bool { return i.launch != nil }

// Log is the path of the server's log, empty for a given server. A container's log is written there
// at the call.
func (i *instance) Log() string {
	if !i.Private() {
		return ""
	}
	return i.log()
}

// Start runs a stopped or killed server again, with the same data and port, and returns when it
// answers: after recovery, if it was killed. RabbitMQ takes about 4 s.
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

// Stop ends the server gracefully. PostgreSQL closes connections and rolls transactions back, so no
// recovery is needed; RabbitMQ writes everything to disk.
func (i *instance) Stop() error {
	return i.withServer(func(s server) error { return s.stop(i.stopSignal, stopWithin) })
}

// Kill ends the server with all its processes at once, with SIGKILL; the next Start recovers.
func (i *instance) Kill() error { return i.withServer(func(s server) error { s.kill(); return nil }) }

// Pause freezes the server with all its processes: connections stay open and nothing answers.
func (i *instance) Pause() error { return i.withServer(server.pause) }

// Resume lets a paused server continue.
func (i *instance) Resume() error {
	return i.withServer(func(s server) error { s.resume(); return nil })
}

// Running reports whether the process lives, paused or not. It is always true for a given server.
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
	// open makes the server's database or virtual host.
	open  func(context.Context) error
	close func() error
	// logs is what other programs than the server say about their ports.
	logs func() string
	// what describes the server for the log, and address is where it listens.
	what, address string
}

// startServer starts a private server, at most three times if another process takes one of its ports
// first.
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

// imageError names the variable by which another image can be chosen.
func imageError(variable string, err error) error {
	return fmt.Errorf("%w (%s names another image)", err, variable)
}
