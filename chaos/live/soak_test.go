package live

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/chaos/servers"
	"handoff/chaos/soak"
	"handoff/chaos/verdict"
	"handoff/core/testenv"
)

// A soak judges every invariant that its answers use, and states why it does not judge the others.
func TestSoakJudgesRulesOfItsAnswers(t *testing.T) {
	judged, not := soakRules()
	for _, n := range slices.Concat(lostRules, twiceRules, unearnedRules) {
		if !slices.Contains(judged, n) {
			t.Errorf("invariant %d is not judged: %s", n, not[n])
		}
	}
	if len(judged)+len(not) != invariant.Count {
		t.Errorf("%d judged and %d not, of %d", len(judged), len(not), invariant.Count)
	}
	for _, k := range []history.Kind{history.ActionStarted, history.FaultBegan, history.Orchestrated, history.ProcessPaused, history.DatabaseDown} {
		if !slices.Contains(soakEvidence(), k) {
			t.Errorf("a soak records %v events, but soakEvidence omits them", k)
		}
	}
}

// A request that creates no execution is retried with the same key, and is counted only once.
func TestLoadRetriesUntilAccepted(t *testing.T) {
	asked := 0
	executor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Executions []struct {
				Key string `json:"idempotency_key"`
			} `json:"executions"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		asked++
		type result struct {
			Status    int            `json:"status"`
			Execution map[string]any `json:"execution,omitempty"`
		}
		var results []result
		for i, e := range body.Executions {
			if n, ours := soak.Number(e.Key); !ours || n < 0 {
				t.Errorf("key %q", e.Key)
			}
			if asked == 2 && i > 0 {
				results = append(results, result{Status: http.StatusServiceUnavailable})
				continue
			}
			results = append(results, result{http.StatusCreated, map[string]any{"id": i + 1}})
		}
		if asked == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"results": results})
	}))
	defer executor.Close()
	l := &load{x: &soakRun{w: &world{}}, client: executor.Client(), ctx: t.Context()}
	left := []int{4, 5, 6}
	for len(left) > 0 && asked < 10 {
		left, _ = l.postBatch(executor.URL, left)
	}
	if asked != 3 || l.accepted.Load() != 3 || !l.book.Has(6) || l.book.Has(7) {
		t.Errorf("%d requests, %d accepted", asked, l.accepted.Load())
	}
	if why := l.x.w.failReason(); why != "" {
		t.Errorf("the soak failed: %s", why)
	}
	l.noteRefusal(http.StatusUnprocessableEntity, "no such action")
	if why := l.x.w.failReason(); !strings.Contains(why, "status 422: no such action") {
		t.Errorf("after a permanent refusal: %q", why)
	}
}

// The plan's clock stops while a server starts, so that no strike comes before the system could recover from
// the previous strike.
func TestPlanClockStopsDuringServerStart(t *testing.T) {
	w := &world{}
	w.ctx, w.cancel = context.WithCancel(t.Context())
	c := &planClock{w: w}
	struck := make(chan time.Duration, 2)
	c.After(10*time.Second, func() { struck <- c.Now() })
	c.After(30*time.Second, func() { t.Error("a strike came twenty seconds early") })
	c.advanceBy(9*time.Second, false)
	c.advanceBy(time.Hour, true)
	if now := c.Now(); now != 9*time.Second || len(struck) != 0 {
		t.Errorf("after an hour of a server's start, the clock is at %v and %d strikes have come", now, len(struck))
	}
	c.advanceBy(time.Second, false)
	if at := <-struck; at != 10*time.Second {
		t.Errorf("the strike came at %v", at)
	}
	w.cancel()
	w.working.Wait()
}

// A short soak kills every part of a real system: nothing is lost, nothing runs twice, nothing fails without
// a cause, and the journals cover every process.
func TestShortSoakPasses(t *testing.T) {
	testenv.Nightly(t, "soaks the whole system for 20 s, with leases of a second; chaos/live/cluster kills every daemon under load")
	bin := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin+"/", "handoff/cmd/executor", "handoff/cmd/worker").CombinedOutput(); err != nil {
		t.Fatalf("building the daemons: %v\n%s", err, out)
	}
	plan := soak.Draw(1, 20*time.Second, soak.Default())
	s, err := scenario.Parse("plan.yaml", plan.YAML(0.2))
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(t.Context(), bin, true, nil)
	servers.Require(t, err)
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	r, err := l.Soak(t.Context(), SoakOptions{Plan: plan, Scenario: s, Scale: 0.2, Rate: 4})
	if err != nil {
		t.Fatal(err)
	}
	if r.Noise != "" {
		t.Skipf("no verdict: %s", r.Noise)
	}
	t.Logf("%d accepted, %d rows, %d processes, ends %v, %d stalls of %v at most, audit: %s", r.Accepted, r.Rows, r.Processes, r.Ends, r.Stalls, r.LongestStall, r.Audit)
	for _, a := range r.Answers {
		t.Logf("%s: %v: %s", a.Question, a.Verdict, a.Text)
		if a.Verdict == verdict.Fail && a.Question != soak.AllFlat {
			t.Errorf("%s: %s", a.Question, a.Text)
		}
	}
	ended := 0
	for _, n := range r.Ends {
		ended += n
	}
	if r.Accepted == 0 || ended != r.Accepted || r.Processes < r.Ends["completed"] {
		t.Errorf("%d accepted, %d ended, %d processes", r.Accepted, ended, r.Processes)
	}
	for _, strike := range r.Strikes {
		if !strike.Touched {
			t.Errorf("%s %s at %v made no difference", strike.What, strike.Part, strike.At)
		}
	}
	if r.Unread != "" {
		t.Error(r.Unread)
	}
	if len(r.Curves) < 20 {
		t.Errorf("only %d curves were drawn", len(r.Curves))
	}
}
