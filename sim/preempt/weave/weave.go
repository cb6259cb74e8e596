// Package weave writes a copy of the core's source in which the simulator can switch tasks inside
// critical sections; see package preempt. It works on the text: an insertion is on the line of the
// statement that it precedes, so that stacks show the lines of the original.
package weave

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"handoff/chaos/overlay"
)

// Packages are the packages whose tasks share memory and run in the simulator. core/telemetry is
// not among them: its limited logger only works if lines are recorded, and a recorded run must make
// the same draws as the run before it.
var Packages = []string{"core/broker", "core/executor", "core/unread", "core/worker"}

// Overlay is the result of Write.
type Overlay struct {
	// File is the argument of go build's -overlay; Tag is that of -tags.
	File string
	// Points are the positions of the points, by number: FILE:LINE.
	Points []string
}

// Tag is the build tag of a woven build.
const Tag = "preempt"

// Write weaves the core of the module in root into dir. Each mutant replaces a piece of the source
// by both versions and a check at run time that chooses between them.
func Write(root, dir string, mutants ...Mutant) (*Overlay, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	o := &Overlay{}
	replace := map[string]string{}
	left := map[string]bool{}
	for _, m := range mutants {
		left[m.Name] = true
	}
	for _, name := range Packages {
		files, err := read(root, name)
		if err != nil {
			return nil, err
		}
		shared := sharedFields(files)
		for _, f := range files {
			for _, m := range mutants {
				if m.File == f.name {
					delete(left, m.Name)
				}
			}
			text, err := f.woven(shared, len(replace), mutants, &o.Points)
			if err != nil {
				return nil, err
			}
			if text == "" {
				continue
			}
			// The name is not that of a Go file: DIR may be inside the module, where ./... would
			// find it.
			to := filepath.Join(dir, filepath.FromSlash(f.name)) + ".txt"
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return nil, err
			}
			if err := overlay.WriteFile(to, []byte(text)); err != nil {
				return nil, err
			}
			replace[filepath.Join(root, filepath.FromSlash(f.name))] = to
		}
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("weaving: mutants %s are in files that are not woven; woven are %s", slices.Sorted(maps.Keys(left)), strings.Join(Packages, ", "))
	}
	o.File, err = overlay.Write(dir, replace)
	return o, err
}

// file is one source file.
type file struct {
	name string // from the module's root, with slashes
	text string
	set  *token.FileSet
	tree *ast.File
}

func read(root, name string) ([]*file, error) {
	paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(name), "*.go"))
	if err != nil {
		return nil, err
	}
	var files []*file
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f := &file{name: name + "/" + filepath.Base(path), text: string(text)}
		if err := f.parse(); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("weaving: %s has no source in %s; is this the root of the module?", name, root)
	}
	return files, nil
}

func (f *file) parse() (err error) {
	f.set = token.NewFileSet()
	f.tree, err = parser.ParseFile(f.set, f.name, f.text, parser.SkipObjectResolution)
	return err
}

func (f *file) offset(p token.Pos) int { return f.set.Position(p).Offset }

// woven returns the woven text, empty if it equals the original. It appends its points to those of
// the files before; group is the number of this file.
func (f *file) woven(shared map[string]bool, group int, mutants []Mutant, points *[]string) (string, error) {
	original := f.text
	for _, m := range mutants {
		if m.File != f.name {
			continue
		}
		if err := m.plant(f); err != nil {
			return "", err
		}
	}
	if f.text != original {
		if err := f.parse(); err != nil {
			return "", fmt.Errorf("weaving: a mutant's text does not parse: %w", err)
		}
	}
	var put []overlay.Insertion
	point := func(at token.Pos, form string) {
		put = append(put, overlay.Insertion{At: f.offset(at), Text: fmt.Sprintf(form, len(*points), group)})
		*points = append(*points, fmt.Sprintf("%s:%d", f.name, f.set.Position(at).Line))
	}
	locks := false
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if isMutex(n) {
			put = append(put, overlay.Insertion{At: f.offset(n.Pos()), Cut: int(n.End() - n.Pos()), Text: "preempt.Mutex"})
			locks = true
		}
		for _, s := range overlay.Statements(n) {
			if !touches(s, shared) {
				continue
			}
			point(s.Pos(), "preempt.Point(%d, %d); ")
			if unlocks(s) {
				point(s.End(), "; preempt.Point(%d, %d)")
			}
		}
		return true
	})
	if len(put) == 0 && f.text == original {
		return "", nil
	}
	put = append(put, overlay.Insertion{At: f.offset(f.tree.Name.End()), Text: `; import "handoff/sim/preempt"`})
	end := "\nvar _ = preempt.Point\n"
	if locks {
		end += "\nvar _ sync.Locker\n"
	}
	return overlay.Insert(f.text, put) + end, nil
}

// touches says that a statement, without the blocks in it, mentions a field that tasks share.
func touches(s ast.Stmt, shared map[string]bool) (found bool) {
	overlay.Within(s, func(n ast.Node) {
		if n, ok := n.(*ast.SelectorExpr); ok {
			found = found || shared[n.Sel.Name]
		}
	})
	return found
}

// unlocks says that a statement unlocks a mutex now.
func unlocks(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "Unlock"
}

func isMutex(n ast.Node) bool {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "sync" && s.Sel.Name == "Mutex"
}

// sharedFields are the names of the fields that tasks of this package share: those of every struct
// with a mutex, and of the structs of the package that such a struct holds. Names are precise
// enough: a superfluous point only costs time.
func sharedFields(files []*file) map[string]bool {
	structs := map[string]*ast.StructType{}
	for _, f := range files {
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if t, ok := n.(*ast.TypeSpec); ok {
				if s, ok := t.Type.(*ast.StructType); ok {
					structs[t.Name.Name] = s
				}
			}
			return true
		})
	}
	shared, taken := map[string]bool{}, map[string]bool{}
	var take func(name string)
	take = func(name string) {
		s := structs[name]
		if s == nil || taken[name] {
			return
		}
		taken[name] = true
		after := !guarded(s)
		for _, field := range s.Fields.List {
			after = after || isMutex(field.Type)
			if !after {
				continue // by convention a mutex guards the fields below it
			}
			for _, n := range field.Names {
				shared[n.Name] = true
			}
			ast.Inspect(field.Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					take(id.Name)
				}
				return true
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(structs)) {
		if guarded(structs[name]) {
			take(name)
		}
	}
	return shared
}

func guarded(s *ast.StructType) bool {
	return slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool { return isMutex(f.Type) })
}
