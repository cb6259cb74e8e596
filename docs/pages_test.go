package docs

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

// root is the repository, seen from this package.
const root = ".."

// page is one Markdown file.
type page struct {
	// path is relative to the repository, with slashes.
	path   string
	source []byte
	tree   ast.Node
}

// parsePage parses Markdown.
func parsePage(path string, source []byte) page {
	parser := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser()
	return page{path, source, parser.Parse(text.NewReader(source))}
}

// readPage reads the page at a path relative to the repository.
func readPage(t *testing.T, path string) page {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return parsePage(path, source)
}

// readPages reads every page of docs, README.md and ARCHITECTURE.md.
func readPages(t *testing.T) []page {
	t.Helper()
	pages := []page{readPage(t, "README.md"), readPage(t, "ARCHITECTURE.md")}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".md") {
			relative, _ := filepath.Rel(root, path)
			pages = append(pages, readPage(t, filepath.ToSlash(relative)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// walk calls visit for every node of the page.
func (p *page) walk(visit func(n ast.Node)) {
	_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			visit(n)
		}
		return ast.WalkContinue, nil
	})
}

// words is the text of a node without its markup.
func (p *page) words(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if leaf, ok := n.(*ast.Text); ok && entering {
			b.Write(leaf.Segment.Value(p.source))
			if leaf.SoftLineBreak() {
				b.WriteByte(' ')
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// line is the number of the line on which a node begins, as far as the parser knows.
func (p *page) line(n ast.Node) int {
	for ; n != nil; n = n.Parent() {
		if n.Type() == ast.TypeBlock && n.Lines().Len() > 0 {
			return 1 + bytes.Count(p.source[:n.Lines().At(0).Start], []byte("\n"))
		}
	}
	return 0
}

// spans are the code spans of the page, and where they stand.
func (p *page) spans() (spans []span) {
	p.walk(func(n ast.Node) {
		if n.Kind() == ast.KindCodeSpan {
			spans = append(spans, span{p.words(n), p.line(n)})
		}
	})
	return spans
}

type span struct {
	text string
	line int
}

// table is a table of a page, its cells without markup.
type table struct {
	header []string
	rows   [][]string
	line   int
}

func (p *page) tables() (tables []table) {
	p.walk(func(n ast.Node) {
		grid, ok := n.(*extast.Table)
		if !ok {
			return
		}
		found := table{line: p.line(n)}
		for row := grid.FirstChild(); row != nil; row = row.NextSibling() {
			var cells []string
			for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
				cells = append(cells, p.words(cell))
			}
			if found.header == nil {
				found.header = cells
			} else {
				found.rows = append(found.rows, cells)
			}
		}
		tables = append(tables, found)
	})
	return tables
}

// tableOf is the one table of a page whose header begins with these cells.
func (p *page) tableOf(t *testing.T, header ...string) table {
	t.Helper()
	var found []table
	for _, candidate := range p.tables() {
		if len(candidate.header) >= len(header) && strings.Join(candidate.header[:len(header)], "|") == strings.Join(header, "|") {
			found = append(found, candidate)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d tables whose header begins with %q, want 1", p.path, len(found), header)
	}
	return found[0]
}

// column are the cells of one column.
func (b table) column(n int) (cells []string) {
	for _, row := range b.rows {
		cells = append(cells, row[n])
	}
	return cells
}

// blocks are the fenced code blocks of a language.
func (p *page) blocks(language string) (blocks []string) {
	p.walk(func(n ast.Node) {
		if fence, ok := n.(*ast.FencedCodeBlock); ok && string(fence.Language(p.source)) == language {
			blocks = append(blocks, string(fence.Lines().Value(p.source)))
		}
	})
	return blocks
}

// anchors are the names under which GitHub links to the page's headings.
func (p *page) anchors() map[string]bool {
	names := map[string]bool{}
	p.walk(func(n ast.Node) {
		if n.Kind() != ast.KindHeading {
			return
		}
		name := anchor(p.words(n))
		for i := 1; names[name]; i++ {
			name = anchor(p.words(n)) + "-" + string(rune('0'+i))
		}
		names[name] = true
	})
	return names
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)

func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// read is the text of a file, by its path relative to this package.
func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// allTexts are the files below a directory of the repository that end so, by their paths from the root.
func allTexts(t *testing.T, dir string, endings ...string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", ".tools", "bin", "out", "testdata"}, d.Name()):
			return filepath.SkipDir
		case !d.Type().IsRegular(), !slices.Contains(endings, filepath.Ext(path)):
			return nil
		}
		name, err := filepath.Rel(root, path)
		found[filepath.ToSlash(name)] = read(t, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// same compares lists without their order.
func same(t *testing.T, what string, have, want []string) {
	t.Helper()
	a, b := slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want))
	if !slices.Equal(a, b) {
		t.Errorf("%s: the page has %q, the code %q", what, a, b)
	}
}
