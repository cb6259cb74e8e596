package docs

import (
	"errors"
	"io"
	"strings"
	"testing"

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
