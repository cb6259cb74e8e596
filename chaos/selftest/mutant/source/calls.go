package source

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// swapCalls swaps two consecutive calls.
func swapCalls(s *site) {
	s.visitNodes(func(n ast.Node, _ []ast.Node) {
		list := statementsOf(n)
		for i := 1; i < len(list); i++ {
			a, b := list[i-1], list[i]
			if !s.makesMovableCall(a) || !s.makesMovableCall(b) {
				continue
			}
			s.addCandidate(b.Pos(), []edit{s.replacementEdit(a, s.sourceText(b)), s.replacementEdit(b, s.sourceText(a))}, "%s before %s", quoteSource(s.sourceText(b)), quoteSource(s.sourceText(a)))
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

// makesMovableCall reports whether a statement makes a call that the mutation operator "order" may move. Calls that only
// report, and calls of package sync, are excluded: sync has its own operator.
func (s *site) makesMovableCall(st ast.Stmt) bool {
	if s.isTextOnly(st) {
		return false
	}
	var of []ast.Expr
	switch st := st.(type) {
	case *ast.ExprStmt:
		of = []ast.Expr{st.X}
	case *ast.AssignStmt:
		of = st.Rhs
	case *ast.IfStmt:
		return st.Init != nil && s.makesMovableCall(st.Init)
	case *ast.GoStmt:
		return true
	}
	for _, e := range of {
		call, ok := ast.Unparen(e).(*ast.CallExpr)
		if !ok || s.isBuiltinCall(call) || s.isTextCall(call) {
			continue
		}
		if _, o := s.calleeOf(call); o == nil || o.Pkg() == nil || o.Pkg().Path() != "sync" {
			return true
		}
	}
	return false
}

// dropErrors adds the candidates of the operator errors: it skips the branch of an error, or loses an error.
func dropErrors(s *site) {
	s.visitNodes(func(n ast.Node, _ []ast.Node) {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			s.nilError(n)
		case *ast.AssignStmt:
			s.forgetError(n)
		case *ast.ReturnStmt:
			s.returnNoError(n)
		case *ast.CallExpr:
			if name, o := s.calleeOf(n); name == "Join" && o != nil && o.Pkg() != nil && o.Pkg().Path() == "errors" {
				s.withoutOne(n.Args, "join of errors")
			}
		}
	})
}

func (s *site) nilError(n *ast.BinaryExpr) {
	if !isError(s.typeOf(n.X)) || !s.fn.file.pkg.TypesInfo.Types[n.Y].IsNil() {
		return
	}
	switch text := s.sourceText(n); n.Op {
	case token.NEQ:
		s.addCandidate(n.Pos(), []edit{s.replacementEdit(n, "("+text+" && false)")}, "the branch of %s is not taken", quoteSource(text))
	case token.EQL:
		s.addCandidate(n.Pos(), []edit{s.replacementEdit(n, "("+text+" || true)")}, "%s is taken for granted", quoteSource(text))
	}
}

// forgetError sets an error to nil after the call that returned it.
func (s *site) forgetError(n *ast.AssignStmt) {
	if len(n.Rhs) != 1 {
		return
	}
	call, ok := n.Rhs[0].(*ast.CallExpr)
	if !ok || s.isBuiltinCall(call) {
		return
	}
	id, ok := n.Lhs[len(n.Lhs)-1].(*ast.Ident)
	if !ok || id.Name == "_" || !isError(s.typeOf(id)) {
		return
	}
	s.addCandidate(n.Pos(), []edit{s.replacementEdit(n, s.sourceText(n)+"; "+id.Name+" = nil")}, "the error of %s is dropped", quoteSource(s.sourceText(call)))
}

func (s *site) returnNoError(n *ast.ReturnStmt) {
	if len(n.Results) == 0 {
		return
	}
	last := n.Results[len(n.Results)-1]
	if s.fn.file.pkg.TypesInfo.Types[last].IsNil() || !isError(s.typeOf(last)) {
		return
	}
	if call, ok := last.(*ast.CallExpr); ok && len(n.Results) == 1 {
		s.addCandidate(n.Pos(), []edit{s.replacementEdit(n, "_ = "+s.sourceText(call)+"; return nil")}, "the error of %s is not returned", quoteSource(s.sourceText(call)))
		return
	}
	s.addCandidate(last.Pos(), []edit{s.replacementEdit(last, "nil")}, "%s returns no error", quoteSource(s.sourceText(n)))
}

// wakingNames are prefixes, in lower case, of names of functions that wake or notify another task or process.
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

// dropWakes leaves out statements that wake a task, notify another process, or end a context.
func dropWakes(s *site) {
	s.visitNodes(func(n ast.Node, _ []ast.Node) {
		st, ok := n.(*ast.ExprStmt)
		if !ok {
			return
		}
		call, ok := st.X.(*ast.CallExpr)
		if !ok || s.isBuiltinCall(call) {
			return
		}
		name, o := s.calleeOf(call)
		known := slices.ContainsFunc(wakingNames, func(prefix string) bool { return strings.HasPrefix(strings.ToLower(name), prefix) })
		if known || setsSignal(s.fn.file.pkg.TypesInfo, call) || o != nil && s.fn.file.waking[o] || isNamed(s.typeOf(call.Fun), "context", "CancelFunc") {
			s.addOmission(st, "call")
		}
	})
}

// dropLocks leaves out pairs of lock and unlock, and defers. It also makes a defer run at once.
func dropLocks(s *site) {
	pairs := map[string][]edit{}
	var names []string
	first := map[string]token.Pos{}
	s.visitNodes(func(n ast.Node, _ []ast.Node) {
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
			s.addOmission(st, "defer")
			s.addCandidate(st.Pos(), []edit{s.replacementEdit(st, s.sourceText(st.Call))}, "%s runs at once", quoteSource(s.sourceText(st)))
		}
		if call == nil {
			return
		}
		fun, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !strings.HasSuffix(strings.ToLower(fun.Sel.Name), "lock") {
			return
		}
		if o := s.objectOf(fun.Sel); o == nil || o.Pkg() == nil || o.Pkg().Path() != "sync" {
			return
		}
		mutex := s.sourceText(fun.X)
		if pairs[mutex] == nil {
			names = append(names, mutex)
			first[mutex] = st.Pos()
		}
		pairs[mutex] = append(pairs[mutex], s.replacementEdit(st, "if false { "+s.sourceText(st)+" }"))
	})
	for _, mutex := range names {
		s.addCandidate(first[mutex], pairs[mutex], "the function does not lock %s", quoteSource(mutex))
	}
}
