package source

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// order swaps two consecutive calls.
func order(s *site) {
	s.each(func(n ast.Node, _ []ast.Node) {
		list := statementsOf(n)
		for i := 1; i < len(list); i++ {
			a, b := list[i-1], list[i]
			if !s.calls(a) || !s.calls(b) {
				continue
			}
			s.mutate(b.Pos(), []edit{s.replace(a, s.text(b)), s.replace(b, s.text(a))}, "%s before %s", quote(s.text(b)), quote(s.text(a)))
		}
	})
}

func statementsOf(n ast.Node) []ast.Stmt {
	switch n := n.(type) {
	case *ast.BlockStmt:
		return n.List
	case *ast.CaseClause:
		return n.Body
	case *ast.CommClause:
		return n.Body
	}
	return nil
}

// calls says that a statement makes a call that the operator order may move: not one that only
// reports, and not one of package sync, which has its own operator.
func (s *site) calls(st ast.Stmt) bool {
	if s.idle(st) {
		return false
	}
	var of []ast.Expr
	switch st := st.(type) {
	case *ast.ExprStmt:
		of = []ast.Expr{st.X}
	case *ast.AssignStmt:
		of = st.Rhs
	case *ast.IfStmt:
		return st.Init != nil && s.calls(st.Init)
	case *ast.GoStmt:
		return true
	}
	for _, e := range of {
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		if !ok || s.builtin(call) || s.told(call) {
			continue
		}
		if _, o := s.callee(call); o == nil || o.Pkg() == nil || o.Pkg().Path() != "sync" {
			return true
		}
	}
	return false
}

// dropped finds the candidates of the operator errors: it skips the branch of an error, or loses
// an error.
func dropped(s *site) {
	s.each(func(n ast.Node, _ []ast.Node) {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			s.nilError(n)
		case *ast.AssignStmt:
			s.forgotten(n)
		case *ast.ReturnStmt:
			s.returned(n)
		case *ast.CallExpr:
			if name, o := s.callee(n); name == "Join" && o != nil && o.Pkg() != nil && o.Pkg().Path() == "errors" {
				s.withoutOne(n.Args, "join of errors")
			}
		}
	})
}

func (s *site) nilError(n *ast.BinaryExpr) {
	if !isError(s.typeOf(n.X)) || !s.fn.file.pkg.TypesInfo.Types[n.Y].IsNil() {
		return
	}
	switch text := s.text(n); n.Op {
	case token.NEQ:
		s.mutate(n.Pos(), []edit{s.replace(n, "("+text+" && false)")}, "the branch of %s is not taken", quote(text))
	case token.EQL:
		s.mutate(n.Pos(), []edit{s.replace(n, "("+text+" || true)")}, "%s is taken for granted", quote(text))
	}
}

// forgotten sets an error to nil after the call that returned it.
func (s *site) forgotten(n *ast.AssignStmt) {
	if len(n.Rhs) != 1 {
		return
	}
	call, ok := n.Rhs[0].(*ast.CallExpr)
	if !ok || s.builtin(call) {
		return
	}
	id, ok := n.Lhs[len(n.Lhs)-1].(*ast.Ident)
	if !ok || id.Name == "_" || !isError(s.typeOf(id)) {
		return
	}
	s.mutate(n.Pos(), []edit{s.replace(n, s.text(n)+"; "+id.Name+" = nil")}, "the error of %s is dropped", quote(s.text(call)))
}

func (s *site) returned(n *ast.ReturnStmt) {
	if len(n.Results) == 0 {
		return
	}
	last := n.Results[len(n.Results)-1]
	if s.fn.file.pkg.TypesInfo.Types[last].IsNil() || !isError(s.typeOf(last)) {
		return
	}
	if call, ok := last.(*ast.CallExpr); ok && len(n.Results) == 1 {
		s.mutate(n.Pos(), []edit{s.replace(n, "_ = "+s.text(call)+"; return nil")}, "the error of %s is not returned", quote(s.text(call)))
		return
	}
	s.mutate(last.Pos(), []edit{s.replace(last, "nil")}, "%s returns no error", quote(s.text(n)))
}

// wakingNames are prefixes of names of functions that wake or tell another task or process, in
// lower case.
var wakingNames = []string{"wake", "notify", "signal", "changed", "tell", "ask", "hint", "cancel", "stop", "close", "kick", "poke"}

// wakingFunctions are the functions of a package that set a signal themselves.
func wakingFunctions(p *packages.Package) map[types.Object]bool {
	waking := map[types.Object]bool{}
	for _, f := range p.Syntax {
		for _, d := range f.Decls {
			d, ok := d.(*ast.FuncDecl)
			if !ok || d.Body == nil {
				continue
			}
			ast.Inspect(d.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && setsSignal(p.TypesInfo, call) {
					waking[p.TypesInfo.ObjectOf(d.Name)] = true
				}
				return true
			})
		}
	}
	return waking
}

func setsSignal(info *types.Info, call *ast.CallExpr) bool {
	fun, ok := call.Fun.(*ast.SelectorExpr)
	return ok && fun.Sel.Name == "Set" && isNamed(info.TypeOf(fun.X), "core/host", "Signal")
}

// wakes leaves out statements that wake a task, tell another process, or end a context.
func wakes(s *site) {
	s.each(func(n ast.Node, _ []ast.Node) {
		st, ok := n.(*ast.ExprStmt)
		if !ok {
			return
		}
		call, ok := st.X.(*ast.CallExpr)
		if !ok || s.builtin(call) {
			return
		}
		name, o := s.callee(call)
		known := slices.ContainsFunc(wakingNames, func(prefix string) bool { return strings.HasPrefix(strings.ToLower(name), prefix) })
		if known || setsSignal(s.fn.file.pkg.TypesInfo, call) || o != nil && s.fn.file.waking[o] || isNamed(s.typeOf(call.Fun), "context", "CancelFunc") {
			s.left(st, "call")
		}
	})
}

// locks leaves out pairs of lock and unlock, and defers, and makes a defer run at once.
func locks(s *site) {
	pairs := map[string][]edit{}
	var names []string
	first := map[string]token.Pos{}
	s.each(func(n ast.Node, _ []ast.Node) {
		st, ok := n.(ast.Stmt)
		if !ok {
			return
		}
		var call *ast.CallExpr
		switch st := st.(type) {
		case *ast.ExprStmt:
			call, _ = st.X.(*ast.CallExpr)
		case *ast.DeferStmt:
			call = st.Call
			s.left(st, "defer")
			s.mutate(st.Pos(), []edit{s.replace(st, s.text(st.Call))}, "%s runs at once", quote(s.text(st)))
		}
		if call == nil {
			return
		}
		fun, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !strings.HasSuffix(strings.ToLower(fun.Sel.Name), "lock") {
			return
		}
		if o := s.object(fun.Sel); o == nil || o.Pkg() == nil || o.Pkg().Path() != "sync" {
			return
		}
		mutex := s.text(fun.X)
		if pairs[mutex] == nil {
			names = append(names, mutex)
			first[mutex] = st.Pos()
		}
		pairs[mutex] = append(pairs[mutex], s.replace(st, "if false { "+s.text(st)+" }"))
	})
	for _, mutex := range names {
		s.mutate(first[mutex], pairs[mutex], "the function does not lock %s", quote(mutex))
	}
}
