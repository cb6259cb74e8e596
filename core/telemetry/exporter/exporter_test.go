package exporter_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"handoff/core/telemetry"
	"handoff/core/telemetry/exporter"
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
