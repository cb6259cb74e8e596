package live

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/oracle"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/store"
)

// Stall is a time in which the machine didn't do its work.
type Stall struct {
	// What describes what failed to happen.
	What string
	// At is its beginning, counted from the start of the run, and For its duration.
	At, For time.Duration
}

// noiseWatch watches the machine during a run: whether this process wakes in time, the disk accepts a
// write in time, a process starts and ends in time, as actions and their shims must, and a new
// connection through a proxy without faults is answered in time. A lease can't be kept on a machine
// that stands still.
type noiseWatch struct {
	began time.Time
	ctx   context.Context //nolint:containedctx // of the probes
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu     sync.Mutex
	stalls []Stall
}

const (
	// The periods of the probes. Each new connection costs the server a process.
	wakeEvery  = 10 * time.Millisecond
	syncEvery  = 250 * time.Millisecond
	spawnEvery = 500 * time.Millisecond
	askEvery   = time.Second
	// leastStall is the shortest stall that is recorded.
	leastStall = 100 * time.Millisecond
)

// newNoiseWatch makes a watch that, like the events of the history, counts from the beginning of the
// run.
func newNoiseWatch(began time.Time) *noiseWatch {
	n := &noiseWatch{began: began}
	n.ctx, n.end = context.WithCancel(context.Background())
	return n
}

// watchNoise begins the watch. ask takes the way of a process that connects anew.
func watchNoise(began time.Time, folder string, ask func(ctx context.Context) error) *noiseWatch {
	n := newNoiseWatch(began)
	path := filepath.Join(folder, "probe")
	for _, p := range []struct {
		every time.Duration
		what  string
		do    func(ctx context.Context) error
	}{
		{wakeEvery, "the harness was not woken", func(context.Context) error { return nil }},
		{syncEvery, "the disk did not take a write", func(context.Context) error { return syncFile(path) }},
		// Two processes, one the parent of the other, like an action under its shim.
		{spawnEvery, "a process did not start and end", func(ctx context.Context) error { return exec.CommandContext(ctx, "sh", "-c", "sleep 0").Run() }},
		{askEvery, "a new connection to the database was not answered", ask},
	} {
		n.tasks.Go(func() { n.runProbe(p.every, p.what, p.do) })
	}
	return n
}

// syncFile writes a file and waits for the disk.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write([]byte("probe")); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// runProbe does something periodically and records when it took too long. It ignores errors: a fault
// may have made the request fail.
func (n *noiseWatch) runProbe(every time.Duration, what string, do func(ctx context.Context) error) {
	for {
		began := time.Now()
		err := do(n.ctx)
		select {
		case <-n.ctx.Done():
			return
		case <-time.After(every):
		}
		if late := time.Since(began) - every; late >= leastStall && err == nil {
			n.mu.Lock()
			n.stalls = append(n.stalls, Stall{what, began.Sub(n.began), late})
			n.mu.Unlock()
		}
	}
}

// stop ends the watch and returns the stalls.
func (n *noiseWatch) stop() []Stall {
	n.end()
	n.tasks.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stalls
}

// unansweredStatements are the statements that the database did not answer in time, as the processes
// log it, although no fault struck the process or the database while they waited. The probes use
// connections of their own, so they miss a stall of one session.
func unansweredStatements(events []history.Event, c *config.Config) []Stall {
	var stalls []Stall
	lasting := make(map[string]int)         // faults, by what they strike
	ended := make(map[string]time.Duration) // the last one of each
	struck := func(name string, from time.Duration) bool {
		at, any := ended[name]
		return lasting[name] > 0 || any && at >= from
	}
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case history.FaultBegan:
			for name := range strings.SplitSeq(e.Process, ",") {
				lasting[name]++
			}
		case history.FaultEnded:
			for name := range strings.SplitSeq(e.Process, ",") {
				lasting[name]--
				ended[name] = e.At
			}
		case history.Logged:
			if !strings.Contains(e.Text, store.ErrUnknownOutcome.Error()) || !strings.Contains(e.Text, context.DeadlineExceeded.Error()) {
				continue
			}
			timeout := c.Worker.StatementTimeout
			if strings.Contains(e.Text, " executor=") { // each such line of an executor says who it is
				timeout = c.Executor.StatementTimeout
			}
			if from := e.At - timeout; !struck(e.Process, from) && !struck(fault.Database, from) {
				stalls = append(stalls, Stall{"the database did not answer a statement of " + e.Process, from, timeout})
			}
		}
	}
	return stalls
}

// tolerableStall is how long the machine may stand still without making a verdict worthless.
// Heartbeats can lose a quarter of a lease; a worker or a shim that ends actions can lose the fence
// margin minus the kill grace.
func tolerableStall(c config.Worker) time.Duration {
	return min(oracle.Lease(&c)/4, c.FenceMargin-c.KillGrace)
}

// noiseReason says why violations can't be trusted: a longer stall that ended less than a lease before
// one of them. For an unmet expectation or an alert, a stall anywhere counts, because these concern
// the whole run. Empty if the violations can be trusted.
func noiseReason(violations []verdict.Violation, stalls []Stall, c config.Worker) string {
	lease, most := oracle.Lease(&c), tolerableStall(c)
	for _, s := range stalls {
		if s.For <= most {
			continue
		}
		for i := range violations {
			v := &violations[i]
			if v.Invariant == 0 || v.Invariant == invariant.AlertsNumber {
				return fmt.Sprintf("%s for %v at %v, and what is expected of the whole run was not met", s.What, s.For.Round(time.Millisecond), s.At.Round(time.Millisecond))
			}
			if v.At >= s.At && v.At <= s.At+s.For+lease {
				return fmt.Sprintf("%s for %v at %v, and the violation at %v is within a lease of it", s.What, s.For.Round(time.Millisecond), s.At.Round(time.Millisecond), v.At.Round(time.Millisecond))
			}
		}
	}
	return ""
}
