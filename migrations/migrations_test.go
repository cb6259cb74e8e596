package migrations

import (
	"regexp"
	"strings"
	"testing"
)

// If two branches add a migration with the same number, the later one must be renumbered: databases that have
// the first would never apply it.
func TestDuplicateMigrationNumbersAreRefused(t *testing.T) {
	_, err := inOrder([]migration{{version: 2, name: "00002_b.sql"}, {version: 1, name: "00001_a.sql"}, {version: 2, name: "00002_c.sql"}})
	if err == nil || !strings.Contains(err.Error(), "00002_b.sql and 00002_c.sql") {
		t.Errorf("two migrations of one number: %v", err)
	}
	all, err := loadMigrations()
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(all); i++ {
		if all[i].version <= all[i-1].version {
			t.Errorf("%s comes after %s", all[i].name, all[i-1].name)
		}
	}
}

// Every later migration must have a needs line, because only its author knows whether older programs can work
// with its schema.
func TestLaterMigrationsDeclareNeededVersion(t *testing.T) {
	all, err := loadMigrations()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if _, err := m.neededVersion(); err != nil {
			t.Error(err)
		}
	}
	for up, want := range map[string]string{
		"select 1;":               "add a line `-- needs: N`",
		"-- needs: 13\nselect 1;": "must be from 1 to 12",
		"-- needs: 0\nselect 1;":  "must be from 1 to 12",
		"-- needs: 11\nselect 1;": "",
	} {
		_, err := migration{version: 12, name: "00012_a.sql", up: up}.neededVersion()
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", up, err)
		}
	}
}

// Building an index in a transaction blocks writers of the table, for longer than a lease if the table is
// large. A table that the migration itself creates is empty.
func TestLaterMigrationsBuildIndexesConcurrently(t *testing.T) {
	all, err := loadMigrations()
	if err != nil {
		t.Fatal(err)
	}
	index := regexp.MustCompile(`(?m)^create (?:unique )?index (?:concurrently )?(?:if not exists )?\w+ on (\w+)`)
	judge := func(m migration) (held []string) {
		for _, found := range index.FindAllStringSubmatch(m.up, -1) {
			if !m.noTransaction && !strings.Contains(m.up, "create table "+found[1]+" ") {
				held = append(held, found[1])
			}
		}
		return held
	}
	for _, m := range all {
		if held := judge(m); m.version > 16 && len(held) > 0 {
			t.Errorf("%s builds an index of %s in a transaction: begin the file with -- +goose NO TRANSACTION, and build it concurrently", m.name, strings.Join(held, ", "))
		}
	}
	if len(judge(migration{up: "create index a on execution_record (id);"})) != 1 {
		t.Error("the check misses an index")
	}
}
