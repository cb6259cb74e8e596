package postgrestest_test

import (
	"strings"
	"testing"
)

// A row can't have a value that the database's types lack. So a survey reads the work that has not
// ended for unreadable values only while a type has a label that this program does not know.
func TestSurveySkipsSearchWithoutUnknownLabels(t *testing.T) {
	k := newKeeper(t, nil)
	k.runScript(inBulk(dueScript(1500)))
	k.must(dispatchDue(k.Store, k.worker, 500))
	k.runScript("update execution_work set status = 'scheduling', scheduling_at = now(), scheduling_by = 'e', scheduling_expires_at = now() where id in (select id from execution_work where waits limit 500)")
	looked := func() (rows float64) {
		t.Helper()
		k.observer.plans = nil
		_, err := k.Survey(k.ctx)
		k.must(err)
		k.must(k.observer.wrong)
		for i := range k.observer.plans {
			if e := &k.observer.plans[i]; strings.Contains(e.Text, "pg_enum") {
				e.Plan.walkNodes(func(s *step) { rows += s.ownWork() })
			}
		}
		return rows
	}
	few := looked()
	if few == 0 || few > 200 {
		t.Errorf("a survey reads %v rows for unreadable values, want only those of the types", few)
	}
	// All 1,500 have a status. For reasons there is a list for each third of them.
	for _, label := range []string{"execution_status add value 'paused' before 'completed'", "failure_reason add value 'tired'"} {
		before := looked()
		k.runScript("alter type " + label)
		if rows := looked(); rows < before+1500 {
			t.Errorf("after %q a survey reads %v rows for unreadable values, and %v before: this test would not see that it reads too many", label, rows, before)
		}
	}
}
