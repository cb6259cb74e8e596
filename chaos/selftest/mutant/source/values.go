package source

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// clocks reads a moment from another clock, or uses another moment that is in scope.
func clocks(s *site) {
	s.each(func(n ast.Node, above []ast.Node) {
		switch n := n.(type) {
		case *ast.CallExpr:
			fun, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) > 0 {
				return
			}
			switch {
			case fun.Sel.Name == "Monotonic" && isDuration(s.typeOf(n)):
				s.replaced(n, "time.Duration("+s.text(fun.X)+".Now().UnixNano())")
			case fun.Sel.Name == "Now" && isTime(s.typeOf(n)) && isNamed(s.typeOf(fun.X), "core/host", "Host"):
				s.replaced(n, "time.Unix(0, int64("+s.text(fun.X)+".Monotonic()))")
			default:
				return
			}
			s.otherMoment(n, n.Pos(), "")
		case *ast.Ident:
			v, ok := s.object(n).(*types.Var)
			if !ok || v.IsField() || s.fn.file.pkg.TypesInfo.Defs[n] != nil || assigned(n, above) {
				return
			}
			if p, ok := parent(above).(*ast.KeyValueExpr); ok && p.Key == n {
				return
			}
			if isDuration(v.Type()) || isTime(v.Type()) {
				s.otherMoment(n, n.Pos(), n.Name)
			}
		}
	})
}

// assigned says that an identifier is written to, and not read.
func assigned(n *ast.Ident, above []ast.Node) bool {
	a, ok := parent(above).(*ast.AssignStmt)
	if !ok {
		return false
	}
	for _, e := range a.Lhs {
		if e == n {
			return true
		}
	}
	return false
}

// otherMoment adds two candidates at most. Each replaces an expression by another variable of its
// type: the two in scope that were declared last before it in its function.
func (s *site) otherMoment(e ast.Expr, at token.Pos, self string) {
	t := s.typeOf(e)
	pkg := s.fn.file.pkg
	scope := pkg.Types.Scope().Innermost(at)
	taken := map[string]bool{self: true}
	left := 2
	for ; scope != nil && scope != pkg.Types.Scope() && left > 0; scope = scope.Parent() {
		var here []*types.Var
		for _, name := range scope.Names() {
			v, ok := scope.Lookup(name).(*types.Var)
			if ok && v.Pos() < at && types.Identical(v.Type(), t) && !taken[name] && name != "_" {
				here = append(here, v)
			}
			taken[name] = true
		}
		for len(here) > 0 && left > 0 {
			last := 0
			for i := range here {
				if here[i].Pos() > here[last].Pos() {
					last = i
				}
			}
			s.replaced(e, here[last].Name())
			here = append(here[:last], here[last+1:]...)
			left--
		}
	}
}

// fields replaces a field of a record by another one of its type.
func fields(s *site) {
	s.each(func(n ast.Node, _ []ast.Node) {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			sel := s.fn.file.pkg.TypesInfo.Selections[n]
			if sel == nil || sel.Kind() != types.FieldVal || len(sel.Index()) != 1 {
				return
			}
			for _, other := range s.siblings(sel.Recv(), sel.Obj()) {
				s.replaced(n, s.text(n.X)+"."+other)
			}
		case *ast.CompositeLit:
			t := s.typeOf(n)
			for _, e := range n.Elts {
				kv, ok := e.(*ast.KeyValueExpr)
				if !ok || t == nil {
					continue
				}
				key, ok := kv.Key.(*ast.Ident)
				if !ok {
					continue
				}
				if v, ok := s.object(key).(*types.Var); ok && v.IsField() {
					for _, other := range s.siblings(t, v) {
						s.mutate(kv.Pos(), []edit{s.replace(key, other)}, "%s sets %s", quote(s.text(kv)), other)
					}
				}
			}
		}
	})
}

// siblings are the next and the previous field of a field's type in a record, among those that this
// package may name. A field of an interface type has none: it holds a service and not data.
func (s *site) siblings(record types.Type, field types.Object) []string {
	if p, ok := record.Underlying().(*types.Pointer); ok {
		record = p.Elem()
	}
	st, ok := record.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	if _, service := field.Type().Underlying().(*types.Interface); service {
		return nil
	}
	var same []string
	at := -1
	for f := range st.Fields() {
		if f == field {
			at = len(same)
		} else if !types.Identical(f.Type(), field.Type()) || !f.Exported() && f.Pkg() != s.fn.file.pkg.Types || f.Name() == "_" {
			continue
		}
		same = append(same, f.Name())
	}
	var out []string
	if at >= 0 && at+1 < len(same) {
		out = append(out, same[at+1])
	}
	if at > 0 {
		out = append(out, same[at-1])
	}
	return out
}

// counts adds or subtracts one, and reverses arithmetic.
func counts(s *site) {
	turned := map[token.Token]string{token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*"}
	assigns := map[token.Token]string{token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+="}
	s.each(func(n ast.Node, above []ast.Node) {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.INT && !s.inDuration(above) {
				s.oneOff(n)
			}
		case *ast.Ident, *ast.SelectorExpr:
			e := n.(ast.Expr)
			if s.constant(e) != nil && isInteger(s.typeOf(e)) && s.plain(s.typeOf(e)) && !s.nameAfter(e, above) {
				s.oneOff(e)
			}
		case *ast.CallExpr:
			s.counted(n)
		case *ast.BinaryExpr:
			if to := turned[n.Op]; to != "" && isNumber(s.typeOf(n)) && s.constant(n) == nil {
				s.compared(n, to)
			}
		case *ast.AssignStmt:
			if to := assigns[n.Tok]; to != "" && isNumber(s.typeOf(n.Lhs[0])) {
				from := s.fn.file.offset(n.TokPos)
				s.mutate(n.Pos(), []edit{{from, from + 2, to}}, "%s with %s", quote(s.text(n)), to)
			}
		case *ast.IncDecStmt:
			s.left(n, "step")
		}
	})
}

// plain says that a type is a plain number, and not an enumeration.
func (s *site) plain(t types.Type) bool {
	_, basic := types.Unalias(t).(*types.Basic)
	return basic
}

// nameAfter says that an expression is the name after a dot, or the key of a key and value.
func (s *site) nameAfter(e ast.Expr, above []ast.Node) bool {
	switch p := parent(above).(type) {
	case *ast.SelectorExpr:
		return p.Sel == e
	case *ast.KeyValueExpr:
		return p.Key == e
	}
	return false
}

func (s *site) oneOff(e ast.Expr) {
	text := s.text(e)
	s.replaced(e, "("+text+" + 1)")
	s.replaced(e, "("+text+" - 1)")
}

func (s *site) counted(n *ast.CallExpr) {
	if !s.fn.file.pkg.TypesInfo.Types[n.Fun].IsBuiltin() {
		return
	}
	args := strings.TrimPrefix(s.text(n), s.text(n.Fun))
	switch name, _ := s.callee(n); name {
	case "len":
		s.oneOff(n)
	case "min":
		s.replaced(n, "max"+args)
	case "max":
		s.replaced(n, "min"+args)
	}
}

// inDuration says that a number belongs to a constant duration, which the operator durations
// covers.
func (s *site) inDuration(above []ast.Node) bool {
	e, ok := parent(above).(ast.Expr)
	return ok && isDuration(s.typeOf(e)) && s.constant(e) != nil
}

// durations halves and doubles constant durations, wherever they are, and the numbers among the
// configuration's defaults.
func durations(s *site) {
	s.each(func(n ast.Node, above []ast.Node) {
		e, ok := n.(ast.Expr)
		if !ok || s.constant(e) == nil || s.nameAfter(e, above) {
			return
		}
		number := isDuration(s.typeOf(e))
		if kv, ok := parent(above).(*ast.KeyValueExpr); ok && kv.Value == e && s.fn.file.dir == "core/config" {
			number = number || isNumber(s.typeOf(e))
		}
		if !number || s.inDuration(above) || isZero(e) {
			return
		}
		text := s.text(e)
		s.mutate(e.Pos(), []edit{s.replace(e, "("+text+")/2")}, "%s halved", quote(text))
		s.mutate(e.Pos(), []edit{s.replace(e, "("+text+")*2")}, "%s doubled", quote(text))
	})
}

// isZero says that an expression is the literal 0, which halving and doubling don't change.
func isZero(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Value == "0"
}
