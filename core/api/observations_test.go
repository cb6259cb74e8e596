package api

import (
	"strings"
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func TestObservationsArePagedAndFiltered(t *testing.T) {
	const path = "/api/v1/observations"
	b := setup(t, nil)
	at := time.Unix(2e9, 0)
	b.store.observations = []store.Observation{
		{ID: 1, Part: store.PartMonitor, Key: execution.Key{ID: 5, Epoch: 3}, Worker: store.WorkerKey{ID: 7, Incarnation: 9}, Would: "requested", Reason: "dispatch_timeout", At: at},
		{ID: 2, Part: store.PartProber, Worker: store.WorkerKey{ID: 8, Incarnation: 10}, Would: store.WouldAvoid, Reason: "503 Service Unavailable", At: at, EndedAt: at.Add(time.Minute)},
		{ID: 3, Part: store.PartMonitor, Key: execution.Key{ID: 6, Epoch: 1}, Worker: store.WorkerKey{ID: 7, Incarnation: 9}, Would: "timeout", Reason: "run_timeout", At: at},
	}
	for query, want := range map[string]string{
		"":                               `"id":3, "id":2, "id":1, before null`,
		"?limit=2":                       `"id":3, "id":2, before 2`,
		"?before=2":                      `"id":1, before null`,
		"?part=health_prober":            `"id":2, before null`,
		"?worker=7&part=health_prober":   `before null`,
		"?execution=6":                   `"id":3, before null`,
		"?worker=7&execution=5&before=3": `"id":1, before null`,
	} {
		a := b.do("GET", path+query, "")
		var seen []string
		for _, id := range []string{`"id":3`, `"id":2`, `"id":1`} {
			if strings.Contains(a.text, id) {
				seen = append(seen, id)
			}
		}
		before := "before null"
		if a.json["before"] == 2.0 {
			before = "before 2"
		}
		if got := strings.Join(append(seen, before), ", "); a.status != 200 || got != want {
			t.Errorf("%q is answered with %d, %s; want %s", query, a.status, got, want)
		}
	}
	a := b.do("GET", path, "")
	for _, want := range []string{
		`"part":"execution_timeout_monitor","execution":5,"epoch":3,"worker":7,"worker_name":null,"would":"requested","reason":"dispatch_timeout","at":"2033-05-18T03:33:20Z","ended_at":null`,
		`"part":"health_prober","execution":null,"epoch":null,"worker":8,"worker_name":null,"would":"unreachable","reason":"503 Service Unavailable","at":"2033-05-18T03:33:20Z","ended_at":"2033-05-18T03:34:20Z"`,
	} {
		if !strings.Contains(a.text, want) {
			t.Errorf("%s is missing in %s", want, a.text)
		}
	}
	for _, query := range []string{"?part=scheduler", "?limit=501", "?execution=x", "?opne=1"} {
		if a := b.do("GET", path+query, ""); a.status != 400 || !strings.Contains(a.text, `"errors"`) {
			t.Errorf("%s is answered with %d: %s", query, a.status, a.text)
		}
	}
}
