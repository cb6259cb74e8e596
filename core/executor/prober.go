package executor

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// Prober probes a worker's health endpoint. Probe returns nil only if the endpoint reports before ctx ends
// that the worker is ready. It returns ErrElsewhere if this machine can't reach the endpoint.
type Prober interface {
	Probe(ctx context.Context, url string) error
}

// ErrElsewhere means that only another machine can reach a health endpoint, so the probe shows nothing about
// its worker.
var ErrElsewhere = errors.New("the health endpoint listens on the loopback address of another machine")

const (
	// probeTimeout bounds one probe.
	probeTimeout = 2 * time.Second
	// unreachableAfter is the number of consecutive probes that must fail before a worker counts as
	// unreachable, because a single probe may be lost.
	unreachableAfter = 3
	// probesAtOnce is the maximum number of concurrent probes. With several at once, a dead network costs a
	// timeout for each group, not for each worker.
	probesAtOnce = 16
	// longestReason is the maximum length of a recorded reason, in bytes.
	longestReason = 300
)

// probes holds the results of this executor's probes, in the memory of this process only: other machines may
// reach a worker differently. A probe can only make an executor prefer other workers. It changes no worker,
// so it can't reactivate one that drains, has stopped or is cordoned (defect D46).
type probes struct {
	// observing reports whether selection ignores the results.
	observing bool

	mu sync.Mutex
	// failed is the number of consecutive failures, by incarnation.
	failed map[execution.Incarnation]int

	// recorded is the readiness of each incarnation that this executor last wrote to the database in mode
	// observe. Only the probing task uses it.
	recorded map[execution.Incarnation]bool
}

// isAvoided reports whether selection prefers other workers because of the probes.
func (p *probes) isAvoided(i execution.Incarnation) bool { return !p.observing && p.isUnreachable(i) }

func (p *probes) isUnreachable(i execution.Incarnation) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed[i] >= unreachableAfter
}

// probeWorkers probes every active worker that has an endpoint, and forgets the results of all others.
func (s *Service) probeWorkers(context.Context) error {
	workers, err := askStore(s.db, s.store.Workers, nil)
	if err != nil {
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
	known := 0
	for i := range probed {
		if !errors.Is(errs[i], ErrElsewhere) {
			probed[known], errs[known] = probed[i], errs[i]
			known++
		}
	}
	probed, errs = probed[:known], errs[:known]
	before := s.probes.replaceResults(probed, errs)
	if s.probes.observing {
		return s.observeProbes(probed, errs)
	}
	for i := range probed {
		if was, is := before[i] >= unreachableAfter, s.probes.isUnreachable(probed[i].Incarnation); was != is {
			s.log.LogAttrs(context.Background(), slog.LevelWarn, "a worker's health endpoint changed", append([]slog.Attr{
				slog.String("worker", probed[i].Name), slog.String("url", probed[i].HealthURL), slog.Bool("reachable", !is),
			}, whyUnreachable(errs[i])...)...)
		}
	}
	return nil
}

// observeProbes records which workers selection would avoid because of the probes, and which no
// longer. It also reports a worker that answers this process's first probe: its outage may have
// begun before this process did.
func (s *Service) observeProbes(probed []store.WorkerRow, errs []error) error {
	var ws []store.ProbedWorker
	var of []int
	for i := range probed {
		ready := !s.probes.isUnreachable(probed[i].Incarnation)
		told, known := s.probes.recorded[probed[i].Incarnation]
		if known && told == ready || ready && errs[i] != nil {
			continue
		}
		w := store.ProbedWorker{WorkerKey: probed[i].WorkerKey, Ready: ready}
		if errs[i] != nil {
			w.Reason = reasonOf(errs[i])
		}
		ws, of = append(ws, w), append(of, i)
	}
	if len(ws) == 0 {
		return nil
	}
	changed, err := askStore(s.db, s.store.ObserveWorkers, ws)
	if err != nil {
		return err
	}
	for n, w := range ws {
		s.probes.recorded[w.Incarnation] = w.Ready
		if !changed[n] {
			continue
		}
		would := store.WouldAvoid
		if w.Ready {
			would = "reachable"
		}
		row := &probed[of[n]]
		s.recorder.Add(telemetry.Observed, 1, telemetry.Labels{store.PartProber, would})
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "a worker's health endpoint changed, observe only", append([]slog.Attr{
			slog.String("worker", row.Name), slog.String("url", row.HealthURL), slog.Bool("reachable", w.Ready), slog.Bool("would_avoid", !w.Ready),
		}, whyUnreachable(errs[of[n]])...)...)
	}
	return nil
}

// whyUnreachable returns log attributes that explain a failed probe; none for a successful one.
func whyUnreachable(err error) []slog.Attr {
	if err == nil {
		return nil
	}
	return []slog.Attr{slog.String("error", reasonOf(err))}
}

// reasonOf returns an error's text in a form that the database accepts: the text may come from any server.
func reasonOf(err error) string {
	text := strings.ReplaceAll(err.Error(), "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), longestReason)], "")
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

// replaceResults stores the results of a round, in which errs[i] belongs to workers[i], and returns each
// worker's previous number of consecutive failures.
func (p *probes) replaceResults(workers []store.WorkerRow, errs []error) (before []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	failed := make(map[execution.Incarnation]int, len(workers))
	told := make(map[execution.Incarnation]bool, len(workers))
	for i := range workers {
		at := workers[i].Incarnation
		before = append(before, p.failed[at])
		if errs[i] != nil {
			failed[at] = p.failed[at] + 1
		}
		if ready, known := p.recorded[at]; known {
			told[at] = ready
		}
	}
	p.failed, p.recorded = failed, told
	return before
}
