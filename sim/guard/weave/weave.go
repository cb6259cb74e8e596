// Package weave writes a copy of the core's source that checks, at every access to a guarded field,
// whether its mutex is held; see package guard. It works on the text: an insertion is on the line
// of its statement, so that stacks show the lines of the original.
package weave

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"handoff/chaos/overlay"
)

// Packages are the packages whose tasks share memory and run in the simulator.
var Packages = []string{"core/broker", "core/executor", "core/telemetry", "core/unread", "core/worker"}

// Add reads before, the overlay of a build, empty for none. It writes another overlay into dir, in
// which Packages are guarded as well, including replacements by the first overlay. root is the
// module's directory. It returns the path of the new overlay, and how many accesses it guards.
func Add(root, before, dir string) (path string, guarded int, err error) {
	replace, err := overlay.Read(before)
	if err != nil {
		return "", 0, fmt.Errorf("guarding the core: %w", err)
	}
	texts, guarded, err := texts(root, replace)
	if err != nil {
		return "", 0, fmt.Errorf("guarding the core: %w", err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", 0, fmt.Errorf("guarding the core: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", 0, fmt.Errorf("guarding the core: %w", err)
	}
	for i, from := range slices.Sorted(maps.Keys(texts)) {
		// The name is not that of a Go file: dir may be inside the module, where ./... would find
		// it.
		to := filepath.Join(dir, fmt.Sprintf("%03d_%s.txt", i, filepath.Base(from)))
		if err := overlay.WriteFile(to, texts[from]); err != nil {
			return "", 0, fmt.Errorf("guarding the core: %w", err)
		}
		replace[from] = to
	}
	if path, err = overlay.Write(dir, replace); err != nil {
		return "", 0, fmt.Errorf("guarding the core: %w", err)
	}
	return path, guarded, nil
}

// texts are the guarded files by their paths, without files in which nothing is guarded.
func texts(root string, replace map[string]string) (map[string][]byte, int, error) {
	sources := map[string][]byte{}
	for from, to := range replace {
		text, err := os.ReadFile(to)
		if err != nil {
			return nil, 0, err
		}
		sources[from] = text
	}
	var patterns []string
	for _, p := range Packages {
		patterns = append(patterns, "./"+p)
	}
	pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Dir: root, Overlay: sources}, patterns...)
	if err != nil {
		return nil, 0, fmt.Errorf("loading %s: %w", strings.Join(patterns, " "), err)
	}
	all := map[string][]byte{}
	guarded := 0
	for _, p := range pkgs {
		if len(p.Errors) > 0 {
			var errs []error
			for _, e := range p.Errors {
				errs = append(errs, e)
			}
			return nil, 0, fmt.Errorf("loading %s: %w", p.PkgPath, errors.Join(errs...))
		}
		lines := map[string][]string{}
		files := make([]*file, len(p.CompiledGoFiles))
		for i, path := range p.CompiledGoFiles {
			source := sources[path]
			if source == nil {
				if source, err = os.ReadFile(path); err != nil {
					return nil, 0, err
				}
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return nil, 0, err
			}
			files[i] = &file{name: filepath.ToSlash(name), text: string(source), pkg: p, tree: p.Syntax[i], lines: lines}
			lines[path] = strings.Split(string(source), "\n")
		}
		for i, path := range p.CompiledGoFiles {
			text, n := files[i].woven()
			if n > 0 {
				all[path] = []byte(text)
				guarded += n
			}
		}
	}
	return all, guarded, nil
}

// file is one source file.
type file struct {
	name string // from the module's root, with slashes
	text string
	pkg  *packages.Package
	tree *ast.File
	// lines are the lines of every file of the package, by path.
	lines map[string][]string
}

func (f *file) at(p token.Pos) token.Position { return f.pkg.Fset.Position(p) }

// woven returns the guarded text, and how many accesses it guards.
func (f *file) woven() (string, int) {
	var put []overlay.Insertion
	for _, d := range f.tree.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		own := f.made(fn)
		held, by := f.held(fn)
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			for _, s := range overlay.Statements(n) {
				for _, g := range f.guards(s, own, held, by) {
					put = append(put, overlay.Insertion{At: f.at(s.Pos()).Offset, Text: g})
				}
			}
			return true
		})
	}
	if len(put) == 0 {
		return f.text, 0
	}
	put = append(put, overlay.Insertion{At: f.at(f.tree.Name.End()).Offset, Text: `; import "handoff/sim/guard"`})
	return overlay.Insert(f.text, put), len(put) - 1
}

// made are a function's variables whose value the function makes itself, so that nobody else has it
// yet.
func (f *file) made(fn *ast.FuncDecl) map[types.Object]bool {
	own := map[types.Object]bool{}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		a, ok := n.(*ast.AssignStmt)
		if !ok || a.Tok != token.DEFINE || len(a.Lhs) != len(a.Rhs) {
			return true
		}
		for i := range a.Lhs {
			value := a.Rhs[i]
			if u, ok := value.(*ast.UnaryExpr); ok && u.Op == token.AND {
				value = u.X
			}
			id, named := a.Lhs[i].(*ast.Ident)
			if _, literal := value.(*ast.CompositeLit); named && literal {
				own[f.pkg.TypesInfo.Defs[id]] = true
			}
		}
		return true
	})
	return own
}

// guards are the calls to insert before a statement, one for each mutex.
func (f *file) guards(s ast.Stmt, own map[types.Object]bool, held []types.Type, by string) (calls []string) {
	if _, block := s.(*ast.BlockStmt); block {
		return nil // its statements have their own
	}
	var seen []string
	overlay.Within(s, func(n ast.Node) {
		e, ok := n.(*ast.SelectorExpr)
		if !ok {
			return
		}
		mutex, field := f.mutex(e)
		if t := f.pkg.TypesInfo.TypeOf(e.X); mutex == "" && t != nil && slices.ContainsFunc(held, func(h types.Type) bool { return types.Identical(h, t) }) {
			if selection := f.pkg.TypesInfo.Selections[e]; selection != nil && selection.Kind() == types.FieldVal {
				mutex, field = by, types.TypeString(t, func(*types.Package) string { return "" })+"."+e.Sel.Name
			}
		}
		if mutex == "" || slices.Contains(seen, mutex) || !f.before(e.X, s, own) {
			return
		}
		seen = append(seen, mutex)
		calls = append(calls, fmt.Sprintf("guard.Held(&%s, %q); ", mutex, fmt.Sprintf("%s:%d touches %s", f.name, f.at(s.Pos()).Line, field)))
	})
	return calls
}

// held are the pointers that guarded fields of a method's receiver hold, and the expression of the
// mutex: the values that they point to are guarded, too, where the receiver's own methods touch
// them.
func (f *file) held(fn *ast.FuncDecl) (pointers []types.Type, mutex string) {
	if fn.Recv == nil || len(fn.Recv.List[0].Names) == 0 {
		return nil, ""
	}
	receiver := fn.Recv.List[0].Names[0]
	p, ok := f.pkg.TypesInfo.TypeOf(fn.Recv.List[0].Type).(*types.Pointer)
	if !ok {
		return nil, ""
	}
	s, ok := p.Elem().Underlying().(*types.Struct)
	if !ok {
		return nil, ""
	}
	for i := range s.NumFields() {
		switch at := s.Field(i); {
		case at.Type().String() == "sync.Mutex" && !at.Embedded():
			mutex = receiver.Name + "." + at.Name()
		case mutex == "":
		case f.gap(s.Field(i-1), at):
			return pointers, mutex
		default:
			if p := pointed(at.Type()); p != nil {
				pointers = append(pointers, p)
			}
		}
	}
	return pointers, mutex
}

// pointed is the pointer to a struct of this module that a list or a map holds, nil if it holds
// none.
func pointed(t types.Type) types.Type {
	switch t := t.Underlying().(type) {
	case *types.Slice:
		return pointed(t.Elem())
	case *types.Map:
		return pointed(t.Elem())
	case *types.Pointer:
		if _, ok := t.Elem().Underlying().(*types.Struct); ok {
			return t
		}
	}
	return nil
}

// mutex is the expression of the mutex that guards the field that e selects, empty if none does.
// field is the field's name with its type's.
func (f *file) mutex(e *ast.SelectorExpr) (mutex, field string) {
	selection := f.pkg.TypesInfo.Selections[e]
	if selection == nil || selection.Kind() != types.FieldVal {
		return "", ""
	}
	of := f.text[f.at(e.X.Pos()).Offset:f.at(e.X.End()).Offset]
	t := selection.Recv()
	index := selection.Index()
	for n, i := range index {
		name := ""
		if p, ok := t.Underlying().(*types.Pointer); ok {
			t = p.Elem()
		}
		if named, ok := types.Unalias(t).(*types.Named); ok {
			name = named.Obj().Name()
		}
		s, ok := t.Underlying().(*types.Struct)
		if !ok {
			return "", ""
		}
		if n < len(index)-1 {
			of += "." + s.Field(i).Name()
			t = s.Field(i).Type()
			continue
		}
		for above := i - 1; above >= 0; above-- {
			if f.gap(s.Field(above), s.Field(above+1)) {
				break
			}
			if s.Field(above).Type().String() == "sync.Mutex" && !s.Field(above).Embedded() {
				return of + "." + s.Field(above).Name(), name + "." + s.Field(i).Name()
			}
		}
	}
	return "", ""
}

// gap says that an empty line separates two fields, or that they belong to another package.
func (f *file) gap(above, below *types.Var) bool {
	from, to := f.at(above.Pos()), f.at(below.Pos())
	text := f.lines[from.Filename]
	if text == nil {
		return true
	}
	for line := from.Line; line < to.Line-1; line++ {
		if strings.TrimSpace(text[line]) == "" {
			return true
		}
	}
	return false
}

// before says that an expression can be evaluated before a statement, without side effects, and
// that others know its value.
func (f *file) before(e ast.Expr, s ast.Stmt, own map[types.Object]bool) bool {
	switch e := e.(type) {
	case *ast.Ident:
		o := f.pkg.TypesInfo.ObjectOf(e)
		return o != nil && !own[o] && (o.Pos() < s.Pos() || o.Pos() >= s.End())
	case *ast.SelectorExpr:
		return f.before(e.X, s, own)
	case *ast.ParenExpr:
		return f.before(e.X, s, own)
	case *ast.StarExpr:
		return f.before(e.X, s, own)
	}
	return false
}
