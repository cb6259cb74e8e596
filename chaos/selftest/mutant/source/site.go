package source

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
)

// site is one function as an operator sees it, with the candidates that the operator found there.
type site struct {
	fn       *function
	operator string
	found    []*Candidate
}

// mutate adds a candidate at a position.
func (s *site) mutate(at token.Pos, edits []edit, what string, args ...any) {
	f := s.fn.file
	s.found = append(s.found, &Candidate{
		ID:      fmt.Sprintf("%s/%s:%s:%s:%d", f.dir, f.name, s.fn.name, s.operator, len(s.found)+1),
		Package: f.dir, File: f.name, Line: f.pkg.Fset.Position(at).Line, Func: s.fn.name, Operator: s.operator,
		What: fmt.Sprintf(what, args...), fn: s.fn, edits: edits,
	})
}

// replaced adds a candidate in which a node has another text.
func (s *site) replaced(n ast.Node, by string) {
	s.mutate(n.Pos(), []edit{s.replace(n, by)}, "%s replaced by %s", quote(s.text(n)), quote(by))
}

// left adds a candidate in which a statement is left out, that is not executed. It stays in the
// text, so that the compiler does not report unused variables and imports.
func (s *site) left(n ast.Stmt, what string) {
	s.mutate(n.Pos(), []edit{s.replace(n, "if false { "+s.text(n)+" }")}, "%s %s left out", what, quote(s.text(n)))
}

func (s *site) replace(n ast.Node, by string) edit {
	return edit{s.fn.file.offset(n.Pos()), s.fn.file.offset(n.End()), by}
}

func (s *site) text(n ast.Node) string {
	return string(s.fn.file.src[s.fn.file.offset(n.Pos()):s.fn.file.offset(n.End())])
}

func (s *site) typeOf(e ast.Expr) types.Type { return s.fn.file.pkg.TypesInfo.TypeOf(e) }

func (s *site) object(id *ast.Ident) types.Object { return s.fn.file.pkg.TypesInfo.ObjectOf(id) }

// constant is the value of a constant expression, nil if the expression is not constant.
func (s *site) constant(e ast.Expr) constant.Value { return s.fn.file.pkg.TypesInfo.Types[e].Value }

// each visits the nodes of the function's body in order, each with the nodes above it, outermost
// first. It skips code that only makes logs and texts of errors.
func (s *site) each(visit func(n ast.Node, above []ast.Node)) {
	var above []ast.Node
	ast.Inspect(s.fn.decl.Body, func(n ast.Node) bool {
		if n == nil {
			above = above[:len(above)-1]
			return true
		}
		if e, ok := n.(ast.Expr); ok && s.told(e) {
			return false
		}
		if st, ok := n.(ast.Stmt); ok && s.idle(st) {
			return false
		}
		visit(n, above)
		above = append(above, n)
		return true
	})
}

// told says that an expression only makes a text for people: a log line, the text of an error.
func (s *site) told(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	o := s.object(fun.Sel)
	if o == nil || o.Pkg() == nil {
		return false
	}
	switch o.Pkg().Path() {
	case "log/slog", "fmt":
		return true
	case "errors":
		return o.Name() == "New"
	}
	return false
}

// idle says that a statement only makes texts for people (told), and so do all statements in it.
func (s *site) idle(st ast.Stmt) bool {
	switch st := st.(type) {
	case *ast.ExprStmt:
		return s.told(st.X)
	case *ast.BlockStmt:
		for _, inner := range st.List {
			if !s.idle(inner) {
				return false
			}
		}
		return len(st.List) > 0
	case *ast.IfStmt:
		return st.Init == nil && s.idle(st.Body) && (st.Else == nil || s.idle(st.Else))
	case *ast.RangeStmt:
		return s.idle(st.Body)
	}
	return false
}

// callee is the name of a called function and its object; empty and nil for anything else.
func (s *site) callee(call *ast.CallExpr) (string, types.Object) {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return fun.Name, s.object(fun)
	case *ast.SelectorExpr:
		return fun.Sel.Name, s.object(fun.Sel)
	}
	return "", nil
}

// builtin says that a call is one of the language's own functions, or a conversion.
func (s *site) builtin(call *ast.CallExpr) bool {
	t := s.fn.file.pkg.TypesInfo.Types[call.Fun]
	return t.IsBuiltin() || t.IsType()
}

// quote quotes a piece of source in one line, shortened to 90 bytes.
func quote(text string) string {
	const most = 90
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return "“" + text + "”"
}

func isNamed(t types.Type, pkg, name string) bool {
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Name() == name && n.Obj().Pkg() != nil && strings.HasSuffix(n.Obj().Pkg().Path(), pkg)
}

func isDuration(t types.Type) bool { return t != nil && isNamed(t, "time", "Duration") }

func isTime(t types.Type) bool { return t != nil && isNamed(t, "time", "Time") }

func isError(t types.Type) bool {
	return t != nil && types.Identical(t, types.Universe.Lookup("error").Type())
}

func isBool(t types.Type) bool {
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

func isNumber(t types.Type) bool {
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsNumeric != 0
}

func isInteger(t types.Type) bool {
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsInteger != 0
}

// parent is the innermost of the nodes above.
func parent(above []ast.Node) ast.Node {
	if len(above) == 0 {
		return nil
	}
	return above[len(above)-1]
}
