package run

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Worlds only implement disturbances. The injector determines their time, target and duration; a load or a
// fault describes itself. So no world may read a trigger, a fault's fields or a load, or write a FaultTouched
// event.
func TestWorldsLeaveFaultsAndLoadsToRunner(t *testing.T) {
	runners := map[string]string{
		"FindTrigger": "finds triggers", "Triggers": "finds triggers", "Nth": "counts triggers", "Plus": "waits after triggers",
		"Spec": "reads a fault's fields", "Drawn": "draws how long faults last", "Select": "chooses targets", "Inject": "begins faults",
		"Register": "has kinds of its own", "FaultTouched": "says that faults touched",
		"Siblings": "reads loads", "Copies": "reads loads", "Pin": "reads loads",
	}
	const seen = 10
	for _, world := range []string{"../../sim", "../live"} {
		files, err := filepath.Glob(world + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		read := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			read++
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				s, selects := n.(*ast.SelectorExpr)
				if !selects || runners[s.Sel.Name] == "" {
					return true
				}
				if x, named := s.X.(*ast.Ident); named && x.Name == "c" && s.Sel.Name == "Copies" {
					return true // the files that a container copies
				}
				t.Errorf("%v: %s %s itself (%s), which package run does for both worlds", set.Position(s.Pos()), filepath.Base(world), runners[s.Sel.Name], s.Sel.Name)
				return true
			})
		}
		if read < seen {
			t.Errorf("%s: only %d files were read, want at least %d", world, read, seen)
		}
	}
}
