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

// canaryInterval is how often an executor tests the dead letter path after a test that went well. A test costs the
// broker two queues for a moment and two messages. A path that breaks in between loses no execution, because the timeout
// monitor is behind it, so minutes are soon enough.
const canaryInterval = 5 * time.Minute

// suspectInterval is the least time between two tests where messages come that nobody can read: who sends garbage may also
// have sent what ends dead lettering.
const suspectInterval = 30 * time.Second

// endedTests is how many tests in a row may end with their session, while the executor's own session stands, before the
// path counts as broken. RabbitMQ closes the connection that makes a queue while its dead lettering stands still (S5).
const endedTests = 3

// deadLetterPath sends canaries: at start, and again and again, because a binding or an exchange that somebody takes away
// later shows itself by nothing else.
type deadLetterPath struct {
	*Service
	suspicious host.Signal
	// watched is since when settled has tested the path at least every watchGap, last when it did so last. One task reads
	// and writes them.
	watched, last time.Duration

	mu     sync.Mutex
	tested bool
	broken error
	// good is since when every test went well, if the last one did.
	good time.Duration
}

// The broker tries a dead letter without a route again every three minutes. Somebody may take the binding away between two
// tests and somebody else put it back, so before a queue goes the path is tested at every pass for longer than that: what
// the queue kept is then tried again while the path is known to work.
const (
	watchedFor = 200 * time.Second
	watchGap   = 2 * idleQueueSweep
)

func newDeadLetterPath(s *Service) *deadLetterPath {
	return &deadLetterPath{Service: s, suspicious: s.host.NewSignal()}
}

// suspect asks for a test soon.
func (p *deadLetterPath) suspect() { p.suspicious.Set() }

// run tests the path until ctx ends.
func (p *deadLetterPath) run(ctx context.Context) {
	backoff := broker.NewBackoff(p.host, p.config.MessageQueue.RabbitMQ.ReconnectMin, time.Minute)
	ended := 0
	for ctx.Err() == nil {
		began := p.host.Monotonic()
		err := p.test(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			backoff.Reset()
			ended = 0
			if p.waitForNext(ctx) != nil {
				return
			}
			continue
		case errors.Is(err, broker.ErrClosed) || errors.Is(err, broker.ErrUnavailable):
			// A session that ended says nothing about the path, and the client says so in the log; unless it is the
			// test that ends it each time.
			p.limited.LogAttrs(ctx, slog.LevelInfo, "the session of a test of the dead letter path has ended, testing it again", slog.Any("error", err))
			if ended++; p.client.ConnectedFor() < p.host.Monotonic()-began {
				ended = 0
			}
			if ended >= endedTests {
				p.limited.LogAttrs(ctx, slog.LevelError, "the broker ends the connection of each test of the dead letter path, testing it again", slog.Int("tests", ended))
				p.found(errTestEnds)
			}
		default:
			p.limited.LogAttrs(ctx, slog.LevelError, "the dead letter path does not work, testing it again", slog.Any("error", err))
			p.found(err)
		}
		if backoff.Wait(ctx) != nil {
			return
		}
	}
}

// errTestEnds is how a path counts as broken whose test can't even begin.
var errTestEnds = errors.New("the broker ends the connection of each test")

// waitForNext waits for the next test after one that went well. Where messages come that nobody can read, it comes sooner.
func (p *deadLetterPath) waitForNext(ctx context.Context) error {
	if err := p.host.Sleep(ctx, suspectInterval); err != nil {
		return err
	}
	_, err := p.suspicious.Wait(ctx, canaryInterval-suspectInterval)
	return err
}

// test sends one canary, once the service's own session has declared the topology. The canary has a session of its own:
// whatever goes wrong with it must not end the one on which the executor works, and nothing of it outlives its session.
func (p *deadLetterPath) test(ctx context.Context) error {
	if _, err := p.client.Session(ctx); err != nil {
		return err
	}
	session, err := p.broker.Connect(ctx)
	if err != nil {
		return err
	}
	defer session.Close()
	err = broker.Canary(ctx, p.host, session, p.config.MessageQueue.RabbitMQ)
	if err == nil {
		p.found(nil)
	}
	return err
}

// found notes how a test went.
func (p *deadLetterPath) found(broken error) {
	now := p.host.Monotonic()
	p.mu.Lock()
	if !p.tested || p.broken != nil {
		p.good = now
	}
	p.tested, p.broken = true, broken
	p.mu.Unlock()
	value := int64(0)
	if broken != nil {
		value = 1
	}
	p.recorder.Set(telemetry.DeadLetterPathBroken, value, telemetry.Labels{})
}

// settled says that the path works now, and has for a while by all tests: what a queue kept for want of a route has come
// round since. It is asked at every pass while a queue is due to go, and tests the path each time.
func (p *deadLetterPath) settled(ctx context.Context) bool {
	p.mu.Lock()
	good := p.tested && p.broken == nil
	p.mu.Unlock()
	if !good {
		p.last = 0
		return false
	}
	// The last test may be minutes old, and what has broken the path since is told by the next one.
	if err := p.test(ctx); err != nil {
		p.limited.LogAttrs(ctx, slog.LevelInfo, "the dead letter path could not be tested, so no queue is deleted before the next pass", slog.Any("error", err))
		p.suspect()
		p.last = 0
		return false
	}
	now := p.host.Monotonic()
	if p.last == 0 || now-p.last > watchGap {
		p.watched = now
	}
	p.last = now
	p.mu.Lock()
	since := p.good
	p.mu.Unlock()
	return now-p.watched >= watchedFor && now-since >= canaryInterval
}

// DeadLetterPath says how the last test of the dead letter path went: nil if its message came round, or if dead
// lettering is disabled.
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
