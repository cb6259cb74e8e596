package scrape_test

import (
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"handoff/chaos/alert"
	"handoff/chaos/live/scrape"
	"handoff/core/telemetry"
	"handoff/core/telemetry/exporter"
)

// exporterPage returns an exporter's page.
func exporterPage(e *exporter.Exporter) io.Reader {
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body
}

// bothRecorders records each figure twice: in an exporter that is scraped, and directly in an evaluator.
type bothRecorders []telemetry.Recorder

func (b bothRecorders) Listens() bool { return true }

func (b bothRecorders) Add(f telemetry.Figure, n int64, l telemetry.Labels) {
	for _, r := range b {
		r.Add(f, n, l)
	}
}

func (b bothRecorders) Set(f telemetry.Figure, v int64, l telemetry.Labels) {
	for _, r := range b {
		r.Set(f, v, l)
	}
}

func (b bothRecorders) Drop(f telemetry.Figure, series ...telemetry.Labels) {
	for _, r := range b {
		r.Drop(f, series...)
	}
}

func (b bothRecorders) Observe(f telemetry.Figure, d time.Duration, l telemetry.Labels) {
	for _, r := range b {
		r.Observe(f, d, l)
	}
}

// matchingLabels returns labels that a query selects and, if possible, other labels that it doesn't select.
func matchingLabels(q *telemetry.Query) (selected, other telemetry.Labels) {
	for i := range telemetry.Table()[q.Figure].Labels {
		selected[i], other[i] = "any", "any"
		if len(q.Match[i]) > 0 {
			selected[i], other[i] = q.Match[i][0], "none of them"
		}
	}
	return selected, other
}

// reportRule makes a rule's condition true or false, with values slightly beyond its limit.
func reportRule(to telemetry.Recorder, r *telemetry.Rule, holds bool) {
	say := func(q *telemetry.Query, value int64) {
		selected, other := matchingLabels(q)
		info := telemetry.Table()[q.Figure]
		if info.Kind == telemetry.Counter {
			if value > 0 {
				to.Add(q.Figure, value, selected)
			}
			return
		}
		if info.Kind == telemetry.Histogram {
			for range r.Samples {
				to.Observe(q.Figure, time.Duration(value)*time.Second, selected)
			}
			return
		}
		if info.Seconds {
			value = int64(time.Duration(value)*time.Second) + int64(time.Millisecond)
		}
		if other != selected {
			to.Set(q.Figure, 1, other)
		}
		to.Set(q.Figure, value, selected)
	}
	switch {
	case r.Absent && holds:
	case r.Absent:
		say(&r.Of, 0)
	case telemetry.Table()[r.Of.Figure].Kind == telemetry.Histogram && !holds:
		say(&r.Of, 0)
	case r.Per != nil && holds:
		say(r.Per, r.Samples*2)
		say(&r.Of, r.Samples*20)
	case r.Per != nil:
		say(r.Per, r.Samples*20)
		say(&r.Of, 0)
	case r.Zero == holds:
		say(&r.Of, 0)
	default:
		say(&r.Of, r.Above+1)
	}
}

// For every rule, the same alerts fire and resolve whether the core reports the figures to the evaluator or
// the evaluator reads them from a page.
func TestScrapedFiguresFireTheSameAlerts(t *testing.T) {
	for _, rule := range telemetry.Rules() {
		e, told, scraped := exporter.New(), alert.NewEvaluator(), alert.NewEvaluator()
		core, reader := bothRecorders{e, told.Process("executor-1")}, scrape.New(scraped, 1)
		var stories [2]string
		for i := range 80 {
			if i == 0 || i == 40 || rule.Per != nil {
				reportRule(core, &rule, i < 40)
			}
			if err := reader.Take("executor-1", exporterPage(e)); err != nil {
				t.Fatalf("%s: %v", rule.Name, err)
			}
			for n, b := range []*alert.Evaluator{told, scraped} {
				for _, c := range b.Look(time.Duration(i) * telemetry.SampleInterval) {
					stories[n] += map[bool]string{true: "+", false: "-"}[c.Firing] + c.Alert + " "
				}
			}
		}
		if stories[0] != stories[1] || !strings.Contains(stories[0], "+"+rule.Name+" ") || !strings.Contains(stories[0], "-"+rule.Name+" ") {
			t.Errorf("%s: reported %q, read %q", rule.Name, stories[0], stories[1])
		}
	}
}

// firedAlerts takes one sample and returns the alerts that start to fire.
func firedAlerts(b *alert.Evaluator, at time.Duration) (names []string) {
	for _, c := range b.Look(at) {
		if c.Firing {
			names = append(names, c.Alert)
		}
	}
	return names
}

func TestReaderScalesSeconds(t *testing.T) {
	for seconds, fires := range map[int]bool{11: false, 13: true} {
		e, b := exporter.New(), alert.NewEvaluator()
		e.Set(telemetry.OrchestrationLag, int64(time.Duration(seconds)*time.Second), telemetry.Labels{})
		if err := scrape.New(b, 0.2).Take("executor-1", exporterPage(e)); err != nil {
			t.Fatal(err)
		}
		if got := firedAlerts(b, 0); (len(got) == 1 && got[0] == "orchestration_lag") != fires {
			t.Errorf("a lag of %d s at a fifth of real time: %v", seconds, got)
		}
	}
}

func TestReaderCountsGrowthAcrossCounterRestart(t *testing.T) {
	b := alert.NewEvaluator()
	reader := scrape.New(b, 1)
	take := func(dead int64) {
		e := exporter.New()
		if dead > 0 {
			e.Add(telemetry.DeadLetters, dead, telemetry.Labels{"expired", "reclaimed"})
		}
		if err := reader.Take("executor-1", exporterPage(e)); err != nil {
			t.Fatal(err)
		}
	}
	take(8)
	if got := firedAlerts(b, 0); got != nil {
		t.Errorf("eight: %v", got)
	}
	take(0) // the process has restarted, and has counted nothing yet
	take(2)
	if got := firedAlerts(b, telemetry.SampleInterval); got != nil {
		t.Errorf("two more after a restart are ten: %v", got)
	}
	take(3)
	if got := firedAlerts(b, 2*telemetry.SampleInterval); len(got) != 1 || got[0] != "dlq_rate" {
		t.Errorf("another one makes eleven: %v", got)
	}
}

func TestGoneProcessLosesItsGauges(t *testing.T) {
	b := alert.NewEvaluator()
	reader := scrape.New(b, 1)
	e := exporter.New()
	e.Set(telemetry.ReaperBrake, 1, telemetry.Labels{})
	if err := reader.Take("executor-1", exporterPage(e)); err != nil || !b.Firing("reaper_brake") && len(firedAlerts(b, 0)) != 1 {
		t.Fatalf("the brake holds: %v", err)
	}
	reader.Gone("executor-1")
	if changes := b.Look(telemetry.SampleInterval); len(changes) != 1 || changes[0].Firing {
		t.Errorf("without an answer: %v", changes)
	}
}

// The reader ignores the figures of a daemon's connection pools, which the core does not report.
func TestReaderIgnoresPoolFigures(t *testing.T) {
	e, b := exporter.New(), alert.NewEvaluator()
	e.Pools([]string{"work"}, func() telemetry.PoolUse { return telemetry.PoolUse{Most: 4, InUse: 1} })
	e.Set(telemetry.ReaperBrake, 1, telemetry.Labels{})
	if err := scrape.New(b, 1).Take("executor-1", exporterPage(e)); err != nil || len(firedAlerts(b, 0)) != 1 {
		t.Errorf("the brake holds: %v", err)
	}
}

func TestReaderRejectsInvalidPages(t *testing.T) {
	for text, foreign := range map[string]bool{
		"<html>":                         false,
		"handoff_reaper_brake 1":         false, // cut off
		"handoff_reaper_break 1\n":       true,
		"handoff_dead_letters_total 1\n": true,
		"# TYPE handoff_reaper_brake gauge\nhandoff_reaper_brake{of=\"x\"} 1\n":                                                true,
		"# TYPE handoff_reaper_brake counter\nhandoff_reaper_brake 1\n":                                                        true,
		"# TYPE handoff_reaper_brake gauge\nhandoff_reaper_brake 1\n# TYPE handoff_workers gauge\nhandoff_workers{a=\"\"} 1\n": true,
	} {
		b := alert.NewEvaluator()
		err := scrape.New(b, 1).Take("executor-1", strings.NewReader(text))
		if err == nil || errors.Is(err, scrape.ErrForeign) != foreign {
			t.Errorf("%q: %v", text, err)
		}
		if got := firedAlerts(b, 0); got != nil {
			t.Errorf("%q was taken despite the error: %v", text, got)
		}
	}
}
