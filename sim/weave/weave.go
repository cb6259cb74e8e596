// Package weave writes copies of the core's source with calls between its statements. There are two kinds
// of calls; package woven defines them. It edits the text: an insertion is on the line of the statement
// that it precedes, so that stacks show the lines of the original.
package weave

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"handoff/chaos/overlay"
)

// Kind is the kind of the inserted calls.
type Kind string

// The kinds.
const (
	Guard   Kind = "guard"   // woven.Held before each access to a field below a mutex
	Preempt Kind = "preempt" // woven.Point at each access to a field that tasks share, and woven.Mutex
	Neither Kind = ""        // nothing but mutants
)

// Tag is the build tag that a build with an overlay of kind Preempt needs.
const Tag = "preempt"

// Packages lists the packages whose tasks share memory and run in the simulator. Preempt skips
// core/telemetry: its limited logger only works if lines are recorded, and a recorded run must draw the same
// numbers as the unrecorded run.
var Packages = []string{"core/broker", "core/executor", "core/telemetry", "core/unread", "core/worker"}

// Overlay is the result of Write.
type Overlay struct {
	// File is the path for go build's -overlay.
	File string
	// Points maps the number of each call to its position, FILE:LINE.
	Points []string
}

// Write weaves the core of the module in root into dir. before is the path of an overlay to extend, empty
// for none; its replacements are also woven. Each mutant replaces a piece of the source by both versions
// and a check at run time that chooses between them.
func Write(root, before, dir string, kind Kind, mutants ...Mutant) (*Overlay, error) {
	o, err := writeOverlay(root, before, dir, kind, mutants)
	if err != nil {
		return nil, fmt.Errorf("weaving the core: %w", err)
	}
	return o, nil
}

func writeOverlay(root, before, dir string, kind Kind, mutants []Mutant) (*Overlay, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	replace, err := overlay.Read(before)
	if err != nil {
		return nil, err
	}
	sources := map[string][]byte{}
	for from, to := range replace {
		if sources[from], err = os.ReadFile(to); err != nil {
			return nil, err
		}
	}
	texts := map[string]string{}
	for _, m := range mutants {
		if err := m.plantInto(root, sources); err != nil {
			return nil, err
		}
		at := filepath.Join(root, filepath.FromSlash(m.File))
		texts[at] = string(sources[at])
	}
	o := &Overlay{}
	if kind != Neither {
		if err := o.weaveCore(root, kind, sources, texts); err != nil {
			return nil, err
		}
	}
	for from, text := range texts {
		name, err := filepath.Rel(root, from)
		if err != nil {
			return nil, err
		}
		// The name is not that of a Go file: dir may be inside the module, where ./... would find it.
		to := filepath.Join(dir, name) + ".txt"
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, err
		}
		if err := overlay.WriteFile(to, []byte(text)); err != nil {
			return nil, err
		}
		replace[from] = to
	}
	o.File, err = overlay.Write(dir, replace)
	return o, err
}

// weaveCore adds the woven files to texts, by path. sources are the texts that differ from the files.
func (o *Overlay) weaveCore(root string, kind Kind, sources map[string][]byte, texts map[string]string) error {
	var patterns []string
	for _, p := range Packages {
		if kind != Preempt || p != "core/telemetry" {
			patterns = append(patterns, "./"+p)
		}
	}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: root, Overlay: sources}, patterns...)
	if err != nil {
		return fmt.Errorf("loading %s: %w", strings.Join(patterns, " "), err)
	}
	slices.SortFunc(pkgs, func(a, b *packages.Package) int { return strings.Compare(a.PkgPath, b.PkgPath) })
	group := 0
	for _, p := range pkgs {
		if len(p.Errors) > 0 {
			var errs []error
			for _, e := range p.Errors {
				errs = append(errs, e)
			}
			return fmt.Errorf("loading %s: %w", p.PkgPath, errors.Join(errs...))
		}
		w := &weaver{Overlay: o, kind: kind, pkg: p, lines: map[string][]string{}, shared: sharedFields(p.Syntax)}
		files := make([]*file, len(p.CompiledGoFiles))
		for i, path := range p.CompiledGoFiles {
			source := sources[path]
			if source == nil {
				if source, err = os.ReadFile(path); err != nil {
					return err
				}
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			files[i] = &file{weaver: w, name: filepath.ToSlash(name), text: string(source), tree: p.Syntax[i]}
			w.lines[path] = strings.Split(string(source), "\n")
		}
		for i, path := range p.CompiledGoFiles {
			files[i].group = group
			if text, changed := files[i].wovenText(); changed {
				texts[path] = text
			}
			if texts[path] != "" {
				group++
			}
		}
	}
	return nil
}

// weaver weaves one package.
type weaver struct {
	*Overlay
	kind   Kind
	pkg    *packages.Package
	lines  map[string][]string // of every file of the package, by path
	shared map[string]bool     // result of sharedFields
}

func (w *weaver) positionOf(p token.Pos) token.Position { return w.pkg.Fset.Position(p) }

// file is one source file.
type file struct {
	*weaver
	name  string // from the module's root, with slashes
	text  string
	tree  *ast.File
	group int // the file's number, for woven.Point
}

// wovenText returns the woven text, and whether anything was inserted.
func (f *file) wovenText() (text string, changed bool) {
	var put []overlay.Insertion
	end := ""
	insert := func(at token.Pos, text string) {
		put = append(put, overlay.Insertion{At: f.positionOf(at).Offset, Text: text})
	}
	point := func(at token.Pos, form string, args ...any) {
		insert(at, fmt.Sprintf(form, args...))
		f.Points = append(f.Points, fmt.Sprintf("%s:%d", f.name, f.positionOf(at).Line))
	}
	var fn function
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if d, ok := n.(*ast.FuncDecl); ok {
			fn = f.inspectFunction(d)
		}
		if f.kind == Preempt && isMutex(n) {
			put = append(put, overlay.Insertion{At: f.positionOf(n.Pos()).Offset, Cut: int(n.End() - n.Pos()), Text: "woven.Mutex"})
			end = "\nvar _ sync.Locker\n"
		}
		for _, s := range overlay.Statements(n) {
			switch {
			case f.kind == Guard:
				for _, a := range f.guardedAccesses(s, fn) {
					point(s.Pos(), "woven.Held(&%s, %q); ", a.mutex, fmt.Sprintf("%s:%d touches %s", f.name, f.positionOf(s.Pos()).Line, a.field))
				}
			case f.touchesShared(s):
				point(s.Pos(), "woven.Point(%d, %d); ", len(f.Points), f.group)
				if isUnlock(s) {
					point(s.End(), "; woven.Point(%d, %d)", len(f.Points), f.group)
				}
			}
		}
		return true
	})
	if len(put) == 0 {
		return f.text, false
	}
	if !strings.Contains(f.text, imported) {
		insert(f.tree.Name.End(), imported)
	}
	return overlay.Insert(f.text, put) + end, true
}

// imported is inserted on the line of the package clause, so that other lines keep their numbers.
const imported = `; import "handoff/sim/woven"`

// Mutant is a missing lock or a lock that is released too early: a bug that no ordinary run detects.
type Mutant struct {
	// Name is the value of the environment variable woven.MutantVariable that selects the mutant.
	Name string
	// File contains Old exactly once, and New replaces it. New calls woven.Planted with the name, so
	// that a build holds every mutant and runs with at most one.
	File, Old, New string
}

// plantInto changes the mutant's file in sources.
func (m *Mutant) plantInto(root string, sources map[string][]byte) error {
	if !slices.Contains(Packages, path.Dir(m.File)) {
		return fmt.Errorf("mutant %s is in %s, which is not woven; woven are %s", m.Name, m.File, strings.Join(Packages, ", "))
	}
	at := filepath.Join(root, filepath.FromSlash(m.File))
	source := sources[at]
	if source == nil {
		var err error
		if source, err = os.ReadFile(at); err != nil {
			return err
		}
	}
	text := string(source)
	if n := strings.Count(text, m.Old); n != 1 {
		return fmt.Errorf("mutant %s: its text stands %d times in %s, want once; it begins %.60q", m.Name, n, m.File, m.Old)
	}
	text = strings.Replace(text, m.Old, m.New, 1)
	if !strings.Contains(text, imported) {
		head, tail, _ := strings.Cut(text, "\n\nimport ")
		text = head + imported + "\n\nimport " + tail
	}
	sources[at] = []byte(text)
	return nil
}
