package source

import (
	"go/ast"
	"go/token"
	"go/types"
)

// changeLoops ends loops too early, or fails to end them.
func changeLoops(s *site) {
	s.visitNodes(func(n ast.Node, above []ast.Node) {
		switch n := n.(type) {
		case *ast.BranchStmt:
			switch label := labelOf(n); n.Tok {
			case token.CONTINUE:
				s.addReplacement(n, "break"+label)
			case token.BREAK:
				if inLoop(above) {
					s.addReplacement(n, "continue"+label)
				}
			}
		case *ast.RangeStmt:
			s.onlyOne(n.Body)
		case *ast.ForStmt:
			s.onlyOne(n.Body)
		case *ast.ReturnStmt:
			if inLoop(above) {
				text := s.sourceText(n)
				s.addCandidate(n.Pos(), []edit{s.replacementEdit(n, "if true { continue }; "+text)}, "%s in a loop goes on with the next", quoteSource(text))
				s.addCandidate(n.Pos(), []edit{s.replacementEdit(n, "if true { break }; "+text)}, "%s only ends the loop", quoteSource(text))
			}
		}
	})
}

func labelOf(n *ast.BranchStmt) string {
	if n.Label == nil {
		return ""
	}
	return " " + n.Label.Name
}

// inLoop reports whether a statement is in a loop of its own function.
func inLoop(above []ast.Node) bool {
	for i := len(above) - 1; i >= 0; i-- {
		switch above[i].(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return true
		case *ast.FuncLit:
			return false
		}
	}
	return false
}

func (s *site) onlyOne(body *ast.BlockStmt) {
	end := s.fn.file.byteOffset(body.Rbrace)
	s.addCandidate(body.Pos(), []edit{{end, end, "; if true { break }\n"}}, "the loop ends after its first round")
}

// changeResults inverts boolean results, and replaces numbers, slices and maps by their zero value.
func changeResults(s *site) {
	s.visitNodes(func(n ast.Node, _ []ast.Node) {
		ret, ok := n.(*ast.ReturnStmt)
		if !ok {
			return
		}
		for _, e := range ret.Results {
			s.changeResult(ret, e)
		}
	})
}

func (s *site) changeResult(ret *ast.ReturnStmt, e ast.Expr) {
	t := s.typeOf(e)
	zero := ""
	switch {
	case t == nil || isError(t) || s.fn.file.pkg.TypesInfo.Types[e].IsNil():
		return
	case isBool(t):
		text := s.sourceText(e)
		by := "!(" + text + ")"
		switch text {
		case "true":
			by = "false"
		case "false":
			by = "true"
		}
		s.addCandidate(e.Pos(), []edit{s.replacementEdit(e, by)}, "result %s of %s inverted", quoteSource(text), quoteSource(s.sourceText(ret)))
		return
	case isNumber(t):
		zero = "0"
	default:
		switch t.Underlying().(type) {
		case *types.Slice, *types.Map:
			zero = "nil"
		}
	}
	if zero == "" {
		return
	}
	s.addCandidate(e.Pos(), []edit{s.replacementEdit(e, zero)}, "result %s of %s is %s", quoteSource(s.sourceText(e)), quoteSource(s.sourceText(ret)), zero)
}
