package source

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"strings"
)

// site is one function as an operator sees it, with the candidates that the operator made there.
type site struct {
	fn       *function
	operator string
	found    []*Candidate
}

// addCandidate adds a candidate at a position.
func (s *site) addCandidate(at token.Pos, edits []edit, what string, args ...any) {
	f := s.fn.file
	s.found = append(s.found, &Candidate{
		ID:      fmt.Sprintf("%s/%s:%s:%s:%d", f.dir, f.name, s.fn.name, s.operator, len(s.found)+1),
		Package: f.dir, File: f.name, Line: f.pkg.Fset.Position(at).Line, Func: s.fn.name, Operator: s.operator,
		What: fmt.Sprintf(what, args...), fn: s.fn, edits: edits,
	})
}

// addReplacement adds a candidate in which a node has another text.
func (s *site) addReplacement(n ast.Node, by string) {
	s.addCandidate(n.Pos(), []edit{s.replacementEdit(n, by)}, "%s replaced by %s", quoteSource(s.sourceText(n)), quoteSource(by))
}

// addOmission adds a candidate in which a statement is not executed. It stays in the text, so that the
// compiler does not report unused variables and imports.
func (s *site) addOmission(n ast.Stmt, what string) {
	s.addCandidate(n.Pos(), []edit{s.replacementEdit(n, "if false { "+s.sourceText(n)+" }")}, "%s %s left out", what, quoteSource(s.sourceText(n)))
}

func (s *site) replacementEdit(n ast.Node, by string) edit {
	return edit{s.fn.file.byteOffset(n.Pos()), s.fn.file.byteOffset(n.End()), by}
}

func (s *site) sourceText(n ast.Node) string {
	return string(s.fn.file.src[s.fn.file.byteOffset(n.Pos()):s.fn.file.byteOffset(n.End())])
}

func (s *site) typeOf(e ast.Expr) types.Type { return s.fn.file.pkg.TypesInfo.TypeOf(e) }

func (s *site) objectOf(id *ast.Ident) types.Object { return s.fn.file.pkg.TypesInfo.ObjectOf(id) }

// constantValue is the value of a constant expression, nil if the expression is not constant.
func (s *site) constantValue(e ast.Expr) constant.Value {
	return s.fn.file.pkg.TypesInfo.Types[e].Value
}

// visitNodes visits the nodes of the function's body in order, each with the nodes above it, outermost
// first. It skips code that only makes logs and texts of errors.
func (s *site) visitNodes(visit func(n ast.Node, above []ast.Node)) {
	var above []ast.Node
	ast.Inspect(s.fn.decl.Body, func(n ast.Node) bool {
		if n == nil {
			above = above[:len(above)-1]
			return true
		}
		if e, ok := n.(ast.Expr); ok && s.isTextCall(e) {
			return false
		}
		if st, ok := n.(ast.Stmt); ok && s.isTextOnly(st) {
			return false
		}
		visit(n, above)
		above = append(above, n)
		return true
	})
}

// isTextCall reports whether an expression only makes a text for people: a log line, or the text of an error.
func (s *site) isTextCall(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	o := s.objectOf(fun.Sel)
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

// isTextOnly reports whether a statement, with all statements in it, only makes texts for people
// (isTextCall).
func (s *site) isTextOnly(st ast.Stmt) bool {
	switch st := st.(type) {
	case *ast.ExprStmt:
		return s.isTextCall(st.X)
	case *ast.BlockStmt:
		for _, inner := range st.List {
			if !s.isTextOnly(inner) {
				return false
			}
		}
		return len(st.List) > 0
	case *ast.IfStmt:
		return st.Init == nil && s.isTextOnly(st.Body) && (st.Else == nil || s.isTextOnly(st.Else))
	case *ast.RangeStmt:
		return s.isTextOnly(st.Body)
	}
	return false
}

// calleeOf returns the name of a called function and its object; empty and nil for anything else.
func (s *site) calleeOf(call *ast.CallExpr) (string, types.Object) {
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		return fun.Name, s.objectOf(fun)
	case *ast.SelectorExpr:
		return fun.Sel.Name, s.objectOf(fun.Sel)
	}
	return "", nil
}

// isBuiltinCall reports whether a call is a conversion or calls one of the language's own functions.
func (s *site) isBuiltinCall(call *ast.CallExpr) bool {
	t := s.fn.file.pkg.TypesInfo.Types[call.Fun]
	return t.IsBuiltin() || t.IsType()
}

// quoteSource quotes a piece of source in one line, shortened to 90 bytes.
func quoteSource(text string) string {
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

// parentOf returns the innermost of the nodes above.
func parentOf(above []ast.Node) ast.Node {
	if len(above) == 0 {
		return nil
	}
	return above[len(above)-1]
}
