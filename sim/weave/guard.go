package weave

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"handoff/chaos/overlay"
)

// function holds facts about the function that is being woven.
type function struct {
	// own holds the variables whose value the function itself creates, so that no other task has it yet.
	own map[types.Object]bool
	// held are the pointer types in guarded fields of a method's receiver, and mutex is the expression of
	// their mutex. In the receiver's own methods, the values that they point to are guarded, too.
	held  []types.Type
	mutex string
}

func (f *file) inspectFunction(d *ast.FuncDecl) (fn function) {
	if f.kind == Guard && d.Body != nil {
		fn.own = f.madeVariables(d)
		fn.held, fn.mutex = f.heldPointers(d)
	}
	return fn
}

func (f *file) madeVariables(fn *ast.FuncDecl) map[types.Object]bool {
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

// fieldAccess is an access to a guarded field; field has the form TYPE.FIELD.
type fieldAccess struct{ mutex, field string }

// guardedAccesses returns the guarded accesses of a statement, one for each mutex.
func (f *file) guardedAccesses(s ast.Stmt, fn function) (list []fieldAccess) {
	if _, block := s.(*ast.BlockStmt); block {
		return nil // the statements in the block have their own guards
	}
	overlay.Within(s, func(n ast.Node) {
		e, ok := n.(*ast.SelectorExpr)
		if !ok {
			return
		}
		selection := f.pkg.TypesInfo.Selections[e]
		if selection == nil || selection.Kind() != types.FieldVal {
			return
		}
		a := f.guardedAccess(e, selection)
		if t := f.pkg.TypesInfo.TypeOf(e.X); a.mutex == "" && slices.ContainsFunc(fn.held, func(h types.Type) bool { return types.Identical(h, t) }) {
			a = fieldAccess{fn.mutex, types.TypeString(t, func(*types.Package) string { return "" }) + "." + e.Sel.Name}
		}
		seen := slices.ContainsFunc(list, func(b fieldAccess) bool { return a.mutex == b.mutex })
		if a.mutex != "" && !seen && f.canPrecede(e.X, s, fn.own) {
			list = append(list, a)
		}
	})
	return list
}

func (f *file) heldPointers(fn *ast.FuncDecl) (pointers []types.Type, mutex string) {
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
		case f.hasGap(s.Field(i-1), at):
			return pointers, mutex
		default:
			if p := pointedStruct(at.Type()); p != nil {
				pointers = append(pointers, p)
			}
		}
	}
	return pointers, mutex
}

// pointedStruct returns the type of the pointers to structs that a list or a map holds, or nil if it holds
// none.
func pointedStruct(t types.Type) types.Type {
	switch t := t.Underlying().(type) {
	case *types.Slice:
		return pointedStruct(t.Elem())
	case *types.Map:
		return pointedStruct(t.Elem())
	case *types.Pointer:
		if _, ok := t.Elem().Underlying().(*types.Struct); ok {
			return t
		}
	}
	return nil
}

// guardedAccess returns the access to the field that e selects; the access has no mutex if the field is not
// guarded.
func (f *file) guardedAccess(e *ast.SelectorExpr, selection *types.Selection) fieldAccess {
	of := f.text[f.positionOf(e.X.Pos()).Offset:f.positionOf(e.X.End()).Offset]
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
			return fieldAccess{}
		}
		if n < len(index)-1 {
			of += "." + s.Field(i).Name()
			t = s.Field(i).Type()
			continue
		}
		for above := i - 1; above >= 0; above-- {
			if f.hasGap(s.Field(above), s.Field(above+1)) {
				break
			}
			if s.Field(above).Type().String() == "sync.Mutex" && !s.Field(above).Embedded() {
				return fieldAccess{of + "." + s.Field(above).Name(), name + "." + s.Field(i).Name()}
			}
		}
	}
	return fieldAccess{}
}

// hasGap reports whether an empty line separates two fields, or whether they belong to another package.
func (f *file) hasGap(above, below *types.Var) bool {
	from, to := f.positionOf(above.Pos()), f.positionOf(below.Pos())
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

// canPrecede reports whether an expression can be evaluated before a statement without side effects, and
// whether other tasks may have its value.
func (f *file) canPrecede(e ast.Expr, s ast.Stmt, own map[types.Object]bool) bool {
	switch e := e.(type) {
	case *ast.Ident:
		o := f.pkg.TypesInfo.ObjectOf(e)
		return o != nil && !own[o] && (o.Pos() < s.Pos() || o.Pos() >= s.End())
	case *ast.SelectorExpr:
		return f.canPrecede(e.X, s, own)
	case *ast.ParenExpr:
		return f.canPrecede(e.X, s, own)
	case *ast.StarExpr:
		return f.canPrecede(e.X, s, own)
	}
	return false
}
