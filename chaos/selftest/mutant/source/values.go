package source

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

// changeClocks reads a moment from another clock, or uses another moment that is in scope.
func changeClocks(s *site) {
	s.visitNodes(func(n ast.Node, above []ast.Node) {
		switch n := n.(type) {
		case *ast.CallExpr:
			fun, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) > 0 {
				return
			}
			switch {
			case fun.Sel.Name == "Monotonic" && isDuration(s.typeOf(n)):
				s.addReplacement(n, "time.Duration("+s.sourceText(fun.X)+".Now().UnixNano())")
			case fun.Sel.Name == "Now" && isTime(s.typeOf(n)) && isNamed(s.typeOf(fun.X), "core/host", "Host"):
				s.addReplacement(n, "time.Unix(0, int64("+s.sourceText(fun.X)+".Monotonic()))")
			default:
				return
			}
			s.otherMoment(n, n.Pos(), "")
		case *ast.Ident:
			v, ok := s.objectOf(n).(*types.Var)
			if !ok || v.IsField() || s.fn.file.pkg.TypesInfo.Defs[n] != nil || isAssigned(n, above) {
				return
			}
			if p, ok := parentOf(above).(*ast.KeyValueExpr); ok && p.Key == n {
				return
			}
			if isDuration(v.Type()) || isTime(v.Type()) {
				s.otherMoment(n, n.Pos(), n.Name)
			}
		}
	})
}

// isAssigned reports whether an identifier is written, and not read.
func isAssigned(n *ast.Ident, above []ast.Node) bool {
	a, ok := parentOf(above).(*ast.AssignStmt)
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
			s.addReplacement(e, here[last].Name())
			here = append(here[:last], here[last+1:]...)
			left--
		}
	}
}

// changeFields replaces a field of a record by another one of its type.
func changeFields(s *site) {
	s.visitNodes(func(n ast.Node, _ []ast.Node) {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			sel := s.fn.file.pkg.TypesInfo.Selections[n]
			if sel == nil || sel.Kind() != types.FieldVal || len(sel.Index()) != 1 {
				return
			}
			for _, other := range s.siblingFields(sel.Recv(), sel.Obj()) {
				s.addReplacement(n, s.sourceText(n.X)+"."+other)
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
				if v, ok := s.objectOf(key).(*types.Var); ok && v.IsField() {
					for _, other := range s.siblingFields(t, v) {
						s.addCandidate(kv.Pos(), []edit{s.replacementEdit(key, other)}, "%s sets %s", quoteSource(s.sourceText(kv)), other)
					}
				}
			}
		}
	})
}

// siblingFields are the next and the previous field of a field's type in a record, among those that this
// package may name. A field of an interface type has none: it holds a service and not data.
func (s *site) siblingFields(record types.Type, field types.Object) []string {
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

// changeCounts adds or subtracts one, and reverses arithmetic.
func changeCounts(s *site) {
	turned := map[token.Token]string{token.ADD: "-", token.SUB: "+", token.MUL: "/", token.QUO: "*"}
	assigns := map[token.Token]string{token.ADD_ASSIGN: "-=", token.SUB_ASSIGN: "+="}
	s.visitNodes(func(n ast.Node, above []ast.Node) {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.INT && !s.inDuration(above) {
				s.oneOff(n)
			}
		case *ast.Ident, *ast.SelectorExpr:
			e := n.(ast.Expr)
			if s.constantValue(e) != nil && isInteger(s.typeOf(e)) && s.isPlainNumber(s.typeOf(e)) && !s.nameAfter(e, above) {
				s.oneOff(e)
			}
		case *ast.CallExpr:
			s.changeBuiltinCall(n)
		case *ast.BinaryExpr:
			if to := turned[n.Op]; to != "" && isNumber(s.typeOf(n)) && s.constantValue(n) == nil {
				s.replaceOperator(n, to)
			}
		case *ast.AssignStmt:
			if to := assigns[n.Tok]; to != "" && isNumber(s.typeOf(n.Lhs[0])) {
				from := s.fn.file.byteOffset(n.TokPos)
				s.addCandidate(n.Pos(), []edit{{from, from + 2, to}}, "%s with %s", quoteSource(s.sourceText(n)), to)
			}
		case *ast.IncDecStmt:
			s.addOmission(n, "step")
		}
	})
}

// isPlainNumber reports whether a type is a plain number, and not an enumeration.
func (s *site) isPlainNumber(t types.Type) bool {
	_, basic := types.Unalias(t).(*types.Basic)
	return basic
}

// nameAfter reports whether an expression is the name after a dot, or the key of a key and value.
func (s *site) nameAfter(e ast.Expr, above []ast.Node) bool {
	switch p := parentOf(above).(type) {
	case *ast.SelectorExpr:
		return p.Sel == e
	case *ast.KeyValueExpr:
		return p.Key == e
	}
	return false
}

func (s *site) oneOff(e ast.Expr) {
	text := s.sourceText(e)
	s.addReplacement(e, "("+text+" + 1)")
	s.addReplacement(e, "("+text+" - 1)")
}

func (s *site) changeBuiltinCall(n *ast.CallExpr) {
	if !s.fn.file.pkg.TypesInfo.Types[n.Fun].IsBuiltin() {
		return
	}
	args := strings.TrimPrefix(s.sourceText(n), s.sourceText(n.Fun))
	switch name, _ := s.calleeOf(n); name {
	case "len":
		s.oneOff(n)
	case "min":
		s.addReplacement(n, "max"+args)
	case "max":
		s.addReplacement(n, "min"+args)
	}
}

// inDuration reports whether a number belongs to a constant duration, which the operator durations covers.
func (s *site) inDuration(above []ast.Node) bool {
	e, ok := parentOf(above).(ast.Expr)
	return ok && isDuration(s.typeOf(e)) && s.constantValue(e) != nil
}

// changeDurations halves and doubles constant durations, wherever they are, and the numbers among the
// configuration's defaults.
func changeDurations(s *site) {
	s.visitNodes(func(n ast.Node, above []ast.Node) {
		e, ok := n.(ast.Expr)
		if !ok || s.constantValue(e) == nil || s.nameAfter(e, above) {
			return
		}
		number := isDuration(s.typeOf(e))
		if kv, ok := parentOf(above).(*ast.KeyValueExpr); ok && kv.Value == e && s.fn.file.dir == "core/config" {
			number = number || isNumber(s.typeOf(e))
		}
		if !number || s.inDuration(above) || isZero(e) {
			return
		}
		text := s.sourceText(e)
		s.addCandidate(e.Pos(), []edit{s.replacementEdit(e, "("+text+")/2")}, "%s halved", quoteSource(text))
		s.addCandidate(e.Pos(), []edit{s.replacementEdit(e, "("+text+")*2")}, "%s doubled", quoteSource(text))
	})
}

// isZero reports whether an expression is the literal 0, which halving and doubling don't change.
func isZero(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Value == "0"
}
