package invariant

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestObservedKindsMatchObserveEvent reads the code of every selective checker: its observedKinds must list
// exactly the kinds that its observeEvent names. A forgotten kind would never reach the checker.
func TestObservedKindsMatchObserveEvent(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	observed, heard := make(map[string]map[string]bool), make(map[string]map[string]bool)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			of, ok := f.Recv.List[0].Type.(*ast.StarExpr)
			if !ok {
				continue
			}
			name, ok := of.X.(*ast.Ident)
			switch {
			case !ok:
			case f.Name.Name == "observeEvent":
				observed[name.Name] = kindsIn(f)
			case f.Name.Name == "observedKinds":
				heard[name.Name] = kindsIn(f)
			}
		}
	}
	if len(heard) < 10 {
		t.Fatalf("only %d checkers list their kinds of events", len(heard))
	}
	for name, kinds := range heard {
		if len(kinds) == 0 {
			// The checker observes all kinds except the common kinds of message events.
			for _, k := range []string{"Published", "PublishedMarked", "Enqueued", "Delivered", "Acked", "Hinted"} {
				if observed[name][k] {
					t.Errorf("%s observes %s and does not list it", name, k)
				}
			}
			continue
		}
		if !maps.Equal(kinds, observed[name]) {
			t.Errorf("%s lists %v and observes %v", name, slices.Sorted(maps.Keys(kinds)), slices.Sorted(maps.Keys(observed[name])))
		}
	}
}

// kindsIn returns the kinds of events that a method's body names.
func kindsIn(f *ast.FuncDecl) map[string]bool {
	kinds := make(map[string]bool)
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "history" && s.Sel.Name != "Event" && s.Sel.Name != "Kind" {
				kinds[s.Sel.Name] = true
			}
		}
		return true
	})
	return kinds
}
