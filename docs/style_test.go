package docs

import (
	"go/scanner"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// camelWord matches one word of a camel-case name or of a sentence.
var camelWord = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// retiredIn lists the words in the text that docs/STYLE.md has retired, in singular or plural.
func retiredIn(text string, retired []string) (found []string) {
	for _, word := range camelWord.FindAllString(text, -1) {
		word = strings.ToLower(word)
		if slices.Contains(retired, word) || slices.Contains(retired, strings.TrimSuffix(word, "s")) {
			found = append(found, word)
		}
	}
	return found
}

// goIdentifiers returns the names in a Go file as one text.
func goIdentifiers(source string) string {
	var names strings.Builder
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", files.Base(), len(source)), []byte(source), nil, 0)
	for {
		_, kind, text := s.Scan()
		switch kind {
		case token.EOF:
			return names.String()
		case token.IDENT:
			names.WriteString(text + " ")
		}
	}
}

func TestStyle(t *testing.T) {
	p := readPage(t, "docs/STYLE.md")
	retired := p.tableOf(t, "word", "instead").columnCells(0)
	if got := retiredIn("theRipeRow of plannedRipes and Ripe", []string{"ripe"}); len(got) != 3 {
		t.Fatalf("retired words are not detected in a name: %v", got)
	}
	files := allTexts(t, "", ".go", ".md")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		switch {
		case name == "docs/STYLE.md", name == "docs/CHANGELOG.md", name == "reports/history_read.go": // reads old files
			continue
		case strings.HasSuffix(name, ".go"):
			text = goIdentifiers(text)
		}
		for _, word := range retiredIn(text, retired) {
			t.Errorf("%s uses the word %q; docs/STYLE.md lists replacements", name, word)
		}
	}
}
