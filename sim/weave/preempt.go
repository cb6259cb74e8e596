package weave

import (
	"go/ast"
	"maps"
	"slices"

	"handoff/chaos/overlay"
)

// touchesShared reports whether a statement, apart from the blocks in it, mentions a field that tasks share.
func (w *weaver) touchesShared(s ast.Stmt) (found bool) {
	overlay.Within(s, func(n ast.Node) {
		if n, ok := n.(*ast.SelectorExpr); ok {
			found = found || w.shared[n.Sel.Name]
		}
	})
	return found
}

// isUnlock reports whether a statement unlocks a mutex directly, not deferred.
func isUnlock(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "Unlock"
}

func isMutex(n ast.Node) bool {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "sync" && s.Sel.Name == "Mutex"
}

// sharedFields returns the names of the fields that tasks of this package share: guarded fields of every
// struct with a mutex, and the fields of structs that these hold. Names are precise enough, because a
// superfluous point only costs time.
func sharedFields(files []*ast.File) map[string]bool {
	structs := map[string]*ast.StructType{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if t, ok := n.(*ast.TypeSpec); ok {
				if s, ok := t.Type.(*ast.StructType); ok {
					structs[t.Name.Name] = s
				}
			}
			return true
		})
	}
	shared, taken := map[string]bool{}, map[string]bool{}
	var take func(name string)
	take = func(name string) {
		s := structs[name]
		if s == nil || taken[name] {
			return
		}
		taken[name] = true
		after := !hasMutex(s)
		for _, field := range s.Fields.List {
			after = after || isMutex(field.Type)
			if !after {
				continue // by convention, a mutex guards the fields that follow it
			}
			for _, n := range field.Names {
				shared[n.Name] = true
			}
			ast.Inspect(field.Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					take(id.Name)
				}
				return true
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(structs)) {
		if hasMutex(structs[name]) {
			take(name)
		}
	}
	return shared
}

func hasMutex(s *ast.StructType) bool {
	return slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool { return isMutex(f.Type) })
}
