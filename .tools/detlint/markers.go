package main

import (
	"go/ast"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
)

const markerText = "detlint:ok"

// A marker suppresses the findings of one line, and says why they do no harm.
type marker struct {
	at     token.Pos
	reason string
	used   bool
}

type line struct {
	file string
	line int
}

type markers struct {
	byLine map[line]*marker
	all    []*marker
	// spaced are comments that look like a marker but have a blank before it, so that gofmt would
	// treat them as prose.
	spaced []token.Pos
}

// readMarkers finds the markers of all files. One at the end of a line of code covers that line
// alone; one on a line of its own covers the first line after its comment. So no marker covers
// more than one line.
func readMarkers(pass *analysis.Pass, files []*ast.File) (markers, error) {
	ms := markers{byLine: map[line]*marker{}}
	for _, f := range files {
		var source []string
		for _, group := range f.Comments {
			for _, comment := range group.List {
				text, ok := strings.CutPrefix(comment.Text, "//")
				if !ok {
					continue
				}
				if strings.HasPrefix(strings.TrimSpace(text), markerText) && !strings.HasPrefix(text, markerText) {
					ms.spaced = append(ms.spaced, comment.Pos())
					continue
				}
				rest, ok := strings.CutPrefix(text, markerText)
				if !ok || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
					continue
				}
				if source == nil {
					content, err := pass.ReadFile(pass.Fset.Position(f.FileStart).Filename)
					if err != nil {
						return ms, err
					}
					source = strings.Split(string(content), "\n")
				}
				// A comment within the marker is no reason.
				reason, _, _ := strings.Cut(rest, "//")
				m := &marker{at: comment.Pos(), reason: strings.TrimSpace(reason)}
				ms.all = append(ms.all, m)

				pos := pass.Fset.Position(comment.Pos())
				covers := line{pos.Filename, pos.Line}
				if strings.TrimSpace(source[pos.Line-1][:pos.Column-1]) == "" {
					covers.line = pass.Fset.Position(group.End()).Line + 1
				}
				ms.byLine[covers] = m
			}
		}
	}
	return ms, nil
}

// cover says whether a finding at this place is marked. A marker without a reason covers too, so
// that its own finding is the only one to deal with.
func (ms markers) cover(at token.Position) bool {
	m := ms.byLine[line{at.Filename, at.Line}]
	if m == nil {
		return false
	}
	m.used = true
	return true
}

func (ms markers) reportMisuse(pass *analysis.Pass) {
	for _, at := range ms.spaced {
		pass.Reportf(at, "write //%s without a blank, else it is only prose", markerText)
	}
	for _, m := range ms.all {
		switch {
		case m.reason == "":
			pass.Reportf(m.at, "//%s needs a reason", markerText)
		case !m.used:
			pass.Reportf(m.at, "//%s suppresses nothing", markerText)
		}
	}
}
