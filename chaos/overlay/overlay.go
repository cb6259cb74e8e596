// Package overlay changes the source of a build without modifying its files. It inserts text before
// statements, on their own lines, so that stacks show the lines of the original. It also writes the file
// for go build's -overlay.
package overlay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Insertion is a text that replaces the Cut bytes at a byte offset.
type Insertion struct {
	At, Cut int
	Text    string
}

// Insert returns a text with insertions. Insertions at the same offset keep their order.
func Insert(text string, put []Insertion) string {
	slices.SortStableFunc(put, func(a, b Insertion) int { return cmp.Compare(a.At, b.At) })
	var out strings.Builder
	from := 0
	for _, p := range put {
		out.WriteString(text[from:p.At])
		out.WriteString(p.Text)
		from = p.At + p.Cut
	}
	out.WriteString(text[from:])
	return out.String()
}

// Write writes overlay.json into a folder, which must exist, and returns its path. replace maps absolute
// paths of files to their replacements.
func Write(dir string, replace map[string]string) (string, error) {
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, WriteFile(path, text)
}

// WriteFile writes a file of an overlay, in a folder that exists. The path always holds a whole text, the
// old or the new one, because another build may read the same overlay meanwhile. A file that already has
// the text is left unchanged.
func WriteFile(path string, text []byte) error {
	if former, err := os.ReadFile(path); err == nil && bytes.Equal(former, text) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		if err = os.Rename(f.Name(), path); err == nil {
			return nil
		}
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// Read returns the replacements of an overlay, or none for an empty path.
func Read(path string) (map[string]string, error) {
	var read struct{ Replace map[string]string }
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &read); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
	}
	if read.Replace == nil {
		read.Replace = map[string]string{}
	}
	return read.Replace, nil
}

// Statements returns the list of statements directly in n.
func Statements(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		if !isSwitchBody(n) {
			return n.List
		}
	case *ast.CaseClause:
		return n.Body
	case *ast.CommClause:
		return n.Body
	}
	return nil
}

// Within visits the nodes of a statement, except those inside its blocks.
func Within(s ast.Stmt, visit func(ast.Node)) {
	ast.Inspect(s, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt:
			return n == ast.Node(s) || isSwitchBody(n)
		case *ast.CaseClause:
			for _, e := range n.List {
				Within(&ast.ExprStmt{X: e}, visit)
			}
			return false
		case *ast.CommClause:
			return false
		case nil:
			return false
		}
		visit(n)
		return true
	})
}

// isSwitchBody reports whether a block is the body of a switch or select, where no statement can precede a
// clause.
func isSwitchBody(b *ast.BlockStmt) bool {
	if len(b.List) == 0 {
		return false
	}
	switch b.List[0].(type) {
	case *ast.CaseClause, *ast.CommClause:
		return true
	}
	return false
}
