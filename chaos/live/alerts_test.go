package live

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/live/cluster"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/telemetry"
	"handoff/core/telemetry/exporter"
)

// fixedProcess is a process whose running state never changes.
type fixedProcess struct {
	cluster.Instance
	running bool
}

func (f fixedProcess) Running() bool { return f.running }

// watchedWorld returns a world in real time with one executor, whose HTTP handler is h.
func watchedWorld(t *testing.T, running bool, h http.Handler) (*world, *process) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	w := &world{ctx: t.Context(), scenario: &scenario.Scenario{}, config: config.Default(config.Hardened), options: Options{Scale: 1}, began: time.Now()}
	w.injector = w.newInjector(w.scenarioClock())
	p := &process{w: w, name: "executor-1", since: time.Now().Add(-time.Hour)}
	p.daemon = cluster.NewSupervised(p.name, strings.TrimPrefix(server.URL, "http://"), func() (cluster.Instance, error) { return fixedProcess{running: running}, nil })
	if err := p.daemon.Launch(); err != nil {
		t.Fatal(err)
	}
	w.processes = []*process{p}
	w.expectAlerts(scenario.Alerts{Resolves: []string{"reaper_brake"}})
	return w, p
}

// recordedStory returns the run's alerts and log lines so far, without their times.
func recordedStory(w *world) (story string) {
	for _, item := range w.ownEvents() {
		switch e := item.Event; e.Kind {
		case history.AlertFired:
			story += "+" + e.Fault + " "
		case history.AlertResolved:
			story += "-" + e.Fault + " "
		case history.Logged:
			story += e.Text + " "
		default:
		}
	}
	return story
}

func TestScrapeReachesAlertRules(t *testing.T) {
	figures := exporter.New()
	w, _ := watchedWorld(t, true, figures.Handler())
	figures.Set(telemetry.ReaperBrake, 1, telemetry.Labels{})
	w.alerts.Sample()
	if !w.alerts.Pending() {
		t.Error("no alert is pending although the brake holds")
	}
	if got := recordedStory(w); got != "+reaper_brake " {
		t.Errorf("the record: %q", got)
	}
	if missed := w.stopAlerts(); missed != 0 {
		t.Errorf("%d scrapes were missed", missed)
	}
	if w.scraper.collectAnswers() != nil {
		t.Error("scraping continues after stopAlerts")
	}
}

func TestFailedScrapeIsRecorded(t *testing.T) {
	broken := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	cut := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("handoff_reaper_brake")) })
	for _, c := range []struct {
		name    string
		running bool
		handler http.Handler
		spoil   func(*process)
		want    string
	}{
		{"process answers with an error", true, broken, nil, "scrape of executor-1 failed: http"},
		{"answer is not a metrics page", true, cut, nil, "scrape of executor-1 failed: reading metrics"},
		{"process is down", false, broken, nil, ""},
		{"process was paused", true, broken, func(p *process) { p.pauses.Store(1) }, ""},
		{"process has just started", true, broken, func(p *process) { p.since = time.Now() }, ""},
	} {
		w, p := watchedWorld(t, c.running, c.handler)
		if c.spoil != nil {
			c.spoil(p)
		}
		w.alerts.Sample()
		missed := w.stopAlerts()
		if got := recordedStory(w); !strings.Contains(got, c.want) || (c.want == "") != (got == "") || (missed == 1) != (c.want != "") {
			t.Errorf("%s: %q, %d missed", c.name, got, missed)
		}
	}
}
