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

// Stall is a time in which the machine made no progress.
type Stall struct {
	// What describes the delayed operation.
	What string
	// At is when the stall began, since the start of the run. For is its duration.
	At, For time.Duration
}

// noiseWatch measures the machine's delays during a run: of this process's wake-ups, of disk writes, of short
// processes, and of new database connections through a proxy without faults. No worker can keep a lease on a
// stalled machine.
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

// newNoiseWatch returns a watch whose times count from the beginning of the run, like those of the history.
func newNoiseWatch(began time.Time) *noiseWatch {
	n := &noiseWatch{began: began}
	n.ctx, n.end = context.WithCancel(context.Background())
	return n
}

// watchNoise starts all probes. ask opens a new connection to the database, as a process does.
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
		// A process with one child, like an action under its shim.
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

// runProbe calls do periodically and records a stall if a call takes too long. It ignores calls that fail,
// because a fault may be the cause.
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

// unansweredStatements returns the statements that, by the processes' logs, the database did not answer in
// time, although no fault affected the process or the database at that time. The probes have their own
// connections, so they miss a stall of one session.
func unansweredStatements(events []history.Event, c *config.Config) []Stall {
	var stalls []Stall
	lasting := make(map[string]int)         // number of faults in effect, by target
	ended := make(map[string]time.Duration) // end of the target's last fault
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
			if strings.Contains(e.Text, " executor=") { // executors name themselves in each such line
				timeout = c.Executor.StatementTimeout
			}
			if from := e.At - timeout; !struck(e.Process, from) && !struck(fault.Database, from) {
				stalls = append(stalls, Stall{"the database did not answer a statement of " + e.Process, from, timeout})
			}
		}
	}
	return stalls
}

// tolerableStall returns the longest stall after which a verdict is still valid. Heartbeats can lose a
// quarter of a lease. A worker or a shim that ends actions can lose the fence margin minus the kill grace.
func tolerableStall(c config.Worker) time.Duration {
	return min(oracle.Lease(&c)/4, c.FenceMargin-c.KillGrace)
}

// noiseReason returns why violations can't be trusted; empty if they can. The reason is a stall longer than
// tolerable that ended less than a lease before one of them. For an unmet expectation or an alert, any stall
// counts, because these concern the whole run.
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
