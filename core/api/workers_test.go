package api

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func withWorkers(t *testing.T) *bundle {
	b := setup(t, nil)
	b.store.workers = []store.WorkerRow{
		{WorkerKey: store.WorkerKey{ID: 1, Incarnation: 4}, Name: "shell-1", Lifecycle: execution.Active, Runtimes: []string{"shell"}, Capacity: 4, LeaseOverFor: -9 * time.Second, Load: 2, Queued: 1},
		{
			WorkerKey: store.WorkerKey{ID: 2, Incarnation: 5}, Name: "shell-2", Lifecycle: execution.Stopped,
			LastBeat: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC),
			Figures:  execution.Figures{Total: 20, Failed: 8, Consecutive: 1, Average: 2500 * time.Microsecond},
			Expired:  []time.Duration{time.Second, 2 * time.Second, time.Hour},
		},
	}
	return b
}

// A worker's health is computed for each request: from the worker's report, and from the dispatches that died
// in its queue within the window.
func TestWorkersAreListedWithHealth(t *testing.T) {
	b := withWorkers(t)
	list := b.do(http.MethodGet, "/api/v1/workers", "")
	workers, _ := list.json["workers"].([]any)
	if list.status != http.StatusOK || len(workers) != 2 {
		t.Fatalf("%d %s", list.status, list.text)
	}
	for _, path := range []string{"/api/v1/workers/2", "/api/v1/workers/shell-2"} {
		a := b.do(http.MethodGet, path, "")
		h, _ := a.json["capabilities"].(map[string]any)["health"].(map[string]any)
		got := fmt.Sprint(a.json["lifecycle"], h["status"], h["total_executions"], h["failed_executions"], h["consecutive_failures"], h["average_execution_time_ms"], h["last_check"])
		if want := fmt.Sprint("stopped", "degraded", 22.0, 10.0, 3.0, 2.5, "2030-01-01T12:00:00Z"); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if a := b.do(http.MethodGet, "/api/v1/workers/nobody", ""); a.status != http.StatusNotFound {
		t.Errorf("an unknown worker: %d %s", a.status, a.text)
	}
	b.store.fails = []error{store.ErrUnavailable}
	if a := b.do(http.MethodGet, "/api/v1/workers", ""); a.status != http.StatusServiceUnavailable {
		t.Errorf("without a database: %d %s", a.status, a.text)
	}
}

func TestCordonAndDrainRecordRequest(t *testing.T) {
	b := withWorkers(t)
	for _, c := range []struct {
		path, body string
		status     int
		want       store.Cordon
	}{
		{"shell-1/cordon", `{"reason": "disk"}`, http.StatusOK, store.Cordon{Worker: 1, On: true, Reason: "disk"}},
		{"1/cordon", "", http.StatusOK, store.Cordon{Worker: 1, On: true}},
		{"1/uncordon", "", http.StatusOK, store.Cordon{Worker: 1}},
		{"2/drain", `{"reason": "old"}`, http.StatusOK, store.Cordon{Worker: 2, On: true, Reason: "old", Drain: true}},
		{"1/uncordon", `{"reason": "x"}`, http.StatusBadRequest, store.Cordon{}},
		{"1/cordon", `{"because": "x"}`, http.StatusBadRequest, store.Cordon{}},
		{"1/cordon", `{"reason": 1}`, http.StatusBadRequest, store.Cordon{}},
		{"9/cordon", "", http.StatusNotFound, store.Cordon{}},
	} {
		b.store.cordons = nil
		a := b.do(http.MethodPost, "/api/v1/workers/"+c.path, c.body)
		if a.status != c.status {
			t.Errorf("%s %s: %d %s", c.path, c.body, a.status, a.text)
			continue
		}
		if c.status == http.StatusOK && (len(b.store.cordons) != 1 || b.store.cordons[0] != c.want || a.json["cordoned"] != c.want.On) {
			t.Errorf("%s %s: %+v, answered %s", c.path, c.body, b.store.cordons, a.text)
		}
		if c.status != http.StatusOK && len(b.store.cordons) != 0 {
			t.Errorf("%s %s was refused, but carried out", c.path, c.body)
		}
	}
}

func TestPinnedWorkerIsPartOfRequest(t *testing.T) {
	b := withWorkers(t)
	const path = "/api/v1/executions"
	if a := b.do(http.MethodPost, path, `{"action_ref": "core.echo", "worker_id": 2}`, "Idempotency-Key", "k"); a.status != http.StatusCreated || b.store.rows[0].Pinned != 2 {
		t.Errorf("pinned: %d %s", a.status, a.text)
	}
	if a := b.do(http.MethodPost, path, `{"action_ref": "core.echo", "worker_id": 1}`, "Idempotency-Key", "k"); a.status != http.StatusUnprocessableEntity {
		t.Errorf("the same key for another worker: %d %s", a.status, a.text)
	}
	if a := b.do(http.MethodPost, path, `{"action_ref": "core.echo", "worker_id": 9}`); a.status != http.StatusUnprocessableEntity || a.json["type"] != typeUnknownWorker {
		t.Errorf("an unknown worker: %d %s", a.status, a.text)
	}
	for _, bad := range []string{"0", "null", `"1"`, "1.5"} {
		if a := b.do(http.MethodPost, path, `{"action_ref": "core.echo", "worker_id": `+bad+`}`); a.status != http.StatusBadRequest {
			t.Errorf("worker_id %s: %d %s", bad, a.status, a.text)
		}
	}
	if a := b.do(http.MethodGet, path+"/1", ""); a.json["pinned_worker"] != 2.0 {
		t.Errorf("shown: %s", a.text)
	}
}

// A number in a path is always a worker's id; a name made of digits needs the prefix "name:".
func TestWorkerIDTakesPrecedenceOverName(t *testing.T) {
	b := withWorkers(t)
	b.store.workers = append([]store.WorkerRow{{WorkerKey: store.WorkerKey{ID: 3, Incarnation: 6}, Name: "2", Lifecycle: execution.Active}}, b.store.workers...)
	b.store.workers = append(b.store.workers, store.WorkerRow{WorkerKey: store.WorkerKey{ID: 4, Incarnation: 7}, Name: "name:2", Lifecycle: execution.Active})
	for path, id := range map[string]execution.WorkerID{"2": 2, "02": 2, "name:2": 3, "name:shell-1": 1, "name:name:2": 4, "shell-2": 2} {
		b.store.cordons = nil
		a := b.do(http.MethodPost, "/api/v1/workers/"+path+"/drain", "")
		if a.status != http.StatusOK || len(b.store.cordons) != 1 || b.store.cordons[0].Worker != id {
			t.Errorf("%s: %d, %+v, want worker %d", path, a.status, b.store.cordons, id)
		}
	}
	for _, path := range []string{"7", "name:7", "name:", "99999999999999999999"} {
		if a := b.do(http.MethodPost, "/api/v1/workers/"+path+"/drain", ""); a.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
}
