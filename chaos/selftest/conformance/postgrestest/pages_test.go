package postgrestest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/servers"
	"handoff/core/store/postgres"
)

// sqlCommand is the statement of a psql command in a page.
var sqlCommand = regexp.MustCompile(`psql [^\n]*?-\w*c "((?:[^"\\]|\\.)*)"`)

// explained are the statements that explain accepts.
var explained = regexp.MustCompile(`^(select|insert|update|delete|with) `)

// SQL from a page works in psql: the schema has the tables, columns and functions that it names.
func TestDocumentedSQLFitsSchema(t *testing.T) {
	ctx, url := t.Context(), servers.Database(t).URL
	s, err := postgres.Open(ctx, url, postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "explain select nothing from execution"); err == nil {
		t.Fatal("a column that does not exist is not refused: this test can't fail")
	}
	pages, err := filepath.Glob("../../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	playbooks, err := filepath.Glob("../../../../docs/playbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, playbooks...)
	statements := 0
	for _, page := range append(pages, "../../../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range sqlCommand.FindAllStringSubmatch(string(text), -1) {
			for statement := range strings.SplitSeq(strings.NewReplacer(`\"`, `"`, "$ID", "1", "PID", "1").Replace(found[1]), ";") {
				if statement = strings.TrimSpace(statement); !explained.MatchString(statement) {
					continue
				}
				statements++
				if _, err := conn.Exec(ctx, "explain "+statement); err != nil {
					t.Errorf("%s: %s\n%v", filepath.Base(page), statement, err)
				}
			}
		}
	}
	if statements < 4 {
		t.Errorf("the pages have %d statements: the test does not see them", statements)
	}
}
