package exporter_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"handoff/core/telemetry"
	"handoff/core/telemetry/exporter"
	"handoff/core/testenv"
)

func TestFiguresAreScraped(t *testing.T) {
	e := exporter.New()
	e.Add(telemetry.DeadLetters, 3, telemetry.Labels{"expired", "reclaimed"})
	e.Set(telemetry.OldestExecution, int64(1500*time.Millisecond), telemetry.Labels{"scheduled"})
	e.Set(telemetry.ReaperBrake, 1, telemetry.Labels{})
	e.Observe(telemetry.StageSeconds, 2*time.Second, telemetry.Labels{"running"})
	w := httptest.NewRecorder()
	e.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`handoff_dead_letters_total{outcome="reclaimed",reason="expired"} 3`,
		`handoff_oldest_execution_age_seconds{status="scheduled"} 1.5`,
		`handoff_reaper_brake 1`,
		`handoff_stage_duration_seconds_sum{stage="running"} 2`,
		`go_goroutines`,
	} {
		if !strings.Contains(w.Body.String(), line) {
			t.Errorf("%q is not in\n%s", line, w.Body.String())
		}
	}
}

// In the protobuf format, which Prometheus requests, a counter has its creation time. So Prometheus can
// assume that it began at 0, and its value at the first scrape is an increase.
func TestCountersHaveCreationTime(t *testing.T) {
	e := exporter.New()
	e.Add(telemetry.DeadLetters, 100, telemetry.Labels{"expired", "reclaimed"})
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	e.Handler().ServeHTTP(w, r)
	decoder := expfmt.NewDecoder(w.Body, expfmt.ResponseFormat(w.Header()))
	for {
		var family dto.MetricFamily
		if err := decoder.Decode(&family); err != nil {
			t.Fatalf("no such counter: %v", err)
		}
		if family.GetName() != telemetry.Table()[telemetry.DeadLetters].Name {
			continue
		}
		if at := family.GetMetric()[0].GetCounter().GetCreatedTimestamp(); at == nil || time.Since(at.AsTime()) > testenv.Patience() {
			t.Errorf("created at %v", at)
		}
		return
	}
}
