package source

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// changeSets replaces a constant of an enumeration by its neighbour, and leaves one element out of a
// list.
func changeSets(s *site) {
	s.visitNodes(func(n ast.Node, above []ast.Node) {
		switch n := n.(type) {
		case *ast.Ident:
			s.changeToNeighbours(n, n)
		case *ast.SelectorExpr:
			s.changeToNeighbours(n, n.Sel)
		case *ast.CaseClause:
			s.withoutOne(n.List, "case list")
			s.withoutClause(n, above)
		case *ast.CompositeLit:
			if s.isList(n) {
				s.withoutOne(n.Elts, "list")
			}
		}
	})
}

func (s *site) isList(n *ast.CompositeLit) bool {
	t := s.typeOf(n)
	if t == nil || len(n.Elts) == 0 {
		return false
	}
	switch t.Underlying().(type) {
	case *types.Slice, *types.Array, *types.Map:
		return true
	}
	return false
}

// changeToNeighbours replaces a constant by the next one of its type, and by the one before. Each is a
// candidate; the first and the last constant have only one.
func (s *site) changeToNeighbours(whole ast.Expr, name *ast.Ident) {
	c, ok := s.objectOf(name).(*types.Const)
	if !ok {
		return
	}
	family := enumerationOf(c)
	at := slices.Index(family, c)
	if at < 0 || len(family) < 2 {
		return
	}
	if _, plain := whole.(*ast.Ident); plain && c.Pkg() != s.fn.file.pkg.Types {
		return // the name after a package's dot; the whole selector is a separate node
	}
	for _, step := range []int{1, -1} {
		if to := at + step; to >= 0 && to < len(family) {
			s.addReplacement(whole, strings.TrimSuffix(s.sourceText(whole), c.Name())+family[to].Name())
		}
	}
}

// enumerationOf returns all constants of c's type in its package, by value; nil if the type is not of this
// module. The names of figures in core/telemetry are no enumeration: dashboards read them, and no part of the
// core decides by them.
func enumerationOf(c *types.Const) []*types.Const {
	named, ok := types.Unalias(c.Type()).(*types.Named)
	if !ok || c.Pkg() == nil || named.Obj().Pkg() != c.Pkg() || !strings.HasPrefix(c.Pkg().Path(), module) ||
		strings.HasSuffix(c.Pkg().Path(), "core/telemetry") {
		return nil
	}
	var family []*types.Const
	for _, name := range c.Pkg().Scope().Names() {
		o, ok := c.Pkg().Scope().Lookup(name).(*types.Const)
		if ok && types.Identical(o.Type(), c.Type()) {
			family = append(family, o)
		}
	}
	slices.SortStableFunc(family, func(a, b *types.Const) int {
		if constant.Compare(a.Val(), token.LSS, b.Val()) {
			return -1
		}
		if constant.Compare(b.Val(), token.LSS, a.Val()) {
			return 1
		}
		return 0
	})
	return family
}

// withoutOne adds a candidate for each element of a list: the list without it. A list of one element
// stays.
func (s *site) withoutOne(list []ast.Expr, what string) {
	if len(list) < 2 {
		return
	}
	f := s.fn.file
	for i, e := range list {
		gone := edit{f.byteOffset(e.Pos()), f.byteOffset(e.End()), ""}
		if i+1 < len(list) {
			gone.to = f.byteOffset(list[i+1].Pos())
		} else {
			gone.from = f.byteOffset(list[i-1].End())
		}
		s.addCandidate(e.Pos(), []edit{gone}, "%s left out of a %s of %d", quoteSource(s.sourceText(e)), what, len(list))
	}
}

// withoutClause removes a whole case of a switch over a value, except the default.
func (s *site) withoutClause(n *ast.CaseClause, above []ast.Node) {
	if len(n.List) == 0 || len(above) < 2 {
		return
	}
	sw, ok := above[len(above)-2].(*ast.SwitchStmt)
	if !ok || sw.Tag == nil {
		return
	}
	s.addCandidate(n.Pos(), []edit{s.replacementEdit(n, "")}, "case %s left out", quoteSource(s.sourceText(n)))
}
