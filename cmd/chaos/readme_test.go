package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var updateReadme = flag.Bool("update", false, "write what the programs print into README.md")

// example is a block of output in README.md with the command above it.
type example struct {
	// command is the last command of the block above.
	command string
	// begin and end are the offsets of the output in the page.
	begin, end int
}

var (
	exampleBlock = regexp.MustCompile("(?s)```sh\n([^`]*?)```\n\n```text\n(.*?)```")
	yamlBlock    = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	yamlName     = regexp.MustCompile(`(?m)^name: (\S+)$`)
	demoRun      = regexp.MustCompile(`(?m)^\t(bin/chaos run .* --mutant .*) \|\| code`)
	makeVariable = regexp.MustCompile(`(?m)^([A-Z_]+) +:= (\S+)$`)
)

// findExamples finds every block of output in a page.
func findExamples(page string) (all []example) {
	for _, m := range exampleBlock.FindAllStringSubmatchIndex(page, -1) {
		lines := strings.Split(strings.TrimSpace(page[m[2]:m[3]]), "\n")
		command, _, _ := strings.Cut(lines[len(lines)-1], "#")
		all = append(all, example{strings.TrimSpace(command), m[4], m[5]})
	}
	return all
}

// typedArgs returns the arguments of a command on the page; for `make demo`, those of its first run.
func typedArgs(t *testing.T, command, makefile string) []string {
	t.Helper()
	if command == "make demo" {
		m := demoRun.FindStringSubmatch(makefile)
		if m == nil {
			t.Fatal("the Makefile's demo runs no mutant in one line")
		}
		command = m[1]
		for _, v := range makeVariable.FindAllStringSubmatch(makefile, -1) {
			command = strings.ReplaceAll(command, "$("+v[1]+")", v[2])
		}
	}
	rest, ok := strings.CutPrefix(command, "bin/chaos ")
	if !ok || strings.Contains(rest, "$(") {
		t.Fatalf("README.md shows the output of %q, which this test can't run", command)
	}
	return strings.Fields(rest)
}

// widest is the maximum width of a line in README.md, in characters.
const widest = 124

// shownBeginning returns the part of an output that README.md shows: its lines up to the first empty one,
// truncated.
func shownBeginning(out string) string {
	first, _, _ := strings.Cut(out, "\n\n")
	lines := strings.Split(strings.TrimSpace(first), "\n")
	for i, line := range lines {
		if r := []rune(line); len(r) > widest {
			lines[i] = strings.TrimRight(string(r[:widest-1]), " ") + "…"
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// The outputs in README.md equal the beginning of what its commands print. After a change:
//
//	go test ./cmd/chaos -run TestReadmeShows -update
func TestReadmeShowsCommandOutput(t *testing.T) {
	skipInMakeCheck(t)
	path, err := filepath.Abs("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	t.Chdir(t.TempDir())
	for _, m := range yamlBlock.FindAllStringSubmatch(page, -1) {
		if name := yamlName.FindStringSubmatch(m[1]); name != nil {
			if err := os.WriteFile(name[1]+".yaml", []byte(m[1]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := findExamples(page)
	if len(all) < 2 || all[0].command != "make demo" {
		t.Fatalf("README.md has these examples: %v", all)
	}
	want, from := "", 0
	for _, e := range all {
		s := runChaos(t, typedArgs(t, e.command, string(makefile))...)
		if s.code != 1 {
			t.Errorf("%s: exit %d, want 1\n%s%s", e.command, s.code, s.out, s.err)
		}
		first := shownBeginning(s.out)
		want += page[from:e.begin] + first
		from = e.end
		if shown := page[e.begin:e.end]; shown != first && !*updateReadme {
			t.Errorf("README.md does not show the output of %s: go test ./cmd/chaos -run TestReadmeShows -update\nhave\n%s\nwant\n%s", e.command, shown, first)
		}
	}
	if want += page[from:]; *updateReadme && want != page {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // everybody may read it
			t.Fatal(err)
		}
	}
}

var demoFolder = regexp.MustCompile(`reports/out/demo/([\w.-]+)`)

// Every demo folder mentioned in the README or docs exists after `make demo`.
func TestDemoWritesFoldersThatPagesMention(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	named := map[string]string{}
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range demoFolder.FindAllStringSubmatch(string(text), -1) {
			named[m[1]] = filepath.Base(page)
		}
	}
	t.Chdir(t.TempDir())
	runChaos(t, typedArgs(t, "make demo", string(makefile))...).expectOutput(t, 1)
	for name, page := range named {
		if _, err := os.Stat(filepath.Join("reports", "out", "demo", name)); err != nil {
			t.Errorf("%s names a folder that the demo does not write: %v", page, err)
		}
	}
}
