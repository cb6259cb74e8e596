package docs

import (
	"testing"

	"handoff/core/execution"
)

// The page lists every change of status that somebody may make, and no other.
func TestTheOwnershipPageHasTheTransitionTable(t *testing.T) {
	p := readPage(t, "docs/ownership.md")
	listed := map[string]bool{}
	for _, row := range p.tableOf(t, "From", "To", "Writer").rows {
		key := row[0] + " → " + row[1] + " by " + row[2]
		if listed[key] {
			t.Errorf("the page lists %s twice", key)
		}
		listed[key] = true
	}
	for _, known := range execution.Transitions() {
		key := known.From.String() + " → " + known.To.String() + " by " + known.By.String()
		if !listed[key] {
			t.Errorf("the page lacks %s", key)
		}
		delete(listed, key)
	}
	for key := range listed {
		t.Errorf("the page lists %s, which core/execution does not allow", key)
	}
}
