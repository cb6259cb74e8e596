package source

import (
	"go/ast"
	"go/token"
)

// guards changes the conditions of branches. The condition is always evaluated, so that its side
// effects remain.
func guards(s *site) {
	s.each(func(n ast.Node, _ []ast.Node) {
		switch n := n.(type) {
		case *ast.IfStmt:
			if !s.comparesError(n.Cond) {
				s.condition(n.Cond)
			}
		case *ast.SwitchStmt:
			if n.Tag != nil {
				return
			}
			for _, clause := range n.Body.List {
				for _, cond := range clause.(*ast.CaseClause).List {
					s.condition(cond)
				}
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				s.side(n, n.X, n.Y)
				s.side(n, n.Y, n.X)
			}
		}
	})
}

func (s *site) condition(e ast.Expr) {
	text := s.text(e)
	s.mutate(e.Pos(), []edit{s.replace(e, "("+text+") || true")}, "condition %s always met", quote(text))
	s.mutate(e.Pos(), []edit{s.replace(e, "("+text+") && false")}, "condition %s never met", quote(text))
	s.mutate(e.Pos(), []edit{s.replace(e, "!("+text+")")}, "condition %s negated", quote(text))
}

// side leaves one side of && or || out.
func (s *site) side(whole *ast.BinaryExpr, out, kept ast.Expr) {
	s.mutate(out.Pos(), []edit{s.replace(whole, "("+s.text(kept)+")")}, "%s left out of %s", quote(s.text(out)), quote(s.text(whole)))
}

// comparesError says that a condition only compares an error. The operator errors covers those.
func (s *site) comparesError(e ast.Expr) bool {
	b, ok := ast.Unparen(e).(*ast.BinaryExpr)
	if !ok || b.Op != token.EQL && b.Op != token.NEQ {
		return false
	}
	return isError(s.typeOf(b.X)) || isError(s.typeOf(b.Y))
}

// comparisons moves the bound of a comparison, or reverses it.
func comparisons(s *site) {
	bound := map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
	turned := map[token.Token]string{token.LSS: ">", token.LEQ: ">=", token.GTR: "<", token.GEQ: "<="}
	s.each(func(n ast.Node, _ []ast.Node) {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			for _, to := range []string{bound[n.Op], turned[n.Op]} {
				if to != "" {
					s.compared(n, to)
				}
			}
		case *ast.CallExpr:
			fun, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || !isTime(s.typeOf(fun.X)) {
				return
			}
			switch fun.Sel.Name {
			case "Before":
				s.replaced(fun, s.text(fun.X)+".After")
			case "After":
				s.replaced(fun, s.text(fun.X)+".Before")
			}
		}
	})
}

func (s *site) compared(n *ast.BinaryExpr, to string) {
	from := s.fn.file.offset(n.OpPos)
	s.mutate(n.OpPos, []edit{{from, from + len(n.Op.String()), to}}, "%s replaced by %s",
		quote(s.text(n)), quote(s.text(n.X)+" "+to+" "+s.text(n.Y)))
}
