package source

import (
	"go/ast"
	"go/token"
)

// changeGuards changes the conditions of branches. The condition is always evaluated, so that its side
// effects remain.
func changeGuards(s *site) {
	s.visitNodes(func(n ast.Node, _ []ast.Node) {
		switch n := n.(type) {
		case *ast.IfStmt:
			if !s.comparesError(n.Cond) {
				s.changeCondition(n.Cond)
			}
		case *ast.SwitchStmt:
			if n.Tag != nil {
				return
			}
			for _, clause := range n.Body.List {
				for _, cond := range clause.(*ast.CaseClause).List {
					s.changeCondition(cond)
				}
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				s.dropSide(n, n.X, n.Y)
				s.dropSide(n, n.Y, n.X)
			}
		}
	})
}

func (s *site) changeCondition(e ast.Expr) {
	text := s.sourceText(e)
	s.addCandidate(e.Pos(), []edit{s.replacementEdit(e, "("+text+") || true")}, "condition %s always met", quoteSource(text))
	s.addCandidate(e.Pos(), []edit{s.replacementEdit(e, "("+text+") && false")}, "condition %s never met", quoteSource(text))
	s.addCandidate(e.Pos(), []edit{s.replacementEdit(e, "!("+text+")")}, "condition %s negated", quoteSource(text))
}

// dropSide removes one side of && or ||.
func (s *site) dropSide(whole *ast.BinaryExpr, out, kept ast.Expr) {
	s.addCandidate(out.Pos(), []edit{s.replacementEdit(whole, "("+s.sourceText(kept)+")")}, "%s left out of %s", quoteSource(s.sourceText(out)), quoteSource(s.sourceText(whole)))
}

// comparesError reports whether a condition only compares an error. The operator errors covers those.
func (s *site) comparesError(e ast.Expr) bool {
	b, ok := ast.Unparen(e).(*ast.BinaryExpr)
	if !ok || b.Op != token.EQL && b.Op != token.NEQ {
		return false
	}
	return isError(s.typeOf(b.X)) || isError(s.typeOf(b.Y))
}

// changeComparisons moves the bound of a comparison, or reverses it.
func changeComparisons(s *site) {
	bound := map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
	turned := map[token.Token]string{token.LSS: ">", token.LEQ: ">=", token.GTR: "<", token.GEQ: "<="}
	s.visitNodes(func(n ast.Node, _ []ast.Node) {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			for _, to := range []string{bound[n.Op], turned[n.Op]} {
				if to != "" {
					s.replaceOperator(n, to)
				}
			}
		case *ast.CallExpr:
			fun, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || !isTime(s.typeOf(fun.X)) {
				return
			}
			switch fun.Sel.Name {
			case "Before":
				s.addReplacement(fun, s.sourceText(fun.X)+".After")
			case "After":
				s.addReplacement(fun, s.sourceText(fun.X)+".Before")
			}
		}
	})
}

func (s *site) replaceOperator(n *ast.BinaryExpr, to string) {
	from := s.fn.file.byteOffset(n.OpPos)
	s.addCandidate(n.OpPos, []edit{{from, from + len(n.Op.String()), to}}, "%s replaced by %s",
		quoteSource(s.sourceText(n)), quoteSource(s.sourceText(n.X)+" "+to+" "+s.sourceText(n.Y)))
}
