package docs

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"handoff/chaos/jobhistory"
	"handoff/chaos/promise"
)

// promiseRules returns the rules about the jobs of any queue.
func promiseRules(*testing.T) string {
	var rows [][]string
	for _, r := range promise.Rules() {
		judged := "promised"
		if r.Promised == nil {
			judged = "always"
		}
		rows = append(rows, []string{r.Name, r.Title, r.Statement, judged})
	}
	return markdownTable([]string{"Rule", "title", "what must be true", "judged"}, rows)
}

// The example of the page is a valid history, and its promises and kinds are those of the code.
func TestHistoryPageMatchesReader(t *testing.T) {
	p := readPage(t, "docs/history.md")
	reader, err := jobhistory.NewReader("docs/history.md", strings.NewReader(p.codeBlocks("json")[0]))
	if err != nil {
		t.Fatal(err)
	}
	promises, err := promise.Parse("docs/history.md", reader.Header().Promises)
	if err != nil {
		t.Fatal(err)
	}
	book := promise.New(promises, promise.Options{Origin: reader.Origin()})
	for {
		var l jobhistory.Line
		if err := reader.Next(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		book.Observe(&l)
	}
	report := book.End()
	if broken := strings.Join(report.Broken(), " "); broken != "P5 P9" {
		t.Errorf("the example breaks %s, want P5 and P9", broken)
	}
	if _, err := promise.Parse("docs/history.md", []byte(p.codeBlocks("yaml")[0])); err != nil {
		t.Error(err)
	}
	var kinds []string
	for _, cell := range p.tableOf(t, "kinds").columnCells(0) {
		kinds = append(kinds, strings.Split(strings.ReplaceAll(cell, "`", ""), ", ")...)
	}
	compareLists(t, "kinds of lines", kinds, jobhistory.Kinds())
}

// The schema and the reader accept and refuse the same lines.
func TestHistorySchemaAgreesWithReader(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("history.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	p := readPage(t, "docs/history.md")
	lines := strings.Split(strings.TrimSpace(p.codeBlocks("json")[0]), "\n")
	for _, kind := range jobhistory.Kinds() {
		for _, rest := range []string{
			"", `, "job": "a"`, `, "actor": "w"`, `, "outcome": "ok"`, `, "job": "a", "outcome": "ok"`, `, "job": "a", "outcome": "done"`,
			`, "actor": "w", "outcome": "killed"`, `, "until_ns": 7`, `, "jobs": "a"`, `, "at": "2026-11-27T10:00:00Z"`,
		} {
			lines = append(lines, `{"at_ns": 5, "kind": "`+kind+`"`+rest+"}")
		}
	}
	lines = append(lines, `{"history": 2}`, `{"history": 1, "promise": {}}`, `{"at": "2026-11-27T10:00:00Z", "kind": "begun"}`, `{"kind": "end"}`)
	for _, line := range lines {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		reader, wrong := jobhistory.NewReader("x", strings.NewReader(line))
		if wrong == nil && !jobhistory.IsHeader([]byte(line)) {
			wrong = reader.Next(new(jobhistory.Line))
		}
		if refused := schema.Validate(value); (refused == nil) != (wrong == nil) {
			t.Errorf("%s: the schema says %v, the reader %v", line, refused, wrong)
		}
	}
}
