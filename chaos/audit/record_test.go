//go:build !simulator

package audit

import (
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
)

// An unknown word in a row causes an error, but the row's other columns are still read.
func TestUnknownWordKeepsRestOfRow(t *testing.T) {
	known := record{id: 3, execution: 7, chain: 5, from: "requested", to: "scheduling", writer: "scheduler", reason: "", worker: 2}
	for name, c := range map[string]struct {
		change func(*record)
		want   string
	}{
		"nothing":           {func(*record) {}, ""},
		"its status":        {func(r *record) { r.to = "snoozing" }, `"snoozing"`},
		"the status before": {func(r *record) { r.from = "snoozing" }, `"snoozing"`},
		"its reason":        {func(r *record) { r.reason = "why" }, `"why"`},
		"its writer":        {func(r *record) { r.writer = "judge" }, `unknown part "judge"`},
		"the status of an execution that is to be cancelled": {func(r *record) { r.rank, r.to, r.from, r.writer = rankCancelled, "snoozing", "", "" }, ""},
		"nothing of an end that was handled":                 {func(r *record) { r.rank, r.to, r.from, r.writer = rankHandled, "completed", "completed", "" }, ""},
		"the status of an end that was handled":              {func(r *record) { r.rank, r.to, r.from, r.writer = rankHandled, "snoozing", "snoozing", "" }, `"snoozing"`},
	} {
		r := known
		c.change(&r)
		e, err := r.historyEvent(0)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if e.Execution != 7 || e.Chain != 5 || e.Worker != 2 || e.Kind == history.NoKind {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// The reason why a rule is blind says whether its events are unreadable, deleted by retention, or both.
func TestBlindRuleReportsCause(t *testing.T) {
	since := time.Unix(1, 0)
	for _, c := range []struct {
		r    Result
		want string
	}{
		{Result{Unread: 1}, "it needs events that could not be read"},
		{Result{Since: since}, "it needs events that retention has deleted"},
		{Result{Unread: 1, Since: since}, "it needs events that could not be read, or that retention has deleted"},
	} {
		if got := c.r.blindReason(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.r, got, c.want)
		}
	}
}
