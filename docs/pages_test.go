package docs

import (
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the path of the repository from this package.
const root = ".."

// page is one Markdown file. prose is its text with blank lines in place of code blocks.
type page struct{ path, text, prose string }

// readPage reads the page at a path relative to the repository.
func readPage(t *testing.T, name string) page {
	t.Helper()
	text := readText(t, filepath.Join(root, name))
	prose := codeBlock.ReplaceAllStringFunc(text, func(block string) string { return strings.Repeat("\n", strings.Count(block, "\n")) })
	return page{name, text, prose}
}

// readPages reads every page of docs, README.md and ARCHITECTURE.md.
func readPages(t *testing.T) []page {
	t.Helper()
	pages := []page{readPage(t, "README.md"), readPage(t, "ARCHITECTURE.md")}
	for _, name := range slices.Sorted(maps.Keys(allTexts(t, "docs", ".md"))) {
		pages = append(pages, readPage(t, name))
	}
	return pages
}

var (
	codeBlock  = regexp.MustCompile("(?ms)^ *```(\\w*)[^\n]*\n(.*?)^ *```$") //nolint:gocritic // (?m): a line begins in the middle, too
	codeSpan   = regexp.MustCompile("`((?:[^`\n]|\n[^`\n])+)`")
	linkMarkup = regexp.MustCompile(`!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)`)
	headline   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notAnchor  = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
	tableRows  = regexp.MustCompile(`(?m)(?:^\|.*\n)+`)
)

// plainText returns a text without markup, on one line.
func plainText(markup string) string {
	text := linkMarkup.ReplaceAllString(markup, "$1")
	return strings.TrimSpace(strings.NewReplacer("`", "", "**", "", "\n", " ").Replace(text))
}

// placeOf returns the page and line of an offset in the page's prose.
func (p *page) placeOf(at int) string {
	return fmt.Sprintf("%s:%d", p.path, 1+strings.Count(p.prose[:at], "\n"))
}

// span is a code span, or the text of a link, with its position.
type span struct{ text, place string }

func (p *page) codeSpans() (spans []span) {
	for _, m := range codeSpan.FindAllStringSubmatchIndex(p.prose, -1) {
		spans = append(spans, span{strings.Join(strings.Fields(p.prose[m[2]:m[3]]), " "), p.placeOf(m[0])})
	}
	return spans
}

// table is a table of a page, its cells without markup.
type table struct {
	header []string
	rows   [][]string
}

func (p *page) parseTables() (tables []table) {
	for _, lines := range tableRows.FindAllString(p.prose, -1) {
		var rows [][]string
		for line := range strings.Lines(lines) {
			line = strings.ReplaceAll(strings.Trim(line, "\n"), `\|`, "\x00")
			var cells []string
			for _, cell := range strings.Split(line[1:len(line)-1], "|") {
				cells = append(cells, strings.ReplaceAll(plainText(cell), "\x00", "|"))
			}
			rows = append(rows, cells)
		}
		tables = append(tables, table{rows[0], rows[2:]})
	}
	return tables
}

// tableOf returns the page's only table whose header begins with the given cells.
func (p *page) tableOf(t *testing.T, header ...string) table {
	t.Helper()
	found := slices.DeleteFunc(p.parseTables(), func(b table) bool {
		return len(b.header) < len(header) || !slices.Equal(b.header[:len(header)], header)
	})
	if len(found) != 1 {
		t.Fatalf("%s has %d tables whose header begins with %q, want 1", p.path, len(found), header)
	}
	return found[0]
}

// columnCells returns the cells of one column.
func (t table) columnCells(n int) (cells []string) {
	for _, row := range t.rows {
		cells = append(cells, row[n])
	}
	return cells
}

// codeBlocks returns the fenced code blocks of a language.
func (p *page) codeBlocks(language string) (blocks []string) {
	for _, m := range codeBlock.FindAllStringSubmatch(p.text, -1) {
		if m[1] == language {
			blocks = append(blocks, m[2])
		}
	}
	return blocks
}

// headingAnchors returns the anchors of the page's headings on GitHub.
func (p *page) headingAnchors() map[string]bool {
	names := map[string]bool{}
	for _, m := range headline.FindAllStringSubmatch(p.prose, -1) {
		heading := notAnchor.ReplaceAllString(strings.ToLower(plainText(m[1])), "")
		names[strings.ReplaceAll(heading, " ", "-")] = true
	}
	return names
}

// link is a link to a file of this repository, with its path from the root.
type link struct {
	span
	target, anchor string
}

func (p *page) fileLinks() (links []link) {
	for _, m := range linkMarkup.FindAllStringSubmatchIndex(p.prose, -1) {
		u, err := url.Parse(p.prose[m[4]:m[5]])
		if err != nil || u.Scheme != "" || u.Host != "" {
			continue
		}
		target := p.path
		if u.Path != "" {
			target = path.Join(path.Dir(p.path), u.Path)
		}
		links = append(links, link{span{plainText(p.prose[m[2]:m[3]]), p.placeOf(m[0])}, target, u.Fragment})
	}
	return links
}

// readText returns the text of the file at a path relative to this package.
func readText(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// allTexts maps paths from the root to the texts of the files below a directory with the given extensions.
func allTexts(t *testing.T, dir string, endings ...string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(filepath.Join(root, dir), func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", ".tools", "bin", "out", "testdata"}, d.Name()):
			return filepath.SkipDir
		case d.Type().IsRegular() && slices.Contains(endings, filepath.Ext(file)):
			name, _ := filepath.Rel(root, file)
			found[filepath.ToSlash(name)] = readText(t, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// compareLists compares lists, ignoring the order.
func compareLists(t *testing.T, what string, have, want []string) {
	t.Helper()
	a, b := slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want))
	if !slices.Equal(a, b) {
		t.Errorf("%s: the page has %q, the code %q", what, a, b)
	}
}
