package docs

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"testing"
)

// An error text is an interface: people search logs and results for it. The contract lists all that the code leaves in
// a result, and no other.
func TestTheContractListsEveryErrorText(t *testing.T) {
	p := readPage(t, "docs/contract.md")
	said := resultTexts(t)
	if len(said) < 15 {
		t.Fatalf("the code leaves %d texts: the test does not see them", len(said))
	}
	same(t, "error texts", p.tableOf(t, "Text").column(0), slices.Collect(maps.Keys(said)))
	parts, why := map[string]bool{}, map[string]bool{}
	for _, r := range reasons(t) {
		why[r.String()] = true
	}
	for _, name := range partNames() {
		parts[name] = true
	}
	for _, row := range p.tableOf(t, "Text").rows {
		for _, name := range words(row[1]) {
			if !why[name] && name != "any" {
				t.Errorf("%q: %s is no failure reason", row[0], name)
			}
		}
		for _, name := range words(row[2]) {
			if !parts[name] {
				t.Errorf("%q: %s is no part", row[0], name)
			}
		}
	}
}

// resultTexts are the texts that the code puts into execution.Result.Error: in a literal, by an assignment, or through
// the arguments of unclaimed and cause of death.
func resultTexts(t *testing.T) map[string]bool {
	t.Helper()
	files := parseGo(t, "core")
	constants := map[string]string{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for i, name := range spec.Names {
					if i < len(spec.Values) {
						if text, ok := literal(spec.Values[i]); ok {
							constants[name.Name] = text
						}
					}
				}
			}
			return true
		})
	}
	texts := map[string]bool{}
	add := func(n ast.Expr) {
		if sum, ok := n.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
			n = sum.X
		}
		if text, ok := literal(n); ok && text != "" {
			texts[text] = true
		}
		if name, ok := n.(*ast.Ident); ok && constants[name.Name] != "" {
			texts[constants[name.Name]] = true
		}
	}
	for _, f := range files {
		if f.Name.Name == "storetest" || f.Name.Name == "brokertest" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if name, ok := n.Type.(*ast.SelectorExpr); ok && name.Sel.Name == "Result" {
					for _, e := range n.Elts {
						if pair, ok := e.(*ast.KeyValueExpr); ok && pair.Key.(*ast.Ident).Name == "Error" {
							add(pair.Value)
						}
					}
				}
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					field, ok := left.(*ast.SelectorExpr)
					if !ok || field.Sel.Name != "Error" || i >= len(n.Rhs) {
						continue
					}
					if inner, ok := field.X.(*ast.SelectorExpr); ok && inner.Sel.Name == "Result" {
						add(n.Rhs[i])
					}
				}
			case *ast.CallExpr:
				if method, ok := n.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "unclaimed" && len(n.Args) == 4 {
					add(n.Args[len(n.Args)-1])
				}
			case *ast.FuncDecl:
				if n.Name.Name == "causeOfDeath" {
					ast.Inspect(n, func(n ast.Node) bool {
						if r, ok := n.(*ast.ReturnStmt); ok {
							add(r.Results[1])
						}
						return true
					})
				}
			}
			return true
		})
	}
	return texts
}
