package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"handoff/chaos/alert"
	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/live/scrape"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/telemetry"
)

// monitoring is the name of whoever scrapes the daemons, in the record of a run.
const monitoring = "monitoring"

// alerts judges the alert rules over a run whose scenario expects something of them, on what the daemons answer
// at /metrics. They are asked directly and not through their links: who watches a system is no part of what is
// broken. In all other runs nobody asks.
type alerts struct {
	w        *world
	wait     []string
	interval time.Duration
	// patience is how long a run that is at rest otherwise waits for an alert to be over, and rested since when it is.
	patience time.Duration
	rested   time.Time
	client   *http.Client
	end      context.CancelFunc
	tasks    sync.WaitGroup

	mu        sync.Mutex
	evaluator *alert.Evaluator
	reader    *scrape.Reader
	missed    int
}

func newAlerts(w *world, expected scenario.Alerts) *alerts {
	if !expected.Any() {
		return nil
	}
	evaluator := alert.NewEvaluator()
	interval := time.Duration(float64(telemetry.SampleInterval) * w.options.Scale)
	return &alerts{
		w: w, wait: expected.Resolves, interval: interval, patience: patience(w.config, len(w.scenario.Cluster.Workers), w.options.Scale),
		// Prometheus gives up after two thirds of its interval by default. A connection that is kept would be
		// one more thing that a process which stands still has to lose.
		client:    &http.Client{Timeout: interval * 2 / 3, Transport: &http.Transport{DisableKeepAlives: true}},
		evaluator: evaluator, reader: scrape.New(evaluator, w.options.Scale),
	}
}

// watch looks at the rules once every sample interval until the run is over.
func (a *alerts) watch(ctx context.Context) {
	if a == nil {
		return
	}
	ctx, a.end = context.WithCancel(ctx)
	a.tasks.Go(func() {
		began := time.Now()
		for n := 0; ; n = int(time.Since(began)/a.interval) + 1 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(began.Add(time.Duration(n) * a.interval))):
			}
			a.look(ctx, time.Duration(n)*telemetry.SampleInterval)
		}
	})
}

// answer is what a process said, or why it did not.
type answer struct {
	process string
	page    []byte
	err     error
	// due says that the process should have answered: it has run for an interval and stood still at no time.
	due bool
}

// look asks every process, and judges the rules at a moment of the scenario's own time.
func (a *alerts) look(ctx context.Context, now time.Duration) {
	processes := a.w.all()
	answers := make([]answer, len(processes))
	var asked sync.WaitGroup
	for i, p := range processes {
		asked.Go(func() { answers[i] = a.ask(ctx, p) })
	}
	asked.Wait()
	if ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range answers {
		a.take(answers[i])
	}
	for _, c := range a.evaluator.Look(now) {
		kind := history.AlertResolved
		if c.Firing {
			kind = history.AlertFired
		}
		a.w.emit(history.Event{Kind: kind, Fault: c.Alert})
	}
}

// ask scrapes one process.
func (a *alerts) ask(ctx context.Context, p *process) answer {
	out := answer{process: p.name, due: p.movesSince(a.interval)}
	if !p.alive() {
		out.err, out.due = errNotRunning, false
		return out
	}
	out.page, out.err = a.get(ctx, p.daemon.URL+"/metrics")
	out.due = out.due && p.movesSince(a.interval)
	return out
}

var errNotRunning = errors.New("the process does not run")

func (a *alerts) get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", url, response.Status)
	}
	return page, err
}

// take hands an answer to the evaluator. That none came from a process that was up is noted in the run's record.
func (a *alerts) take(from answer) {
	if from.err == nil {
		from.err = a.reader.Take(from.process, bytes.NewReader(from.page))
	}
	if from.err == nil {
		return
	}
	a.reader.Gone(from.process)
	if from.due {
		a.missed++
		a.w.emit(history.Event{Kind: history.Logged, Process: monitoring, Text: fmt.Sprintf("WARN scrape of %s failed: %v", from.process, from.err)})
	}
}

// patience is how long an alert may outlive everything else of a run: until the last worker that is over is marked as
// lost, the brake's hold included, and the longest window of a rule has passed, and then what it takes to see it.
func patience(c config.Config, workers int, scale float64) time.Duration {
	longest := time.Duration(0)
	for _, r := range telemetry.Rules() {
		longest = max(longest, r.Of.Window+r.For)
	}
	b := invariant.BoundsOf(c)
	return b.Warmup + b.WorkerDead + b.Hold + time.Duration(workers)*b.Trickle +
		time.Duration(float64(longest+4*telemetry.SampleInterval)*scale)
}

// pending says that an alert fires which has to resolve, and still may. atRest says that the run waits for nothing else.
// It is for one task.
func (a *alerts) pending(atRest bool) bool {
	if a == nil {
		return false
	}
	if !atRest {
		a.rested = time.Time{}
	} else if a.rested.IsZero() {
		a.rested = time.Now()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.wait, a.evaluator.Firing) && (!atRest || time.Since(a.rested) < a.patience)
}

// stop ends the watch, and returns how many scrapes of processes that were up have failed.
func (a *alerts) stop() (missed int) {
	if a == nil {
		return 0
	}
	a.end()
	a.tasks.Wait()
	return a.missed
}
