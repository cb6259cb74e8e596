package migrations

import (
	"strings"
	"testing"
)

// Two branches may each have added a migration: the later one must get the next number, or databases that have the
// first one would never get it.
func TestTwoMigrationsOfOneNumberAreRefused(t *testing.T) {
	_, err := inOrder([]migration{{version: 2, name: "00002_b.sql"}, {version: 1, name: "00001_a.sql"}, {version: 2, name: "00002_c.sql"}})
	if err == nil || !strings.Contains(err.Error(), "00002_b.sql and 00002_c.sql") {
		t.Errorf("two migrations of one number: %v", err)
	}
	all, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(all); i++ {
		if all[i].version <= all[i-1].version {
			t.Errorf("%s comes after %s", all[i].name, all[i-1].name)
		}
	}
}
