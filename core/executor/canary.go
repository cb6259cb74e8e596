package executor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/host"
	"handoff/core/telemetry"
)

// canaryInterval is how often an executor tests the dead letter path after a successful test. A
// test costs the broker two short-lived queues and two messages. If the path breaks in between, the
// timeout monitor still finds the executions, so a few minutes are short enough.
const canaryInterval = 5 * time.Minute

// suspectInterval is the shortest time between two tests while unreadable messages arrive. Whoever sends them
// may also have sent a message that stops dead lettering.
const suspectInterval = 30 * time.Second

// endedTests is the number of consecutive tests that must lose their session before the path counts as
// broken. The executor's own session must stay open meanwhile. While dead lettering is stuck, RabbitMQ closes
// any connection that declares a queue (S5).
const endedTests = 3

// deadLetterPath tests dead lettering with canary messages, at start and then regularly, because nothing else
// reveals a missing binding or exchange.
type deadLetterPath struct {
	*Service
	suspicious host.Signal
	// watched is the time since which hasSettled has tested the path at least every watchGap. last is the
	// time of its latest test. Only one task uses these fields.
	watched, last time.Duration

	mu     sync.Mutex
	tested bool
	broken error
	// good is the time since which every test has succeeded; it is valid only if the last test succeeded.
	good time.Duration
}

// Every three minutes the broker retries dead letters that had no route. A binding may be removed and
// restored between two tests. So before a queue is deleted, every pass tests the path for longer than three
// minutes. By then the broker has retried the queue's dead letters while the path worked.
const (
	watchedFor = 200 * time.Second
	watchGap   = 2 * idleQueueSweep
)

func newDeadLetterPath(s *Service) *deadLetterPath {
	return &deadLetterPath{Service: s, suspicious: s.host.NewSignal()}
}

// requestTest requests a test soon.
func (d *deadLetterPath) requestTest() { d.suspicious.Set() }

// run tests the path until ctx ends.
func (d *deadLetterPath) run(ctx context.Context) {
	backoff := broker.NewBackoff(d.host, d.config.MessageQueue.RabbitMQ.ReconnectMin, time.Minute)
	ended := 0
	for ctx.Err() == nil {
		began := d.host.Monotonic()
		err := d.testPath(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			backoff.Reset()
			ended = 0
			if d.waitForNext(ctx) != nil {
				return
			}
			continue
		case errors.Is(err, broker.ErrClosed) || errors.Is(err, broker.ErrUnavailable):
			// A session that ends proves nothing about the path, and the client logs it. But the test itself
			// may be ending the session each time.
			d.limited.LogAttrs(ctx, slog.LevelInfo, "the session of a test of the dead letter path has ended, testing it again", slog.Any("error", err))
			if ended++; d.client.ConnectedFor() < d.host.Monotonic()-began {
				ended = 0
			}
			if ended >= endedTests {
				d.limited.LogAttrs(ctx, slog.LevelError, "the broker ends the connection of each test of the dead letter path, testing it again", slog.Int("tests", ended))
				d.noteResult(errTestEnds)
			}
		default:
			d.limited.LogAttrs(ctx, slog.LevelError, "the dead letter path does not work, testing it again", slog.Any("error", err))
			d.noteResult(err)
		}
		if backoff.Wait(ctx) != nil {
			return
		}
	}
}

// errTestEnds is the path's error if every test loses its session.
var errTestEnds = errors.New("the broker ends the connection of each test")

// waitForNext waits after a successful test until the next one is due, which is sooner if unreadable messages
// arrive.
func (d *deadLetterPath) waitForNext(ctx context.Context) error {
	if err := d.host.Sleep(ctx, suspectInterval); err != nil {
		return err
	}
	_, err := d.suspicious.Wait(ctx, canaryInterval-suspectInterval)
	return err
}

// testPath sends one canary, after the service's own session has declared the topology. The canary has its
// own session: a failure must not end the executor's session, and the canary's queues must not outlive the
// test.
func (d *deadLetterPath) testPath(ctx context.Context) error {
	if _, err := d.client.Session(ctx); err != nil {
		return err
	}
	session, err := d.broker.Connect(ctx)
	if err != nil {
		return err
	}
	defer session.Close()
	err = broker.Canary(ctx, d.host, session, d.config.MessageQueue.RabbitMQ)
	if err == nil {
		d.noteResult(nil)
	}
	return err
}

// noteResult records the result of a test.
func (d *deadLetterPath) noteResult(broken error) {
	now := d.host.Monotonic()
	d.mu.Lock()
	if !d.tested || d.broken != nil {
		d.good = now
	}
	d.tested, d.broken = true, broken
	d.mu.Unlock()
	d.recorder.Set(telemetry.DeadLetterPathBroken, flagValue(broken != nil), telemetry.Labels{})
}

// hasSettled tests the path. It reports whether the path works, and has worked long enough for the broker to
// have routed every retained dead letter. Each pass calls it while a queue is due for deletion.
func (d *deadLetterPath) hasSettled(ctx context.Context) bool {
	d.mu.Lock()
	good := d.tested && d.broken == nil
	d.mu.Unlock()
	if !good {
		d.last = 0
		return false
	}
	// The last test may be minutes old; a new one shows whether the path has broken since.
	if err := d.testPath(ctx); err != nil {
		d.limited.LogAttrs(ctx, slog.LevelInfo, "the dead letter path could not be tested, so no queue is deleted before the next pass", slog.Any("error", err))
		d.requestTest()
		d.last = 0
		return false
	}
	now := d.host.Monotonic()
	if d.last == 0 || now-d.last > watchGap {
		d.watched = now
	}
	d.last = now
	d.mu.Lock()
	since := d.good
	d.mu.Unlock()
	return now-d.watched >= watchedFor && now-since >= canaryInterval
}

// DeadLetterPath returns the result of the last test of the dead letter path: nil if its message
// arrived, or if dead lettering is disabled.
func (s *Service) DeadLetterPath() error {
	if !s.config.MessageQueue.RabbitMQ.DeadLetter.Enabled {
		return nil
	}
	s.path.mu.Lock()
	defer s.path.mu.Unlock()
	switch {
	case s.path.broken != nil:
		return errors.New("the dead letter path does not work; the log says why")
	case !s.path.tested:
		return errors.New("not tested yet")
	}
	return nil
}
