package docs

import (
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
)

// A link to a file or a heading that does not exist is found here, not by a reader at three in the morning.
func TestEveryRelativeLinkLeadsSomewhere(t *testing.T) {
	pages := readPages(t)
	anchors := map[string]map[string]bool{}
	for _, p := range pages {
		anchors[p.path] = p.anchors()
	}
	for _, p := range pages {
		for _, link := range p.links() {
			switch known, isPage := anchors[link.target]; {
			case !exists(link.target):
				t.Errorf("%s:%d links to %s, and there is no %s", p.path, link.line, link.text, link.target)
			case link.anchor != "" && isPage && !known[link.anchor]:
				t.Errorf("%s:%d links to %s, and %s has no heading #%s", p.path, link.line, link.text, link.target, link.anchor)
			}
		}
	}
}

// A page that nothing links to is a page that nobody reads.
func TestNoPageIsAnOrphan(t *testing.T) {
	pages := readPages(t)
	linked := map[string]bool{"README.md": true}
	for _, p := range pages {
		for _, link := range p.links() {
			if link.target != p.path {
				linked[link.target] = true
			}
		}
	}
	for _, p := range pages {
		if !linked[p.path] && !linked[path.Dir(p.path)] {
			t.Errorf("nothing links to %s; link it from README.md or from another page", p.path)
		}
	}
}

// mostPicture is how large a picture may be, in bytes: everybody who clones the repository gets it.
const mostPicture = 200_000

// A newcomer reads the README to its end only if it is short.
func TestTheReadmeIsShort(t *testing.T) {
	const most = 120
	readme := readPage(t, "README.md")
	if n := strings.Count(string(readme.source), "\n"); n > most {
		t.Errorf("README.md has %d lines, at most %d are allowed: move something to a page of docs", n, most)
	}
}

// A picture is small, and some page shows it.
func TestPicturesAreSmallAndShown(t *testing.T) {
	shown := map[string]bool{}
	for _, p := range readPages(t) {
		for _, link := range p.links() {
			shown[link.target] = true
		}
	}
	files, err := os.ReadDir("pictures")
	if err != nil || len(files) == 0 {
		t.Fatalf("docs/pictures has no file: %v", err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > mostPicture {
			t.Errorf("docs/pictures/%s has %d bytes, at most %d are allowed", f.Name(), info.Size(), mostPicture)
		}
		if !shown["docs/pictures/"+f.Name()] {
			t.Errorf("no page shows docs/pictures/%s", f.Name())
		}
	}
}

// A path in a code span is a promise, too.
func TestEveryFileThatAPageNamesExists(t *testing.T) {
	bases := goFiles(t)
	for _, p := range readPages(t) {
		named := p.spans()
		p.walk(func(n ast.Node) {
			if n.Kind() == ast.KindLink {
				named = append(named, span{p.words(n), p.line(n)})
			}
		})
		for _, s := range named {
			name, _, _ := strings.Cut(s.text, ":")
			switch {
			case !strings.Contains(name, "/") && strings.HasSuffix(name, ".go") && !strings.ContainsAny(name, " *"):
				if !bases[name] {
					t.Errorf("%s:%d names %s, and there is no file of that name", p.path, s.line, name)
				}
			case filePath.MatchString(name) && !made.MatchString(name):
				here := path.Join(path.Dir(p.path), name)
				if !exists(name) && !exists(here) {
					t.Errorf("%s:%d names %s, which does not exist", p.path, s.line, name)
				}
			}
		}
	}
}

// filePath finds paths of files: words with a slash that end as files do. Words in capitals stand for something else.
var filePath = regexp.MustCompile(`^[a-z.][A-Za-z0-9_.*/-]*/[A-Za-z0-9_.*-]+\.(go|md|yaml|yml|json|sql|sh)$`)

// made finds what is written when something runs, and what only examples have.
var made = regexp.MustCompile(`^(reports/out|bin|packs|actions)/|[A-Z]{4,}`)

type link struct {
	text, target, anchor string
	line                 int
}

// links are those to files of this repository, pictures included, their targets relative to it.
func (p *page) links() (links []link) {
	p.walk(func(n ast.Node) {
		var destination []byte
		switch n := n.(type) {
		case *ast.Link:
			destination = n.Destination
		case *ast.Image:
			destination = n.Destination
		default:
			return
		}
		u, err := url.Parse(string(destination))
		if err != nil || u.Scheme != "" || u.Host != "" {
			return
		}
		target := p.path
		if u.Path != "" {
			target = path.Join(path.Dir(p.path), u.Path)
		}
		links = append(links, link{string(destination), target, u.Fragment, p.line(n)})
	})
	return links
}

func exists(name string) bool {
	found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(name)))
	return err == nil && len(found) > 0
}

// goFiles are the names of all Go files, without their directories.
func goFiles(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "out") {
			return filepath.SkipDir
		}
		if err == nil && strings.HasSuffix(path, ".go") {
			names[d.Name()] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// Broken links are found: the tests above can fail.
func TestLinksAreSeen(t *testing.T) {
	p := parsePage("docs/some.md", []byte("# A heading, twice!\n\n[a](../README.md#two-commands) [b](nowhere.md) [c](#a-heading-twice) [d](https://example.com)\n\n`core/no/file.go`\n"))
	var targets []string
	for _, l := range p.links() {
		targets = append(targets, l.target+"#"+l.anchor)
	}
	if got, want := strings.Join(targets, " "), "README.md#two-commands docs/nowhere.md# docs/some.md#a-heading-twice"; got != want {
		t.Errorf("links are %q, want %q", got, want)
	}
	if !p.anchors()["a-heading-twice"] {
		t.Errorf("anchors are %v", p.anchors())
	}
	if exists("docs/nowhere.md") || !exists("core/*/doc.go") {
		t.Error("what exists and what does not is not told apart")
	}
	if s := p.spans(); len(s) != 1 || !filePath.MatchString(s[0].text) {
		t.Errorf("spans are %v", s)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Error(err)
	}
}

// A newcomer knows none of our words. README.md explains each where it first uses it, in italics, or
// links to the page that does.
func TestTheReadmeExplainsItsWordsAtFirstUse(t *testing.T) {
	text := string(readPage(t, "README.md").source)
	for word, forms := range map[string]string{
		"execution": `executions?`, "dispatch": `dispatch(?:es|ed)?`, "claim": `claim(?:s|ed)?`, "seed": `seeds?`, "scenario": `scenarios?`,
		"invariant": `invariants?`, "mutant": `mutants?`, "lease": `leases?`, "epoch": `epochs?`, "profile": `profiles?`, "heartbeat": `heartbeats?`,
		"varied": `varied`, "fencing": `fenc(?:e|es|ed|ing)`,
	} {
		first := regexp.MustCompile(`(?i)\b` + forms + `\b`).FindStringIndex(text)
		if first == nil {
			continue
		}
		before, after := text[:first[0]], text[first[1]:]
		emphasised := strings.HasSuffix(before, "*") && strings.HasPrefix(after, "*")
		linked := strings.HasSuffix(before, "[") && strings.HasPrefix(after, "](")
		if !emphasised && !linked {
			line := strings.Count(before, "\n") + 1
			t.Errorf("README.md, line %d: %q is used before it is explained", line, word)
		}
	}
	if beginning, _, _ := strings.Cut(text, "\n## "); !strings.Contains(beginning, "docs/glossary.md") {
		t.Error("README.md does not link to the glossary before its first section")
	}
}
