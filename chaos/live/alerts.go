package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/live/scrape"
	"handoff/chaos/run"
	"handoff/chaos/scenario"
	"handoff/core/telemetry"
)

// monitoring is the scraper's name in a run's record.
const monitoring = "monitoring"

// scraper reads the daemons' metrics. It connects directly, not through the daemons' links, because
// monitoring must not break with the system.
type scraper struct {
	w        *world
	interval time.Duration
	client   *http.Client
	ctx      context.Context //nolint:containedctx // of the scrapes
	end      context.CancelFunc

	// The alerts take one sample at a time, so these fields need no lock. missed counts failed scrapes of
	// running processes.
	reader *scrape.Reader
	missed int
}

// expectAlerts sets up the alert rules. Nothing is scraped unless the scenario has expectations of alerts.
func (w *world) expectAlerts(expected scenario.Alerts) {
	interval := time.Duration(float64(telemetry.SampleInterval) * w.options.Scale)
	s := &scraper{
		w: w, interval: interval,
		// Two thirds of the interval is Prometheus' default timeout. A kept connection could break while the
		// process is paused.
		client: &http.Client{Timeout: interval * 2 / 3, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	s.ctx, s.end = context.WithCancel(w.ctx)
	w.scraper, w.alerts = s, run.NewAlerts(expected, run.AlertsOptions{
		Clock: w.scenarioClock(), Every: interval, Patience: run.Patience(w.config, len(w.scenario.Cluster.Workers), interval),
		Collect: s.collectAnswers, Emit: w.recordEvent,
	})
	if evaluator := w.alerts.Evaluator(); evaluator != nil {
		s.reader = scrape.New(evaluator, w.options.Scale)
	}
}

// stopAlerts stops scraping, and returns the number of failed scrapes of running processes.
func (w *world) stopAlerts() (missed int) {
	w.scraper.end()
	w.alerts.Stop()
	return w.scraper.missed
}

// scrapeAnswer is a process's page, or the error of the scrape.
type scrapeAnswer struct {
	process string
	page    []byte
	err     error
	// due reports whether the process should have answered: it has run for an interval without a pause.
	due bool
}

// collectAnswers scrapes every process and returns a function that records the answers.
func (s *scraper) collectAnswers() (hand func()) {
	processes := s.w.allProcesses()
	answers := make([]scrapeAnswer, len(processes))
	var asked sync.WaitGroup
	for i, p := range processes {
		asked.Go(func() { answers[i] = s.scrapeProcess(p) })
	}
	asked.Wait()
	if s.ctx.Err() != nil {
		return nil
	}
	return func() {
		for i := range answers {
			s.recordAnswer(answers[i])
		}
	}
}

// scrapeProcess scrapes one process.
func (s *scraper) scrapeProcess(p *process) scrapeAnswer {
	out := scrapeAnswer{process: p.name, due: p.isActiveFor(s.interval)}
	if !p.isAlive() {
		out.err, out.due = errNotRunning, false
		return out
	}
	out.page, out.err = fetchPage(s.ctx, s.client, p.daemon.URL+"/metrics")
	out.due = out.due && p.isActiveFor(s.interval)
	return out
}

var errNotRunning = errors.New("the process does not run")

// fetchPage returns the body of a response with status 200.
func fetchPage(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", request.URL.Redacted(), response.Status)
	}
	return page, err
}

// recordAnswer passes an answer to the evaluator. If a running process did not answer, it logs that in the
// run's record.
func (s *scraper) recordAnswer(from scrapeAnswer) {
	if from.err == nil {
		from.err = s.reader.Take(from.process, bytes.NewReader(from.page))
	}
	if from.err == nil {
		return
	}
	s.reader.Gone(from.process)
	if from.due {
		s.missed++
		s.w.recordEvent(history.Event{Kind: history.Logged, Process: monitoring, Text: fmt.Sprintf("WARN scrape of %s failed: %v", from.process, from.err)})
	}
}
