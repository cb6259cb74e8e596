package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"handoff/core/execution"
	"handoff/core/store"
)

func TestCancelOverHTTP(t *testing.T) {
	b := setup(t, nil)
	b.store.rows = []execution.Execution{
		{ID: 1, Action: execution.Action{Ref: "core.echo"}, Status: execution.Requested},
		{ID: 2, Action: execution.Action{Ref: "core.echo"}, Status: execution.Running, Worker: 1, Incarnation: 1, Epoch: 1},
		{ID: 3, Action: execution.Action{Ref: "core.echo"}, Status: execution.Completed},
	}
	for id, want := range map[int]string{1: "202 cancelled", 2: "202 canceling", 3: "409 " + typeEnded, 9: "404 " + typeNotFound} {
		a := b.do("POST", fmt.Sprintf("%s/%d/cancel", executionsPath, id), "")
		text := a.json["type"]
		if a.status == 202 {
			text = a.json["status"]
		}
		if got := fmt.Sprint(a.status, " ", text); got != want {
			t.Errorf("cancel %d: %s, want %s (%s)", id, got, want, a.text)
		}
	}
	if a := b.do("POST", executionsPath+"/2/cancel", "{}"); a.status != 202 {
		t.Errorf("asked again, with an empty body: %+v", a)
	}
	if a := b.do("POST", executionsPath+"/2/cancel", `{"force": true}`); a.status != 400 || !strings.Contains(a.text, `"field":"/force"`) {
		t.Errorf("a body that says something: %+v", a)
	}
}

func TestRetryOverHTTP(t *testing.T) {
	b := setup(t, nil)
	action := execution.Action{Ref: "core.echo", MaxRetries: 1}
	handled := time.Unix(1e9, 0)
	b.store.rows = []execution.Execution{
		{ID: 1, Action: action, Status: execution.Failed, FailureReason: execution.Connection, OrchestratedAt: handled, Parameters: []byte(`{"a":1}`), Pinned: 4},
		{ID: 2, Action: action, Status: execution.Abandoned, FailureReason: execution.WorkerLost, OrchestratedAt: handled, Original: 1, RetryCount: 1, Parameters: []byte(`{"a":1}`), Pinned: 4},
		{ID: 3, Action: action, Status: execution.Completed, OrchestratedAt: handled},
		{ID: 4, Action: action, Status: execution.Running},
		{ID: 5, Action: action, Status: execution.Failed, FailureReason: execution.Connection},
	}
	b.store.workers = []store.WorkerRow{{WorkerKey: store.WorkerKey{ID: 4}}}
	first := b.do("POST", executionsPath+"/1/retry", "", "Idempotency-Key", "again")
	second := b.do("POST", executionsPath+"/2/retry", "", "Idempotency-Key", "again")
	if first.status != 201 || first.json["id"] != 6.0 || second.status != 200 || second.json["id"] != 6.0 {
		t.Errorf("first %+v, second %+v", first, second)
	}
	if row := b.store.rows[5]; string(row.Parameters) != `{"a":1}` || row.Pinned != 4 || row.Original != 0 {
		t.Errorf("the new execution is %+v", row)
	}
	for id, want := range map[int]string{3: "has completed", 4: "has not ended", 5: "is about to be retried"} {
		if a := b.do("POST", fmt.Sprintf("%s/%d/retry", executionsPath, id), ""); a.status != 409 || a.json["type"] != typeNotRetriable || !strings.Contains(a.text, want) {
			t.Errorf("retry of %d: %+v, want %q", id, a, want)
		}
	}
}

func TestChildBelongsToParentChain(t *testing.T) {
	b := setup(t, nil)
	b.store.rows = []execution.Execution{
		{ID: 1, Action: execution.Action{Ref: "core.echo"}, Status: execution.Running},
		{ID: 2, Action: execution.Action{Ref: "core.echo"}, Status: execution.Requested, Original: 1, RetryCount: 1},
		{ID: 3, Action: execution.Action{Ref: "core.echo"}, Status: execution.Failed},
	}
	child := func(parent int) answer {
		return b.do("POST", executionsPath, fmt.Sprintf(`{"action_ref": "core.echo", "parent": %d}`, parent), "Idempotency-Key", "k")
	}
	first, again, other := child(2), child(1), child(3)
	if first.status != 201 || again.status != 200 || again.json["id"] != first.json["id"] {
		t.Errorf("a child of a chain, named by either of its rows: %+v, %+v", first, again)
	}
	if other.status != 422 || other.json["type"] != typeKeyReused {
		t.Errorf("a child of another chain under the same key: %+v", other)
	}
	a := b.do("GET", first.header.Get("Location"), "")
	if a.json["parent"] != 1.0 || a.json["awaits_parent"] != true {
		t.Errorf("the child: %s", a.text)
	}
	if a := b.do("POST", executionsPath, `{"action_ref": "core.echo", "parent": 3}`); a.status != 201 || a.json["status"] != "cancelled" {
		t.Errorf("a child of what has failed: %+v", a)
	}
}

func TestLists(t *testing.T) {
	b := setup(t, nil)
	for id := execution.ID(1); id <= 5; id++ {
		b.store.rows = append(b.store.rows, execution.Execution{ID: id, Action: execution.Action{Ref: "core.echo"}, Status: execution.Completed, Worker: 7})
	}
	b.store.rows[1].Status, b.store.rows[3].Action.Ref, b.store.rows[2].Original, b.store.rows[2].RetryCount = execution.Failed, "core.other", 2, 1
	b.store.audit = map[execution.ID][]store.Transition{2: {
		{To: execution.Requested, By: execution.API, At: time.Unix(1e9, 0)},
		{From: execution.Requested, To: execution.Scheduling, By: execution.Scheduler, At: time.Unix(1e9, 0)},
	}}
	for query, want := range map[string]string{
		"":                   "[5 4 3 2 1] <nil>",
		"?limit=2":           "[5 4] 4",
		"?limit=2&before=4":  "[3 2] 2",
		"?limit=2&before=2":  "[1] <nil>",
		"?status=failed":     "[2] <nil>",
		"?action_ref=core.x": "[] <nil>",
		"?worker_id=7&before=2&action_ref=core.echo": "[1] <nil>",
		"/2/chain": "[2 3] <nil>",
	} {
		a := b.do("GET", executionsPath+query, "")
		var ids []any
		list, _ := a.json["executions"].([]any)
		for _, e := range list {
			ids = append(ids, e.(map[string]any)["id"])
		}
		if got := fmt.Sprint(ids, " ", a.json["before"]); a.status != 200 || got != want {
			t.Errorf("%s: %d %s, want %s", query, a.status, got, want)
		}
	}
	for query, want := range map[string]string{
		"?status=faild": `"field":"status"`, "?limit=0": `"field":"limit"`, "?limit=501": "from 1 to 500", "?before=x": `"field":"before"`,
		"?stats=failed": `"nearest":"status"`, "?limit=1&limit=2": "duplicate parameter",
	} {
		if a := b.do("GET", executionsPath+query, ""); a.status != 400 || !strings.Contains(a.text, want) {
			t.Errorf("%s: %d %s, want %s", query, a.status, a.text, want)
		}
	}
	a := b.do("GET", executionsPath+"/2/transitions", "")
	if a.status != 200 || !strings.Contains(a.text, `"from":"requested","to":"scheduling","epoch":0,"writer":"scheduler"`) || !strings.Contains(a.text, `"from":null,"to":"requested"`) {
		t.Errorf("transitions: %s", a.text)
	}
}

// Two callers never share a key.
func TestIdempotencyKeysArePerCaller(t *testing.T) {
	stored := func(token string) string {
		b := setup(t, func(o *Options) { o.Tokens = defaultToken(token) })
		a := b.do("POST", executionsPath, echo, "Idempotency-Key", "k", "Authorization", "Bearer "+token)
		got := b.do("GET", a.header.Get("Location"), "", "Authorization", "Bearer "+token)
		if a.status != 201 || got.json["idempotency_key"] != "k" {
			t.Fatalf("token %q: %+v, %s", token, a, got.text)
		}
		return b.store.rows[0].IdempotencyKey
	}
	one, two, none := stored("one"), stored("two"), stored("")
	if one == two || none != "core.echo k" || strings.Contains(one, "one") {
		t.Errorf("stored keys: %q, %q, %q", one, two, none)
	}
}
