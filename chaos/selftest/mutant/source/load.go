package source

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// Catalog lists every candidate that compiles, and counts what was left out.
type Catalog struct {
	// Root is the module's folder.
	Root string
	// Candidates are in the order of packages, files, functions and operators.
	Candidates []*Candidate
	// Untyped is the number of each operator's candidates that were left out because they would not compile.
	Untyped map[string]int
	// LeftOut counts the functions and package variables without candidates, by reason.
	LeftOut map[string]int

	files []*file
}

// file is a source file of the scope.
type file struct {
	pkg  *packages.Package
	dir  string // of the package, below the root
	name string // base name
	path string
	src  []byte
	tree *ast.File
	// waking are the package's functions that set a signal.
	waking map[types.Object]bool
}

func (f *file) byteOffset(p token.Pos) int { return f.pkg.Fset.Position(p).Offset }

// function is a declaration that can have mutants: a function, or a variable with an SQL statement.
type function struct {
	file *file
	name string
	// decl is nil for a variable.
	decl *ast.FuncDecl
	// literal is the text of a variable's statement.
	literal *ast.BasicLit
}

// Load reads the packages to mutate below root, the module's folder, and lists their candidates:
// those in the SQL statements if sql is true, those in the Go code of the simulated core if not. It
// parses and type-checks all of these, and lists only candidates that compile.
func Load(root string, sql bool) (*Catalog, error) {
	scopes := simulatedScopes()
	if sql {
		scopes = statementScopes()
	}
	return loadScopes(root, scopes, sql)
}

func loadScopes(root string, scopes []scope, sql bool) (*Catalog, error) {
	var patterns []string
	for _, s := range scopes {
		patterns = append(patterns, "./"+s.dir)
	}
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.LoadSyntax | packages.NeedModule, Dir: root,
	}, patterns...)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", strings.Join(patterns, " "), err)
	}
	c := &Catalog{Root: root, Untyped: map[string]int{}, LeftOut: map[string]int{}}
	for _, s := range scopes {
		at := slices.IndexFunc(pkgs, func(p *packages.Package) bool { return strings.HasSuffix(p.PkgPath, "/"+s.dir) })
		if at < 0 {
			return nil, fmt.Errorf("loading %s: no such package below %s, which must be the module's folder", s.dir, root)
		}
		p := pkgs[at]
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("loading %s: %w", s.dir, errors.Join(errorsOf(p)...))
		}
		if err := c.addPackage(p, s, sql); err != nil {
			return nil, err
		}
	}
	return c, c.dropUntyped()
}

func errorsOf(p *packages.Package) []error {
	list := make([]error, len(p.Errors))
	for i := range p.Errors {
		list[i] = p.Errors[i]
	}
	return list
}

func (c *Catalog) addPackage(p *packages.Package, s scope, sql bool) error {
	waking := wakingFunctions(p)
	for i, path := range p.CompiledGoFiles {
		name := filepath.Base(path)
		src, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading the source of %s: %w", s.dir, err)
		}
		f := &file{pkg: p, dir: s.dir, name: name, path: path, src: src, tree: p.Syntax[i], waking: waking}
		c.files = append(c.files, f)
		if slices.Contains(s.without, name) {
			c.LeftOut["a file that the simulator does not run"] += len(f.listFunctions())
			continue
		}
		if sql {
			c.addStatements(f)
			continue
		}
		for _, fn := range f.listFunctions() {
			if why := unfitReason(fn); why != "" {
				c.LeftOut[why]++
				continue
			}
			c.addCandidates(fn, false)
		}
		c.LeftOut["a package variable with a value"] += f.countVariables()
	}
	return nil
}

// listFunctions lists the file's functions that have a body.
func (f *file) listFunctions() []*function {
	var list []*function
	for _, d := range f.tree.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
			list = append(list, &function{file: f, name: nameOf(d), decl: d})
		}
	}
	return list
}

// countVariables counts the file's package variables with a value. They have no mutants: their values
// are set before a function could choose one.
func (f *file) countVariables() int {
	n := 0
	for _, d := range f.tree.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, s := range g.Specs {
			n += len(s.(*ast.ValueSpec).Values)
		}
	}
	return n
}

func nameOf(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	star := ""
	if p, ok := t.(*ast.StarExpr); ok {
		t, star = p.X, "*"
	}
	switch g := t.(type) {
	case *ast.IndexExpr:
		t = g.X
	case *ast.IndexListExpr:
		t = g.X
	}
	name := "?"
	if id, ok := t.(*ast.Ident); ok {
		name = id.Name
	}
	if star != "" {
		name = "(*" + name + ")"
	}
	return name + "." + d.Name.Name
}

// unfitReason returns the reason why a function can't have mutants; empty if it can.
func unfitReason(fn *function) string {
	d := fn.decl
	switch {
	case d.Recv == nil && d.Name.Name == "init":
		return "an init function"
	case d.Recv != nil && (d.Name.Name == "String" || d.Name.Name == "Error" || d.Name.Name == "LogValue"):
		return "a text for readers (String, Error, LogValue)"
	}
	recovers := false
	ast.Inspect(d.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			id, ok := call.Fun.(*ast.Ident)
			recovers = recovers || ok && id.Name == "recover"
		}
		return true
	})
	if recovers {
		return "a function that recovers, which only the deferred function itself can"
	}
	return ""
}

// addCandidates adds the candidates of one function, of all operators.
func (c *Catalog) addCandidates(fn *function, sql bool) {
	texts := map[string]bool{}
	for _, o := range Operators() {
		if o.SQL != sql {
			continue
		}
		s := &site{fn: fn, operator: o.Name}
		o.find(s)
		for _, m := range s.found {
			// Two operators, or one twice, may produce the same text; the first keeps it.
			from, to := fn.textRange()
			text := applyEdits(fn.file.src, from, to, m.edits)
			if texts[text] || text == string(fn.file.src[from:to]) {
				continue
			}
			texts[text] = true
			c.Candidates = append(c.Candidates, m)
		}
	}
}

// textRange is the position of a declaration's text in its file.
func (fu *function) textRange() (from, to int) {
	if fu.decl != nil {
		return fu.file.byteOffset(fu.decl.Pos()), fu.file.byteOffset(fu.decl.End())
	}
	return fu.file.byteOffset(fu.literal.Pos()), fu.file.byteOffset(fu.literal.End())
}

// Digest identifies the source that is mutated: all files of the packages, with their comments and
// with the files that are left out.
func (c *Catalog) Digest() string {
	h := sha256.New()
	for _, f := range c.files {
		fmt.Fprintf(h, "%s/%s %d\n", f.dir, f.name, len(f.src))
		h.Write(f.src)
	}
	return hex.EncodeToString(h.Sum(nil))
}
