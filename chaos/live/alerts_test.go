package live

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/live/cluster"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/telemetry"
	"handoff/core/telemetry/exporter"
)

// standing is a process that runs, or does not.
type standing struct {
	cluster.Process
	running bool
}

func (s standing) Running() bool { return s.running }

// watched is a world of one executor that answers at a server of the test, at real time.
func watched(t *testing.T, running bool, h http.Handler) (*alerts, *process) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	w := &world{scenario: &scenario.Scenario{}, config: config.Default(config.Hardened), options: Options{Scale: 1}, began: time.Now()}
	w.injector = w.newInjector()
	p := &process{w: w, name: "executor-1", since: time.Now().Add(-time.Hour)}
	p.daemon = cluster.NewSupervised(p.name, strings.TrimPrefix(server.URL, "http://"), func() (cluster.Process, error) { return standing{running: running}, nil })
	if err := p.daemon.Launch(); err != nil {
		t.Fatal(err)
	}
	w.processes = []*process{p}
	return newAlerts(w, scenario.Alerts{Resolves: []string{"reaper_brake"}}), p
}

// told are the events and the lines of the run so far, without their moments.
func told(a *alerts) (story string) {
	for _, item := range a.w.own() {
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

func TestARunWaitsUntilItsAlertIsOver(t *testing.T) {
	figures := exporter.New()
	a, _ := watched(t, true, figures.Handler())
	for n, brake := range []int64{0, 1, 1, 0} {
		figures.Set(telemetry.ReaperBrake, brake, telemetry.Labels{})
		a.look(context.Background(), time.Duration(n)*telemetry.SampleInterval)
		for _, atRest := range []bool{false, true} {
			if pending := a.pending(atRest); pending != (brake == 1) {
				t.Errorf("the brake is %d, and the run (at rest: %v) waits for an alert: %v", brake, atRest, pending)
			}
		}
	}
	if got := told(a); got != "+reaper_brake -reaper_brake " {
		t.Errorf("the record: %q", got)
	}
	if a.missed != 0 {
		t.Errorf("%d scrapes were missed", a.missed)
	}
}

// One that never resolves holds a run up for as long as something may still change, and no longer.
func TestARunDoesNotWaitForEver(t *testing.T) {
	figures := exporter.New()
	a, _ := watched(t, true, figures.Handler())
	if least := 2*config.Default(config.Hardened).Worker.Lease() + 5*time.Minute; a.patience < least {
		t.Errorf("a patience of %v, the brake and a window can take %v", a.patience, least)
	}
	figures.Set(telemetry.ReaperBrake, 1, telemetry.Labels{})
	a.look(context.Background(), 0)
	if !a.pending(true) {
		t.Error("it does not wait")
	}
	a.rested = a.rested.Add(-a.patience)
	if a.pending(true) {
		t.Error("it still waits")
	}
	if !a.pending(false) || !a.pending(true) {
		t.Error("something has happened since, and it does not wait")
	}
}

func TestAFailedScrapeIsInTheRecord(t *testing.T) {
	broken := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	cut := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("handoff_reaper_brake")) })
	for _, c := range []struct {
		name    string
		running bool
		handler http.Handler
		spoil   func(*process)
		want    string
	}{
		{"one that answers with an error", true, broken, nil, "scrape of executor-1 failed: http"},
		{"one whose answer is no page", true, cut, nil, "scrape of executor-1 failed: reading metrics"},
		{"one that does not run", false, broken, nil, ""},
		{"one that was paused", true, broken, func(p *process) { p.still.Store(1) }, ""},
		{"one that has just started", true, broken, func(p *process) { p.since = time.Now() }, ""},
	} {
		a, p := watched(t, c.running, c.handler)
		if c.spoil != nil {
			c.spoil(p)
		}
		a.look(context.Background(), 0)
		if got := told(a); !strings.Contains(got, c.want) || (c.want == "") != (got == "") || (a.missed == 1) != (c.want != "") {
			t.Errorf("%s: %q, %d missed", c.name, got, a.missed)
		}
	}
}

func TestAWatchLooksUntilItIsStopped(t *testing.T) {
	var asked atomic.Int64
	again := make(chan struct{})
	a, _ := watched(t, true, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if asked.Add(1) == 3 {
			close(again)
		}
	}))
	a.interval = 10 * time.Millisecond
	a.watch(context.Background())
	<-again
	if missed := a.stop(); missed != 0 {
		t.Errorf("%d scrapes of a process that answers failed: %s", missed, told(a))
	}
	ended := asked.Load()
	if a.tasks.Wait(); asked.Load() != ended {
		t.Error("somebody still asks")
	}
}

func TestNobodyAsksWhereNoAlertIsExpected(t *testing.T) {
	a := newAlerts(&world{}, scenario.Alerts{})
	a.watch(context.Background())
	if a != nil || a.pending(true) || a.stop() != 0 {
		t.Error("a scenario without alerts is watched")
	}
}
