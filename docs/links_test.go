package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every link leads to an existing file and heading.
func TestLinksLeadToExistingHeadings(t *testing.T) {
	pages := readPages(t)
	anchors := map[string]map[string]bool{}
	for _, p := range pages {
		anchors[p.path] = p.headingAnchors()
	}
	for _, p := range pages {
		for _, link := range p.fileLinks() {
			switch known, isPage := anchors[link.target]; {
			case !fileExists(link.target):
				t.Errorf("%s links to %s, which does not exist", link.place, link.target)
			case link.anchor != "" && isPage && !known[link.anchor]:
				t.Errorf("%s links to %s, which has no heading #%s", link.place, link.target, link.anchor)
			}
		}
	}
}

// Every page is linked from another page.
func TestPagesAreLinked(t *testing.T) {
	pages := readPages(t)
	linked := map[string]bool{"README.md": true}
	for _, p := range pages {
		for _, link := range p.fileLinks() {
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

// The pages don't exceed their size limits. Playbooks and the list of defects are looked up, not read.
func TestPagesAreShort(t *testing.T) {
	const mostPages, mostLines, mostPicture = 25, 4000, 200_000
	pages, lines := 0, 0
	for _, p := range readPages(t) {
		n := strings.Count(p.text, "\n")
		if most := map[string]int{"README.md": 100, "ARCHITECTURE.md": 150, "docs/STYLE.md": 60}[p.path]; most > 0 && n > most {
			t.Errorf("%s has %d lines, at most %d are allowed", p.path, n, most)
		}
		if path.Dir(p.path) == "docs" && p.path != "docs/defects.md" {
			pages++
			lines += n
		}
	}
	if pages > mostPages || lines > mostLines {
		t.Errorf("docs has %d pages with %d lines, at most %d and %d are allowed: shorten one, or let a command print it", pages, lines, mostPages, mostLines)
	}
	files, err := filepath.Glob("pictures/*")
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Size() > mostPicture {
			t.Errorf("%s is larger than %d bytes: %v", f, mostPicture, err)
		}
	}
	if err != nil || len(files) == 0 {
		t.Errorf("%d pictures: %v", len(files), err)
	}
}

// A file path in a code span must exist too.
func TestNamedFilesExist(t *testing.T) {
	bases := map[string]bool{}
	for name := range allTexts(t, "", ".go") {
		bases[path.Base(name)] = true
	}
	for _, p := range readPages(t) {
		named := p.codeSpans()
		for _, link := range p.fileLinks() {
			named = append(named, link.span)
		}
		for _, s := range named {
			name, _, _ := strings.Cut(s.text, ":")
			switch {
			case !strings.Contains(name, "/") && strings.HasSuffix(name, ".go") && !strings.ContainsAny(name, " *"):
				if !bases[name] {
					t.Errorf("%s names %s, and there is no file of that name", s.place, name)
				}
			case filePath.MatchString(name) && !made.MatchString(name):
				here := path.Join(path.Dir(p.path), name)
				if !fileExists(name) && !fileExists(here) {
					t.Errorf("%s names %s, which does not exist", s.place, name)
				}
			}
		}
	}
}

// filePath matches paths of files: words with a slash and a file extension. Words in capitals are placeholders.
var filePath = regexp.MustCompile(`^[a-z.][A-Za-z0-9_.*/-]*/[A-Za-z0-9_.*-]+\.(go|md|yaml|yml|json|sql|sh)$`)

// made matches files that only exist after running a program, or only in examples.
var made = regexp.MustCompile(`^(reports/out|bin|packs|actions)/|[A-Z]{4,}`)

func fileExists(name string) bool {
	found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(name)))
	return err == nil && len(found) > 0
}
