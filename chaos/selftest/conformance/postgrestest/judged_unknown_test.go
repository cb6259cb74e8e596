package postgrestest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/audit"
	"handoff/chaos/invariant"
	"handoff/core/config"
)

// The audit of a database into which a newer program has written is judged except for the unreadable words.
// They are reported with their place, and only the affected executions are not judged.
func TestJudgeSkipsUnknownAuditWords(t *testing.T) {
	b := newFixture(t)
	newer, broken := b.requestedExecution(), b.requestedExecution()
	b.execSQL("alter type failure_reason add value if not exists 'of_a_newer_release'")
	b.execSQL("update transition_group set reason = 'of_a_newer_release' where id = (select id from execution_transition where execution = $1)", int64(newer))
	b.execSQL("insert into transition_group (base, \"from\", \"to\", epoch, old_epoch, named_epoch, writer, at) select id, 'requested', 'running', 0, 0, 0, 'api', now() from execution")
	r, err := audit.Judge(b.ctx, b.url, audit.Options{Config: config.Default(config.Hardened)})
	b.must(err)
	if r.Unread != 1 || r.Aside != 1 || len(r.Unknown) != 1 || r.Executions != 2 {
		t.Fatalf("%d executions, %d events can't be read, %d executions are set aside: %q", r.Executions, r.Unread, r.Aside, r.Unknown)
	}
	if why := r.Unknown[0]; !strings.HasPrefix(why, "execution_transition ") || !strings.Contains(why, fmt.Sprintf(`, of execution %d: unknown failure reason "of_a_newer_release"`, newer)) {
		t.Errorf("the report is %q", why)
	}
	if !slices.ContainsFunc(r.Violations, func(f invariant.Finding) bool { return f.Invariant.Number == 1 && f.Execution == broken }) {
		t.Errorf("of execution %d, which can be read, nothing is found: %+v", broken, r.Violations)
	}
	for _, f := range r.Violations {
		if f.Execution == newer {
			t.Errorf("execution %d is judged, of which something can't be read: %s", newer, f.Message)
		}
	}
}
