package docs

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// retiredWord is a word that this project gave up, for the one of the field or because it had many
// meanings. A name is what a declaration of Go names, and a string that is one name: a flag, a key,
// a column, a mutant.
type retiredWord struct {
	// words are its forms. now is the word in its place.
	words []string
	now   string
	// inNames says that only names may not use it, because it is an ordinary word of English.
	inNames bool
	// stays are beginnings of paths where it stays for good, and why.
	stays map[string]string
}

// retiredWords is the table of words that were given up.
func retiredWords() []retiredWord {
	const term, named = "a word of the field", "the name of a benchmark"
	return []retiredWord{
		{words: []string{"flaw", "flaws", "flawed"}, now: "mutant (planted) or defect (of real systems)", stays: map[string]string{
			"docs/CHANGELOG.md": "it says what was renamed",
		}},
		{words: []string{"killer", "killers"}, now: "expected invariant"},
		{words: []string{"law", "laws"}, now: "transition table"},
		{words: []string{"tenure", "tenures"}, now: "session"},
		{words: []string{"byhand"}, now: "manual", stays: map[string]string{"docs/CHANGELOG.md": "it says what was renamed"}},
		{words: []string{"tamper", "tampers", "tampering"}, now: "interceptor"},
		{words: []string{"testimony", "testimonies"}, now: "daemon log"},
		{words: []string{"ailment", "ailments"}, now: "gray failure"},
		{words: []string{"board", "boards"}, now: "alert evaluator", inNames: true},
		{words: []string{"lane", "lanes"}, now: "sandbox and --parallel; or say which queue", inNames: true},
		{words: []string{"wire"}, now: "netproxy", inNames: true, stays: map[string]string{"core/broker/codec": "the wire format: " + term, "reports/history_test.go": term}},
		{words: []string{"site", "sites"}, now: "environment", inNames: true, stays: map[string]string{
			"core/api/": "Sec-Fetch-Site: " + term, "chaos/selftest/attack/": "Sec-Fetch-Site: " + term, "chaos/live/cluster/control_test.go": "Sec-Fetch-Site: " + term,
		}},
		{words: []string{"place", "places"}, now: "endpoint; or say which position, slot or seat", inNames: true},
		{words: []string{"ground", "grounds"}, now: "reclaim cause", inNames: true},
		{words: []string{"band", "bands"}, now: "fault interval", inNames: true},
		{words: []string{"bench"}, now: "fixture", inNames: true, stays: map[string]string{
			"chaos/selftest/bench/": named, "chaos/policies/policies_test.go": named, "core/worker/subprocess/processes_unix_test.go": named,
		}},
		{words: []string{"trial", "trials"}, now: "run; or half-open probe", inNames: true},
		{words: []string{"standing"}, now: "say what stands", inNames: true},
		{words: []string{"ripe"}, now: "due", inNames: true},
	}
}

// wordsOf splits a name into its words: runScenario, RunScenario, run_scenario and run-scenario.
func wordsOf(name string) (words []string) {
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = nil
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end()
		}
		word = append(word, r)
	}
	end()
	return words
}

var (
	proseWord = regexp.MustCompile(`[A-Za-z]+`)
	plainName = regexp.MustCompile(`^-{0,2}[A-Za-z][A-Za-z0-9]*([_.-][A-Za-z0-9]+)*$`)
	yamlKey   = regexp.MustCompile(`(?m)^[ -]*"?([A-Za-z][A-Za-z0-9_.-]*)"?:(\s|$)|[{,] *"?([A-Za-z][A-Za-z0-9_.-]*)"?: `)
)

// wordAt is a word in a file, in small letters; name says that it is part of a name.
type wordAt struct {
	line int
	word string
	name bool
}

// goWords are the words of a Go file: those of the names that it declares, of strings that are one
// name, and of comments and other strings.
func goWords(path string, source []byte) (all []wordAt, err error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	add := func(at token.Pos, name bool, words []string) {
		for _, w := range words {
			all = append(all, wordAt{files.Position(at).Line, strings.ToLower(w), name})
		}
	}
	add(f.Name.Pos(), true, wordsOf(f.Name.Name))
	for _, c := range f.Comments {
		for _, line := range c.List {
			add(line.Pos(), false, proseWord.FindAllString(line.Text, -1))
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		declared := []*ast.Ident{}
		switch n := n.(type) {
		case *ast.FuncDecl:
			declared = append(declared, n.Name)
		case *ast.TypeSpec:
			declared = append(declared, n.Name)
		case *ast.ValueSpec:
			declared = append(declared, n.Names...)
		case *ast.Field:
			declared = append(declared, n.Names...)
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if id, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					declared = append(declared, id)
				}
			}
		case *ast.RangeStmt:
			for _, left := range []ast.Expr{n.Key, n.Value} {
				if id, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
					declared = append(declared, id)
				}
			}
		case *ast.BasicLit:
			if text, ok := literal(n); ok && plainName.MatchString(text) {
				add(n.Pos(), true, wordsOf(text))
			} else if ok {
				add(n.Pos(), false, proseWord.FindAllString(text, -1))
			}
		}
		for _, id := range declared {
			add(id.Pos(), true, wordsOf(id.Name))
		}
		return true
	})
	return all, nil
}

// otherWords are the words of any other file: keys of YAML and JSON are names, the rest is prose.
func otherWords(source []byte, extension string) (all []wordAt) {
	text := string(source)
	var ends []int
	for at, c := range source {
		if c == '\n' {
			ends = append(ends, at)
		}
	}
	line := func(at int) int {
		before, _ := slices.BinarySearch(ends, at)
		return before + 1
	}
	for _, at := range proseWord.FindAllStringIndex(text, -1) {
		all = append(all, wordAt{line(at[0]), strings.ToLower(text[at[0]:at[1]]), false})
	}
	if extension == ".yaml" || extension == ".yml" || extension == ".json" {
		for _, m := range yamlKey.FindAllStringSubmatchIndex(text, -1) {
			for group := 2; group < len(m); group += 2 {
				if m[group] >= 0 && m[group+1] > m[group] && text[m[group]] != ' ' {
					for _, w := range wordsOf(text[m[group]:m[group+1]]) {
						all = append(all, wordAt{line(m[group]), w, true})
					}
				}
			}
		}
	}
	return all
}

// neverRead are the beginnings of paths that are not read: what others wrote or what is built,
// migrations, which never change once they are released, and this table.
func neverRead() []string {
	return []string{".git", "bin", ".tools/bin", "migrations/", "docs/retired_test.go", leftover}
}

// leftover lists, one a line, a retired word and a file that still uses it. Lines are only taken
// away.
const leftover = "docs/testdata/retired.txt"

// retiredUses finds retired words in the repository, by their line of leftover, each with the
// places.
func retiredUses(t *testing.T) map[string][]string {
	t.Helper()
	uses, retired, read := map[string][]string{}, byForm(), 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, _ := filepath.Rel(root, file)
		path = filepath.ToSlash(path)
		switch {
		case slices.ContainsFunc(neverRead(), func(p string) bool {
			return strings.HasPrefix(path+"/", p+"/") || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p)
		}):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		read++
		for line, at := range usesIn(t, retired, path, source) {
			uses[line] = append(uses[line], at...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if read < 1000 {
		t.Fatalf("%d files were read: the test does not see the repository", read)
	}
	return uses
}

// byForm are the retired words by their forms.
func byForm() map[string]retiredWord {
	all := map[string]retiredWord{}
	for _, r := range retiredWords() {
		for _, form := range r.words {
			all[form] = r
		}
	}
	return all
}

// usesIn finds retired words in one file.
func usesIn(t *testing.T, retired map[string]retiredWord, path string, source []byte) map[string][]string {
	t.Helper()
	// The name of a released migration.
	source = bytes.ReplaceAll(source, []byte("law_and_audit"), nil)
	var words []wordAt
	switch filepath.Ext(path) {
	case ".go":
		var err error
		if words, err = goWords(path, source); err != nil && !strings.Contains(path, "testdata/") {
			t.Errorf("%s: %v", path, err)
		}
	case ".md", ".yaml", ".yml", ".json", ".sql", ".sh", "":
		words = otherWords(source, filepath.Ext(path))
	}
	uses := map[string][]string{}
	for _, w := range words {
		r, ok := retired[w.word]
		if !ok || r.inNames && !w.name || slices.ContainsFunc(slices.Collect(maps.Keys(r.stays)), func(prefix string) bool { return strings.HasPrefix(path, prefix) }) {
			continue
		}
		line := r.words[0] + " " + path
		uses[line] = append(uses[line], fmt.Sprintf("%s:%d: %q is retired: write %s", path, w.line, w.word, r.now))
	}
	return uses
}

// A word that was given up for another must not come back. What still has it is in a list that only
// gets shorter.
func TestNoFileHasARetiredWord(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(root, leftover))
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Collect(strings.Lines(string(source)))
	for i := range known {
		known[i] = strings.TrimSpace(known[i])
	}
	uses := retiredUses(t)
	for _, line := range slices.Sorted(maps.Keys(uses)) {
		if !slices.Contains(known, line) {
			t.Error(strings.Join(uses[line], "\n"))
		}
	}
	for _, line := range known {
		if uses[line] == nil {
			t.Errorf("%s: nothing there has the word any more; remove the line %q", leftover, line)
		}
	}
}

// The check sees a retired word wherever somebody may write one.
func TestARetiredWordIsFoundWhereverItIsWritten(t *testing.T) {
	for source, found := range map[string]bool{
		"a.go package a\n\nvar lawOfThree int":                          true,
		"a.go package a\n\ntype x struct{ TheLaw int }":                 true,
		"a.go package a\n\nfunc f() { for law := range 3 { _ = law } }": true,
		"a.go package a\n\n// By the law of it.":                        true,
		"a.go package a\n\nvar a = \"by law, it fails\"":                true,
		"a.go package a\n\nvar lawn, claw, outlawed int":                false,
		"a.go package a\n\nvar parallelLanes int":                       true,
		"a.go package a\n\nvar f = \"--max-lanes\"":                     true,
		"a.go package a\n\n// Cars have lanes.":                         false,
		"a.md By the law.":                                              true,
		"a.md Cars have lanes.":                                         false,
		"a.yaml max_lanes: 3":                                           true,
		"a.yaml about: Cars have lanes.":                                false,
		`a.json {"max": 1, "siteName": 2}`:                              true,
		"a.sql -- the law of it":                                        true,
		"Makefile law: build":                                           true,
		"docs/CHANGELOG.md Flaws are called mutants.":                   false,
		"cmd/chaos/other.go package a\n\nvar f = \"flaw\"":              true,
	} {
		path, text, _ := strings.Cut(source, " ")
		if uses := usesIn(t, byForm(), path, []byte(text)); (len(uses) > 0) != found {
			t.Errorf("%q: found is %v", source, uses)
		}
	}
}
