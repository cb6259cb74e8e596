package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
)

// outage returns a server whose store has n executions of core.echo that failed with no_workers, a minute
// apart. Before them there is one execution of each other kind that a retry or a cancellation may meet.
func outage(t *testing.T, n int) *bundle {
	b := setup(t, nil)
	echoes, retried := execution.Action{Ref: "core.echo"}, execution.Action{Ref: "core.echo", MaxRetries: 1}
	begin := time.Unix(1e9, 0)
	b.store.rows = []execution.Execution{
		{Action: echoes, Status: execution.Completed, OrchestratedAt: begin},
		{Action: echoes, Status: execution.Running, Worker: 1},
		{Action: echoes, Status: execution.Canceling, Worker: 1},
		{Action: echoes, Status: execution.Requested},
		{Action: retried, Status: execution.Failed, FailureReason: execution.NoWorkers},
		{Action: retried, Status: execution.Failed, FailureReason: execution.NoWorkers, OrchestratedAt: begin},
		{Action: retried, Status: execution.Failed, FailureReason: execution.NoWorkers, OrchestratedAt: begin, Original: 6, RetryCount: 1},
		{Action: execution.Action{Ref: "core.gone"}, Status: execution.Failed, FailureReason: execution.NoWorkers, OrchestratedAt: begin},
		{Action: echoes, Status: execution.Failed, FailureReason: execution.Validation, OrchestratedAt: begin},
	}
	for i := range n {
		b.store.rows = append(b.store.rows, execution.Execution{
			Action: echoes, Status: execution.Failed, FailureReason: execution.NoWorkers, OrchestratedAt: begin, Parameters: []byte(fmt.Sprintf(`{"n":%d}`, i)),
		})
	}
	for i := range b.store.rows {
		row := &b.store.rows[i]
		row.ID, row.Created = execution.ID(i+1), begin.Add(time.Duration(i)*time.Minute)
		if row.Status.Terminal() {
			row.Ended = row.Created.Add(time.Hour)
		}
	}
	return b
}

// steps repeats a bulk command with the given fields until no execution is left. It returns the number of
// steps and their total result.
func (b *bundle) steps(command, fields string) (n int, total bulkResult) {
	b.t.Helper()
	total.Refused, total.More, total.Next = map[string]int{}, true, 1<<40
	for total.More && n < 1000 {
		a := b.do("POST", executionsPath+"/"+command, fmt.Sprintf(`{%s,"before":%d}`, fields, total.Next))
		var step bulkResult
		if err := json.Unmarshal([]byte(a.text), &step); err != nil || a.status != 200 || step.Next >= total.Next {
			b.t.Fatalf("a step from %d: %d %s", total.Next, a.status, a.text)
		}
		for reason, count := range step.Refused {
			total.Refused[reason] += count
		}
		n, total.Done, total.More, total.Next = n+1, total.Done+step.Done, step.More, step.Next
	}
	return n, total
}

// count requests the number of executions that match a filter. fields are JSON fields.
func (b *bundle) count(fields string) answer {
	b.t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte("{"+fields+"}"), &all); err != nil {
		b.t.Fatal(err)
	}
	query := url.Values{}
	for name, value := range all {
		query.Set(name, fmt.Sprint(value))
	}
	return b.do("GET", executionsPath+"/count?"+query.Encode(), "")
}

func (b bulkResult) String() string { return fmt.Sprint(b.Done, " ", b.Refused) }

func TestCountByFilter(t *testing.T) {
	b := outage(t, 20)
	at := func(minutes int) string {
		return time.Unix(1e9, 0).Add(time.Duration(minutes) * time.Minute).UTC().Format(time.RFC3339)
	}
	for filter, want := range map[string]int{
		`"failure_reason":"no_workers"`:                                                                 24,
		`"status":"failed","failure_reason":"no_workers","action_ref":"core.gone"`:                      1,
		`"status":"running"`:                                                                            1,
		`"action_ref":"core.none"`:                                                                      0,
		fmt.Sprintf(`"created_from":%q`, at(9)):                                                         20,
		fmt.Sprintf(`"created_from":%q,"created_to":%q`, at(9), at(12)):                                 3,
		fmt.Sprintf(`"created_to":%q`, at(2)):                                                           2,
		fmt.Sprintf(`"ended_from":%q,"ended_to":%q,"failure_reason":"no_workers"`, at(60), at(60+10)):   5,
		fmt.Sprintf(`"ended_to":%q,"created_to":"2033-05-18T03:33:20+02:00","status":"failed"`, at(69)): 5,
	} {
		want := fmt.Sprintf(`{"count":%d,"more":false,"next":`, want)
		for path, a := range map[string]answer{
			"count": b.count(filter), "retry": b.do("POST", executionsPath+"/retry", "{"+filter+`,"dry_run":true}`),
			"cancel": b.do("POST", executionsPath+"/cancel", "{"+filter+`,"dry_run":true}`),
		} {
			if a.status != 200 || !strings.HasPrefix(a.text, want) {
				t.Errorf("%s of %s: %d %s, want %s", path, filter, a.status, a.text, want)
			}
		}
	}
	if len(b.store.rows) != 29 || b.store.rows[3].Status != execution.Requested {
		t.Error("a count changed something")
	}
}

// A count ends at mostCounted, and the next request continues from there.
func TestCountIsBounded(t *testing.T) {
	b := outage(t, mostCounted)
	const filter = `"failure_reason":"no_workers","status":"failed"`
	for before, want := range map[string]string{"": `{"count":10000,"more":true,"next":10}`, `,"before":10`: `{"count":4,"more":false,"next":1}`} {
		if a := b.count(filter + before); a.text != want+"\n" {
			t.Errorf("from %q: %s, want %s", before, a.text, want)
		}
	}
	// In a sparse table it examines a bounded number of ids.
	b = outage(t, 0)
	b.store.rows[8].ID = bulkWindows*listWindow + 9
	a := b.count(`"status":"failed"`)
	if a.text != `{"count":1,"more":true,"next":10}`+"\n" {
		t.Errorf("of a sparse table: %s", a.text)
	}
	if a := b.count(`"status":"failed","created_from":"2001-09-09T02:04:40Z"`); a.text != `{"count":0,"more":false,"next":500009}`+"\n" {
		t.Errorf("of a sparse table, with a bound of creation: %s", a.text)
	}
}

func TestRetryByFilter(t *testing.T) {
	const filter = `"failure_reason":"no_workers"`
	b := outage(t, 120)
	n, total := b.steps("retry", filter+`,"limit":50`)
	// Only the last row of the two-row chain is retried.
	if got, want := total.String(), "121 map[about_to_retry:1 later_attempt:1 unknown_action:1]"; n != 3 || got != want {
		t.Errorf("%d steps: %s, want 3 steps: %s", n, got, want)
	}
	parameters := map[string]int{}
	for _, row := range b.store.rows[129:] {
		parameters[string(row.Parameters)]++
		if row.Status != execution.Requested || row.Original != 0 {
			t.Errorf("a new execution: %+v", row)
		}
	}
	if once := slices.Compact(slices.Sorted(maps.Values(parameters))); len(parameters) != 121 || !slices.Equal(once, []int{1}) {
		t.Errorf("%d different parameters were run again, %v times", len(parameters), once)
	}
	rows := len(b.store.rows)
	_, again := b.steps("retry", filter)
	if got, want := again.String(), "0 map[about_to_retry:1 already_retried:121 later_attempt:1 unknown_action:1]"; got != want || len(b.store.rows) != rows {
		t.Errorf("again: %s and %d more rows, want %s", got, len(b.store.rows)-rows, want)
	}
	_, all := outage(t, 0).steps("retry", `"action_ref":"core.echo"`)
	if got, want := all.String(), "2 map[about_to_retry:1 completed:1 later_attempt:1 not_ended:3]"; got != want {
		t.Errorf("of an action: %s, want %s", got, want)
	}
}

// Free retries raise the limit of a chain's last row. The new execution has the limits of the request, or
// those of the last row if the first is deleted or unreadable.
func TestRetryByFilterKeepsRequestedLimits(t *testing.T) {
	asked := execution.Limits{Timeout: time.Minute, MaxRetries: 1, OwnRetries: true}
	raised := asked
	raised.MaxRetries = 3
	row := func(id, original execution.ID, reason execution.Reason) execution.Execution {
		limits := asked
		if original != 0 {
			limits = raised
		}
		return execution.Execution{
			ID: id, Original: original, RetryCount: int(original), Limits: limits, Action: limits.On(execution.Action{Ref: "core.echo"}),
			Status: execution.Failed, FailureReason: reason, OrchestratedAt: time.Unix(1e9, 0),
		}
	}
	b := setup(t, nil)
	b.store.rows = []execution.Execution{
		row(1, 0, execution.WorkerShutdown), row(2, 0, execution.WorkerShutdown),
		row(3, 1, execution.Unknown), row(4, 2, execution.Unknown), row(5, 77, execution.Unknown), row(6, 0, execution.Unknown),
	}
	b.store.unreadable = map[execution.ID]string{2: "of a newer program"}
	n := b.store.calls
	if a := b.do("POST", executionsPath+"/retry", `{"failure_reason":"unknown"}`); a.status != 200 || a.json["done"] != 4.0 {
		t.Fatalf("%d %s", a.status, a.text)
	}
	// One call each for the newest id, the page, its parameters, the chains' first rows, and the new
	// executions.
	if n = b.store.calls - n; n != 5 {
		t.Errorf("%d calls of the store, want 5", n)
	}
	// From the newest to the oldest: rows 6, 5, 4 and 3.
	for i, want := range []execution.Limits{asked, raised, raised, asked} {
		if got := b.store.rows[6+i].Limits; got != want {
			t.Errorf("new execution %d has the limits %+v, want %+v", 7+i, got, want)
		}
	}
}

func TestCancelByFilter(t *testing.T) {
	b := outage(t, 2)
	for range 60 {
		b.store.rows = append(b.store.rows, execution.Execution{ID: execution.ID(len(b.store.rows) + 1), Action: execution.Action{Ref: "core.echo"}, Status: execution.Requested})
	}
	n, total := b.steps("cancel", `"action_ref":"core.echo","limit":25`)
	// The fake store never has a retry pending, so every ended execution is refused as ended.
	if got, want := total.String(), "62 map[already_canceling:1 ended:7]"; n != 3 || got != want {
		t.Errorf("%d steps: %s, want 3 steps: %s", n, got, want)
	}
	if b.store.rows[1].Status != execution.Canceling || b.store.rows[20].Status != execution.Cancelled {
		t.Errorf("the statuses: %v, %v", b.store.rows[1].Status, b.store.rows[20].Status)
	}
	_, again := b.steps("cancel", `"action_ref":"core.echo"`)
	if again.Done != 0 || again.Refused["already_canceling"] != 2 {
		t.Errorf("again: %v", again)
	}
}

// A retry belongs to its chain, not to its caller, and records the token of the first request.
func TestBulkNeedsRightAndKeepsActor(t *testing.T) {
	b := outage(t, 1)
	tokens := []config.Token{
		{Name: "ops", Token: "0123456789abcdef", Rights: config.RightSubmit},
		{Name: "night", Token: "0123456789abcdee", Rights: config.RightOperate},
		{Name: "eyes", Token: "0123456789abcded", Rights: config.RightRead},
	}
	withTokens := setup(t, func(o *Options) { o.Tokens = tokens })
	withTokens.store.rows = b.store.rows
	do := func(token int, path string) answer {
		if path == "/count" {
			return withTokens.do("GET", executionsPath+path+"?status=failed", "", "Authorization", "Bearer "+tokens[token].Token)
		}
		return withTokens.do("POST", executionsPath+path, `{"status":"failed","action_ref":"core.echo","created_from":"2001-09-09T01:55:40Z"}`, "Authorization", "Bearer "+tokens[token].Token)
	}
	if a := do(2, "/count"); a.status != 200 {
		t.Errorf("a count by a reader: %d %s", a.status, a.text)
	}
	for _, path := range []string{"/retry", "/cancel"} {
		if a := do(2, path); a.status != 403 {
			t.Errorf("%s by a reader: %d %s", path, a.status, a.text)
		}
	}
	first, second := do(0, "/retry"), do(1, "/retry")
	if first.json["done"] != 1.0 || second.json["done"] != 0.0 || !strings.Contains(second.text, `"already_retried":1`) {
		t.Errorf("first %s, second %s", first.text, second.text)
	}
	if row := withTokens.store.rows[10]; row.SubmittedBy != "ops" {
		t.Errorf("the new execution was submitted by %q", row.SubmittedBy)
	}
}

func TestBulkRefusesWrongFilters(t *testing.T) {
	b := outage(t, 1)
	for body, part := range map[string]string{
		``:                                   "Give at least one of action_ref, status, failure_reason, created_from",
		`{"limit":5,"dry_run":true}`:         "Give at least one of",
		`{"status":"faild"}`:                 `"field":"/status"`,
		`{"failure_reason":"no_worker"}`:     `one of worker_unavailable, no_workers`,
		`{"failure_reason":""}`:              `"field":"/failure_reason"`,
		`{"reason":"no_workers"}`:            `unknown field`,
		`{"action_ref":""}`:                  `of 1 to 200 characters`,
		`{"action_ref":7}`:                   `must be a string`,
		`{"created_from":"yesterday"}`:       `"field":"/created_from"`,
		`{"ended_to":"2026-01-31 14:30:00"}`: `such as 2026-01-31T14:30:00Z`,
		`{"created_from":"2026-01-31T14:30:00Z","created_to":"2026-01-31T15:30:00+01:00"}`: `must be later than created_from`,
		`{"status":"failed","limit":501}`:                                                  `from 1 to 500`,
		`{"status":"failed","before":0}`:                                                   `"field":"/before"`,
		`{"status":"failed","dry_run":1}`:                                                  `must be true or false`,
	} {
		if a := b.do("POST", executionsPath+"/retry", body); a.status != 400 || !strings.Contains(a.text, part) {
			t.Errorf("%s: %d %s, want %s", body, a.status, a.text, part)
		}
	}
	for filter, part := range map[string]string{
		``: "Give at least one of action_ref", `"before":5`: "Give at least one of", `"status":"faild"`: "one of requested, scheduling", `"ended_from":"x"`: `"field":"ended_from"`,
		`"ended_from":"2026-01-31T14:30:00Z","ended_to":"2026-01-31T14:30:00Z"`: `"field":"ended_to"`,
	} {
		if a := b.count(filter); a.status != 400 || !strings.Contains(a.text, part) {
			t.Errorf("a count of %s: %d %s, want %s", filter, a.status, a.text, part)
		}
	}
	if a := b.count(`"status":"failed","limit":5`); a.status != 400 || !strings.Contains(a.text, `"field":"limit"`) {
		t.Errorf("a count with a limit: %d %s", a.status, a.text)
	}
	if len(b.store.rows) != 10 {
		t.Error("a refused request retried something")
	}
}

// If a step fails halfway, repeating the request completes the rest.
func TestRepeatedBulkStepCompletesFailedOne(t *testing.T) {
	b := outage(t, 60)
	db := &failingStore{fakeStore: b.store, creates: 1}
	failing := setup(t, func(o *Options) { o.Store, o.Submitter.Store = db, db })
	const body = `{"status":"failed","failure_reason":"no_workers","created_from":"2001-09-09T01:55:40Z"}`
	a := failing.do("POST", executionsPath+"/retry", body)
	if a.status != 503 || !strings.Contains(a.text, "nothing is done twice") || len(b.store.rows) != 69+50 {
		t.Errorf("the failed step: %d %s, %d rows", a.status, a.text, len(b.store.rows))
	}
	db.creates = 100
	if a := failing.do("POST", executionsPath+"/retry", body); !strings.HasPrefix(a.text, `{"done":10,"refused":{"already_retried":50},"more":false`) {
		t.Errorf("again: %d %s", a.status, a.text)
	}
}

// failingStore is a store in which only the first calls of Create succeed; later ones time out.
type failingStore struct {
	*fakeStore
	creates int
}

func (f *failingStore) Create(ctx context.Context, items []store.NewExecution) ([]store.Created, error) {
	if f.creates--; f.creates < 0 {
		return nil, context.DeadlineExceeded
	}
	return f.fakeStore.Create(ctx, items)
}

// An unreadable row is refused and does not mislead the search for a time.
func TestBulkRefusesUnreadableRows(t *testing.T) {
	b := outage(t, 9)
	b.store.unreadable = map[execution.ID]string{13: "written by hand"}
	_, total := b.steps("retry", `"failure_reason":"no_workers","created_from":"2001-09-09T01:55:40Z"`)
	if got, want := total.String(), "8 map[unreadable:1]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestBulkRunsOneRequestAtATime(t *testing.T) {
	var o Options
	b := setup(t, func(given *Options) { o = *given })
	server := NewServer(o)
	server.gates.bulk.patience = time.Millisecond
	b.Handler = server.Handler()
	leave, _ := server.gates.bulk.takePlace(t.Context())
	if a := b.count(`"status":"failed"`); a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.text, "requests by filter") {
		t.Errorf("during another one: %d %s", a.status, a.text)
	}
	leave()
	if a := b.count(`"status":"failed"`); a.status != 200 {
		t.Errorf("after it: %d %s", a.status, a.text)
	}
}
