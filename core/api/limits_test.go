package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"handoff/core/execution"
)

// limited returns the body of an execution with these limits.
func limited(limits string) string {
	if limits == "" {
		return `{"action_ref":"core.echo"}`
	}
	return `{"action_ref":"core.echo",` + limits + `}`
}

func TestExecutionOverridesActionLimits(t *testing.T) {
	b := setup(t, nil)
	b.store.actions["core.echo"] = execution.Action{Ref: "core.echo", Timeout: 30 * time.Second, MaxRetries: 1}
	for _, x := range []struct {
		limits                     string
		timeout, dispatch, retries any
		own                        string
	}{
		{``, 30.0, nil, 1.0, "[]"},
		{`"timeout_seconds":null,"dispatch_timeout_seconds":null,"max_retries":null`, 30.0, nil, 1.0, "[]"},
		{`"timeout_seconds":90`, 90.0, nil, 1.0, "[timeout_seconds]"},
		{`"max_retries":0`, 30.0, nil, 0.0, "[max_retries]"},
		{`"timeout_seconds":30,"dispatch_timeout_seconds":180,"max_retries":100`, 30.0, 180.0, 100.0, "[timeout_seconds dispatch_timeout_seconds max_retries]"},
	} {
		a := b.do("POST", executionsPath, limited(x.limits))
		if a.status != 201 {
			t.Errorf("%s: %d %s", x.limits, a.status, a.text)
			continue
		}
		got := b.do("GET", a.header.Get("Location"), "").json
		if got["timeout_seconds"] != x.timeout || got["dispatch_timeout_seconds"] != x.dispatch || got["max_retries"] != x.retries || fmt.Sprint(got["own_limits"]) != x.own {
			t.Errorf("%s: timeout %v, dispatch timeout %v, retries %v, own %v", x.limits, got["timeout_seconds"], got["dispatch_timeout_seconds"], got["max_retries"], got["own_limits"])
		}
	}
}

func TestExecutionLimitsAreBounded(t *testing.T) {
	b := setup(t, nil)
	for _, x := range []struct {
		limits string
		status int
		want   string
	}{
		{`"timeout_seconds":0`, 400, `"field":"/timeout_seconds","line":1,"column":45,"detail":"must be a whole number from 1 to`},
		{`"timeout_seconds":1.5`, 400, `"field":"/timeout_seconds"`},
		{`"timeout_seconds":"5"`, 400, `"field":"/timeout_seconds"`},
		{`"dispatch_timeout_seconds":-1`, 400, `"field":"/dispatch_timeout_seconds"`},
		{`"max_retries":101`, 400, `"field":"/max_retries","line":1,"column":41,"detail":"must be a whole number from 0 to 100"`},
		{`"dispatch_timeout_seconds":181`, 422, `"field":"/dispatch_timeout_seconds","line":1,"column":54,"detail":"is 181, must not be longer than message_queue.rabbitmq.worker_queue_ttl_ms (3m)`},
	} {
		a := b.do("POST", executionsPath, limited(x.limits))
		if a.status != x.status || !strings.Contains(a.text, x.want) {
			t.Errorf("%s: %d %s, want %d with %s", x.limits, a.status, a.text, x.status, x.want)
		}
	}
	if len(b.store.rows) > 0 {
		t.Errorf("%d executions were created", len(b.store.rows))
	}
	// In a batch, limits that the configuration does not allow refuse only their own item.
	a := b.do("POST", executionsPath+"/batch", `{"executions":[`+limited(`"dispatch_timeout_seconds":181`)+`,`+limited(`"dispatch_timeout_seconds":180`)+`]}`)
	results, _ := a.json["results"].([]any)
	if len(results) != 2 || results[0].(map[string]any)["status"] != 422.0 || results[1].(map[string]any)["status"] != 201.0 ||
		!strings.Contains(a.text, typeInvalidLimits) || !strings.Contains(a.text, `"field":"/executions/0/dispatch_timeout_seconds"`) {
		t.Errorf("the batch: %s", a.text)
	}
	// Without dead lettering a queue has no time to live, so it does not limit the dispatch timeout.
	free := setup(t, func(o *Options) { o.Config.MessageQueue.RabbitMQ.DeadLetter.Enabled = false })
	if a := free.do("POST", executionsPath, limited(`"dispatch_timeout_seconds":181`)); a.status != 201 {
		t.Errorf("without a time to live: %d %s", a.status, a.text)
	}
}

// A repeated request with other limits is a different request. That is also true if it omits a limit that the
// first one set, or sets the value that the first one had from its action.
func TestIdempotencyKeyCoversLimits(t *testing.T) {
	bodies := []string{"", `"timeout_seconds":5`, `"timeout_seconds":6`, `"dispatch_timeout_seconds":5`, `"max_retries":0`, `"max_retries":1`}
	for _, first := range bodies {
		for _, second := range bodies {
			b := setup(t, nil)
			want := 200
			if first != second {
				want = 422
			}
			b.do("POST", executionsPath, limited(first), "Idempotency-Key", "k")
			// A change of the action's own limits does not affect the comparison.
			b.store.actions["core.echo"] = execution.Action{Ref: "core.echo", Timeout: 5 * time.Second, MaxRetries: 7}
			if a := b.do("POST", executionsPath, limited(second), "Idempotency-Key", "k"); a.status != want {
				t.Errorf("{%s} and then {%s}: %d, want %d", first, second, a.status, want)
			}
			keyed := func(limits string) string {
				return strings.Replace(limited(limits), "{", `{"idempotency_key":"batch",`, 1)
			}
			a := b.do("POST", executionsPath+"/batch", `{"executions":[`+keyed(first)+`,`+keyed(second)+`]}`)
			results, _ := a.json["results"].([]any)
			if len(results) != 2 || results[1].(map[string]any)["status"] != float64(want) {
				t.Errorf("{%s} and {%s} in a batch: %s, want %d", first, second, a.text, want)
			}
		}
	}
}

// A retry and a replay keep the requested limits, and otherwise use the current action.
func TestRetryAndReplayKeepRequestLimits(t *testing.T) {
	own := execution.Limits{Timeout: 5 * time.Second, MaxRetries: 3, OwnRetries: true}
	old := execution.Action{Ref: "core.echo", DispatchTimeout: 9 * time.Second}
	row := execution.Execution{ID: 1, Action: own.On(old), Limits: own, Status: execution.Failed, OrchestratedAt: time.Unix(1e9, 0)}
	b := setup(t, nil)
	b.store.rows = []execution.Execution{row}
	if a := b.do("POST", executionsPath+"/1/retry", ""); a.status != 201 {
		t.Fatalf("retry: %d %s", a.status, a.text)
	}
	if again := b.store.rows[1]; again.Limits != own || again.Action != own.On(b.store.actions["core.echo"]) {
		t.Errorf("the retry: %+v", again)
	}
	l := letters(t)
	l.store.rows[1].Limits = own
	if a := l.do("POST", lettersPath+"/2/replay", ""); a.status != 202 {
		t.Fatalf("replay: %d %s", a.status, a.text)
	}
	if again := l.store.rows[len(l.store.rows)-1]; again.Limits != own {
		t.Errorf("the replay: %+v", again)
	}
}
