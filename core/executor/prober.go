package executor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// Prober asks a worker's health endpoint. An error means that it did not answer that it lives before
// ctx ended.
type Prober interface {
	Probe(ctx context.Context, url string) error
}

const (
	// probeTimeout bounds one probe.
	probeTimeout = 2 * time.Second
	// unreachableAfter is how many probes in a row must fail before a worker counts as unreachable: a
	// single one may be lost.
	unreachableAfter = 3
	// probesAtOnce bounds the probes under way, so that a dead network costs one timeout and not one
	// for each worker.
	probesAtOnce = 16
)

// probes is what this executor's probes found. It is a memory of this process alone: how a worker is
// reached from elsewhere is another question. A probe can only make an executor choose a worker later;
// it writes nothing, so it can't bring back one that drains, has stopped or is cordoned (flaw D46).
type probes struct {
	mu sync.Mutex
	// failed counts failures in a row, by incarnation, of workers that are probed.
	failed map[execution.Incarnation]int
}

func (p *probes) unreachable(i execution.Incarnation) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed[i] >= unreachableAfter
}

// probeWorkers probes every active worker that has an endpoint, and forgets all others.
func (s *Service) probeWorkers(context.Context) error {
	var workers []store.WorkerRow
	if err := s.db(func(ctx context.Context) (err error) {
		workers, err = s.store.Workers(ctx)
		return err
	}); err != nil {
		return err
	}
	var probed []store.WorkerRow
	for i := range workers {
		if w := &workers[i]; w.Lifecycle == execution.Active && w.HealthURL != "" {
			probed = append(probed, *w)
		}
	}
	errs := make([]error, len(probed))
	for begin := 0; begin < len(probed); begin += probesAtOnce {
		s.probeSome(probed[begin:min(begin+probesAtOnce, len(probed))], errs[begin:])
	}
	before := s.probes.replace(probed, errs)
	for i := range probed {
		if was, is := before[i] >= unreachableAfter, s.probes.unreachable(probed[i].Incarnation); was != is {
			s.log.LogAttrs(context.Background(), slog.LevelWarn, "a worker's health endpoint changed",
				slog.String("worker", probed[i].Name), slog.String("url", probed[i].HealthURL), slog.Bool("reachable", !is), slog.Any("error", errs[i]))
		}
	}
	return nil
}

// probeSome probes a few workers at once, and waits for all of them.
func (s *Service) probeSome(workers []store.WorkerRow, errs []error) {
	ctx, cancel := s.host.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	wait := make([]host.Task, len(workers))
	for i := range workers {
		wait[i] = s.host.Go("probe", func() { errs[i] = s.prober.Probe(ctx, workers[i].HealthURL) })
	}
	for _, task := range wait {
		_ = task.Wait(context.Background())
	}
}

// replace notes the outcome of a round, in which errs[i] is of workers[i], and returns how often each had
// failed in a row before it.
func (p *probes) replace(workers []store.WorkerRow, errs []error) (before []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	failed := make(map[execution.Incarnation]int, len(workers))
	for i := range workers {
		at := workers[i].Incarnation
		before = append(before, p.failed[at])
		if errs[i] != nil {
			failed[at] = p.failed[at] + 1
		}
	}
	p.failed = failed
	return before
}
