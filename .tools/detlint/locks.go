package main

import (
	"go/ast"
	"go/token"
	"go/types"
	"maps"

	"golang.org/x/tools/go/types/typeutil"
)

// A task that yields while it holds a mutex stops every task that wants the mutex, in a place
// where the kernel can't see them wait: the run hangs. So no mutex may be held across a call that
// takes a context or belongs to Host. Of Host that goes for the short methods too: in a process
// that is being crashed each of them ends the task on the spot, and an Unlock that was not deferred
// is never reached.
//
// The analysis is lexical and knows one function at a time: it follows statements in order,
// branches included, and compares mutexes by how they are written. A helper that locks for its
// caller is not seen.

// held maps a mutex, as written, to the place where it was locked.
type held map[string]token.Pos

func (c *checker) locks(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Body != nil {
				c.block(n.Body.List, held{})
			}
		case *ast.FuncLit:
			// One that is called on the spot is looked at a second time with what its caller
			// holds. Any other runs at another time, when its caller's locks are its own affair.
			c.block(n.Body.List, held{})
		}
		return true
	})
}

// block follows statements and returns what is held after them, or nil when they never get there.
func (c *checker) block(list []ast.Stmt, h held) held {
	h = maps.Clone(h)
	for _, s := range list {
		if h = c.stmt(s, h); h == nil {
			return nil
		}
	}
	return h
}

func (c *checker) stmt(s ast.Stmt, h held) held {
	switch s := s.(type) {
	case nil:
		return h
	case *ast.BlockStmt:
		return c.block(s.List, h)
	case *ast.LabeledStmt:
		return c.stmt(s.Stmt, h)
	case *ast.ReturnStmt:
		for _, e := range s.Results {
			h = c.expr(e, h)
		}
		return nil
	case *ast.BranchStmt:
		if s.Tok == token.FALLTHROUGH {
			return h
		}
		return nil
	case *ast.DeferStmt:
		// A deferred Unlock leaves the mutex held to the end of the function. Any other deferred
		// call runs before the unlocks that were deferred earlier.
		if _, unlock := c.mutexCall(s.Call); unlock != "" {
			return h
		}
		if _, literal := s.Call.Fun.(*ast.FuncLit); literal {
			return h
		}
		return c.expr(s.Call, h)
	case *ast.GoStmt:
		return h
	case *ast.IfStmt:
		h = c.stmt(s.Init, h)
		h = c.expr(s.Cond, h)
		then := c.block(s.Body.List, h)
		if s.Else == nil {
			return union(then, h)
		}
		return union(then, c.stmt(s.Else, maps.Clone(h)))
	case *ast.ForStmt:
		h = c.stmt(s.Init, h)
		h = c.expr(s.Cond, h)
		body := c.block(s.Body.List, h)
		if body != nil {
			body = c.stmt(s.Post, body)
		}
		return union(h, body)
	case *ast.RangeStmt:
		h = c.expr(s.X, h)
		return union(h, c.block(s.Body.List, h))
	case *ast.SwitchStmt:
		h = c.stmt(s.Init, h)
		h = c.expr(s.Tag, h)
		return c.clauses(s.Body, h)
	case *ast.TypeSwitchStmt:
		h = c.stmt(s.Init, h)
		h = c.stmt(s.Assign, h)
		return c.clauses(s.Body, h)
	case *ast.SelectStmt:
		return c.clauses(s.Body, h)
	case *ast.ExprStmt:
		if call, ok := s.X.(*ast.CallExpr); ok {
			if b, ok := typeutil.Callee(c.pass.TypesInfo, call).(*types.Builtin); ok && b.Name() == "panic" {
				return nil
			}
		}
		return c.expr(s.X, h)
	default:
		return c.expr(s, h)
	}
}

func (c *checker) clauses(body *ast.BlockStmt, h held) held {
	after := maps.Clone(h)
	for _, clause := range body.List {
		switch clause := clause.(type) {
		case *ast.CaseClause:
			after = union(after, c.block(clause.Body, h))
		case *ast.CommClause:
			after = union(after, c.block(clause.Body, h))
		}
	}
	return after
}

// expr follows the calls in an expression or a simple statement, in source order.
func (c *checker) expr(n ast.Node, h held) held {
	if n == nil {
		return h
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			if literal, ok := ast.Unparen(n.Fun).(*ast.FuncLit); ok && len(h) > 0 {
				c.block(literal.Body.List, h)
			}
			lock, unlock := c.mutexCall(n)
			switch {
			case lock != "":
				h[lock] = n.Pos()
			case unlock != "":
				delete(h, unlock)
			case len(h) > 0 && c.yields(n):
				c.reportHeld(n, h)
			}
		}
		return true
	})
	return h
}

func (c *checker) reportHeld(call *ast.CallExpr, h held) {
	// The first one that was locked is the one to name; the choice only has to be the same each time.
	var name string
	for mutex, at := range h {
		if name == "" || at < h[name] || at == h[name] && mutex < name {
			name = mutex
		}
	}
	c.report(call.Pos(), "%s is held across this call, which may yield: the kernel can't see who waits for it", name)
}

// mutexCall returns the mutex, as written, that a call locks or unlocks.
func (c *checker) mutexCall(call *ast.CallExpr) (lock, unlock string) {
	sel, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	fn, ok := c.pass.TypesInfo.Uses[sel.Sel].(*types.Func)
	if !ok || fn.Pkg() == nil || fn.Pkg().Path() != "sync" {
		return "", ""
	}
	mutex := types.ExprString(sel.X)
	switch fn.Name() {
	case "Lock", "RLock":
		return mutex, ""
	case "Unlock", "RUnlock":
		return "", mutex
	}
	return "", ""
}

// yields says whether a call may give up control: it takes a context first, or belongs to Host.
// Making a context and logging take one too, but go nowhere.
func (c *checker) yields(call *ast.CallExpr) bool {
	info := c.pass.TypesInfo
	if fn, ok := typeutil.Callee(info, call).(*types.Func); ok {
		if path := pkgPath(fn); path == "context" || path == "log/slog" {
			return false
		}
		if recv := fn.Signature().Recv(); recv != nil && typeIs(recv.Type(), hostPath, "Host") {
			return true
		}
	}
	t := info.TypeOf(call.Fun)
	if t == nil {
		return false
	}
	sig, ok := t.Underlying().(*types.Signature)
	return ok && sig.Params().Len() > 0 && typeIs(sig.Params().At(0).Type(), "context", "Context")
}

func pkgPath(obj types.Object) string {
	if obj.Pkg() == nil {
		return ""
	}
	return obj.Pkg().Path()
}

// union is what may be held where two ways meet; a nil way never gets there.
func union(a, b held) held {
	if a == nil {
		return b
	}
	u := maps.Clone(a)
	maps.Copy(u, b)
	return u
}
