package source

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"handoff/chaos/overlay"
)

// Variable is the environment variable for the number of the mutant that a process runs, counted from 1. The
// process must have been built with an overlay. If the variable is missing or not a mutant's number, the
// process runs the unchanged core and reports nothing.
const Variable = "HANDOFF_SOURCE_MUTANT"

// module begins the import paths of this module. Operators change only its own enumerations.
const module = "handoff/"

// switchFile is the file that an overlay adds to each package.
const switchFile = "zz_source_mutants.go"

// The names in generated files have these prefixes, which occur nowhere else.
const chosen, picked = "sourceMutant__chosen", "sourceMutant__pick"

// span is the part of a generated file, in bytes, that belongs to the mutant with a number.
type span struct {
	from, to int
	number   int
}

// generatedFile is the text of one file with its mutants.
type generatedFile struct {
	text  []byte
	spans []span
}

// withMutants returns the text of a file with its mutants. numbers maps each mutant to its number.
func (f *file) withMutants(mutants []*Candidate, numbers map[*Candidate]int) generatedFile {
	byFunction := map[*function][]*Candidate{}
	var order []*function
	for _, m := range mutants {
		if byFunction[m.fn] == nil {
			order = append(order, m.fn)
		}
		byFunction[m.fn] = append(byFunction[m.fn], m)
	}
	var edits []edit
	var copies strings.Builder
	var spans []span
	for _, fn := range order {
		if fn.decl == nil {
			edits = append(edits, fn.literalEdit(byFunction[fn], numbers))
			continue
		}
		edits = append(edits, fn.switchEdits(byFunction[fn], numbers)...)
		for _, m := range byFunction[fn] {
			from := copies.Len()
			copies.WriteString("\n" + fn.copyText(m, numbers[m]) + "\n")
			spans = append(spans, span{from, copies.Len(), numbers[m]})
		}
	}
	if f.hasStatements(order) {
		edits = append(edits, f.constantsToVariables()...)
	}
	head := applyEdits(f.src, 0, len(f.src), edits)
	for i := range spans {
		spans[i].from += len(head)
		spans[i].to += len(head)
	}
	return generatedFile{text: []byte(head + copies.String()), spans: spans}
}

func (f *file) hasStatements(list []*function) bool {
	return slices.ContainsFunc(list, func(fn *function) bool { return fn.decl == nil })
}

// constantsToVariables turns a file's string constants into variables, because only a variable can have a value
// that is chosen when the process starts.
func (f *file) constantsToVariables() []edit {
	var edits []edit
	for _, d := range f.tree.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		text := true
		for _, spec := range g.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				b, ok := f.pkg.TypesInfo.ObjectOf(name).Type().(*types.Basic)
				text = text && ok && b.Info()&types.IsString != 0
			}
		}
		if text {
			at := f.byteOffset(g.TokPos)
			edits = append(edits, edit{at, at + len("const"), "var"})
		}
	}
	return edits
}

// literalEdit replaces a literal by calls that choose between it and its mutants when the process starts.
func (fu *function) literalEdit(mutants []*Candidate, numbers map[*Candidate]int) edit {
	from, to := fu.textRange()
	text := string(fu.file.src[from:to])
	for _, m := range mutants {
		text = fmt.Sprintf("%s(%d, %s, %s)", picked, numbers[m], text, applyEdits(fu.file.src, from, to, m.edits))
	}
	return edit{from, to, text}
}

// copyName returns the name of the copy of a function with a mutant.
func copyName(d *ast.FuncDecl, number int) string {
	return fmt.Sprintf("%s__m%d", d.Name.Name, number)
}

// copyText returns the text of a function's copy.
func (fu *function) copyText(m *Candidate, number int) string {
	f, d := fu.file, fu.decl
	from, to := fu.textRange()
	name := edit{f.byteOffset(d.Name.Pos()), f.byteOffset(d.Name.End()), copyName(d, number)}
	return applyEdits(f.src, from, to, append(slices.Clone(m.edits), name))
}

// switchEdits returns the edits that begin a function with a switch: if one of its mutants was selected, the
// function calls that copy instead. Unnamed parameters get names, so that they can be passed on.
func (fu *function) switchEdits(mutants []*Candidate, numbers map[*Candidate]int) []edit {
	f, d := fu.file, fu.decl
	var edits []edit
	unnamed := 0
	name := func() string { unnamed++; return fmt.Sprintf("sourceMutant__p%d", unnamed) }
	names := func(list *ast.FieldList) []string {
		var all []string
		for _, field := range list.List {
			dots := ""
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				dots = "..."
			}
			if len(field.Names) == 0 {
				n := name()
				at := f.byteOffset(field.Type.Pos())
				edits = append(edits, edit{at, at, n + " "})
				all = append(all, n+dots)
			}
			for _, id := range field.Names {
				n := id.Name
				if n == "_" {
					n = name()
					edits = append(edits, edit{f.byteOffset(id.Pos()), f.byteOffset(id.End()), n})
				}
				all = append(all, n+dots)
			}
		}
		return all
	}
	receiver := ""
	if d.Recv != nil {
		receiver = names(d.Recv)[0] + "."
	}
	arguments := strings.Join(names(d.Type.Params), ", ")
	var parameters []string
	if d.Type.TypeParams != nil {
		for _, field := range d.Type.TypeParams.List {
			for _, id := range field.Names {
				parameters = append(parameters, id.Name)
			}
		}
	}
	of := ""
	if len(parameters) > 0 {
		of = "[" + strings.Join(parameters, ", ") + "]"
	}
	var b strings.Builder
	b.WriteString(" switch " + chosen + " {")
	for _, m := range mutants {
		call := receiver + copyName(d, numbers[m]) + of + "(" + arguments + ")"
		if d.Type.Results == nil || len(d.Type.Results.List) == 0 {
			fmt.Fprintf(&b, " case %d: %s; return;", numbers[m], call)
		} else {
			fmt.Fprintf(&b, " case %d: return %s;", numbers[m], call)
		}
	}
	b.WriteString(" }; ")
	at := f.byteOffset(d.Body.Lbrace) + 1
	return append(edits, edit{at, at, b.String()})
}

// switchText is the text of the file that reads Variable. Each mutated package has one.
func switchText(name string) string {
	return fmt.Sprintf(`package %s

import (
	"os"
	"strconv"
)

var %s = func() int {
	n, _ := strconv.Atoi(os.Getenv(%q))
	return n
}()

func %s(n int, original, mutant string) string {
	if %s == n {
		return mutant
	}
	return original
}
`, name, chosen, Variable, picked, chosen)
}

// dropUntyped leaves out the candidates that would not compile.
func (c *Catalog) dropUntyped() error {
	byFile := map[*file][]*Candidate{}
	numbers := map[*Candidate]int{}
	bad := map[int]bool{}
	for i, m := range c.Candidates {
		numbers[m] = i + 1
		if m.fn.decl != nil {
			if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+m.fn.copyText(m, i+1), parser.SkipObjectResolution); err != nil {
				bad[i+1] = true
				continue
			}
		}
		byFile[m.fn.file] = append(byFile[m.fn.file], m)
	}
	byPackage := map[string][]*file{}
	var dirs []string
	for _, f := range c.files {
		if byPackage[f.dir] == nil {
			dirs = append(dirs, f.dir)
		}
		byPackage[f.dir] = append(byPackage[f.dir], f)
	}
	for _, dir := range dirs {
		if err := typeCheck(byPackage[dir], byFile, numbers, bad); err != nil {
			return err
		}
	}
	kept := c.Candidates[:0]
	for i, m := range c.Candidates {
		if bad[i+1] {
			c.Untyped[m.Operator]++
			continue
		}
		kept = append(kept, m)
	}
	c.Candidates = kept
	return nil
}

// typeCheck type-checks one package with all its mutants, and adds the numbers of those with an
// error to bad. An error outside of every mutant is returned.
func typeCheck(files []*file, byFile map[*file][]*Candidate, numbers map[*Candidate]int, bad map[int]bool) error {
	fset := token.NewFileSet()
	spans := map[string][]span{}
	var trees []*ast.File
	for _, f := range files {
		g := f.withMutants(byFile[f], numbers)
		tree, err := parser.ParseFile(fset, f.path, g.text, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parsing the mutants of %s: %w", f.path, err)
		}
		spans[f.path] = g.spans
		trees = append(trees, tree)
	}
	p := files[0].pkg
	choice, err := parser.ParseFile(fset, switchFile, switchText(p.Name), parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parsing the switch of %s: %w", p.PkgPath, err)
	}
	var outside []error
	config := types.Config{
		Importer: importerOf{p.Types}, Sizes: p.TypesSizes,
		Error: func(err error) {
			var at types.Error
			if !errors.As(err, &at) {
				return
			}
			pos := fset.Position(at.Pos)
			for _, s := range spans[pos.Filename] {
				if s.from <= pos.Offset && pos.Offset < s.to {
					bad[s.number] = true
					return
				}
			}
			outside = append(outside, err)
		},
	}
	if _, err := config.Check(p.PkgPath, fset, append(trees, choice), nil); err != nil && len(outside) > 0 {
		return fmt.Errorf("type-checking the mutants of %s: %w", p.PkgPath, errors.Join(outside...))
	}
	return nil
}

// importerOf imports what a loaded package imports, and the two packages that switchText needs.
type importerOf struct{ of *types.Package }

// Import implements types.Importer.
func (i importerOf) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	for _, p := range i.of.Imports() {
		if p.Path() == path {
			return p, nil
		}
	}
	if path == "os" || path == "strconv" {
		return standIn(path), nil
	}
	return nil, fmt.Errorf("%s does not import %s", i.of.Path(), path)
}

// standIn declares the functions of os or strconv that switchText uses, for a package that does not import
// it.
func standIn(path string) *types.Package {
	p := types.NewPackage(path, path)
	str, number := types.Typ[types.String], types.Typ[types.Int]
	v := func(t types.Type) *types.Var { return types.NewParam(token.NoPos, p, "", t) }
	add := func(name string, results ...*types.Var) {
		p.Scope().Insert(types.NewFunc(token.NoPos, p, name, types.NewSignatureType(nil, nil, nil, types.NewTuple(v(str)), types.NewTuple(results...), false)))
	}
	add("Getenv", v(str))
	add("Atoi", v(number), v(types.Universe.Lookup("error").Type()))
	p.MarkComplete()
	return p
}

// Overlay writes the files for `go build -overlay` into a folder, and returns the path of the file
// for that option. The mutants are numbered from 1, in the order of the list; Variable takes these
// numbers. The list must come from this catalog.
func (c *Catalog) Overlay(dir string, mutants []*Candidate) (string, error) {
	byFile := map[*file][]*Candidate{}
	numbers := map[*Candidate]int{}
	packages := map[string]bool{}
	for i, m := range mutants {
		numbers[m] = i + 1
		byFile[m.fn.file] = append(byFile[m.fn.file], m)
		packages[m.fn.file.dir] = true
	}
	replace := map[string]string{}
	add := func(path string, text []byte) error {
		to := filepath.Join(dir, fmt.Sprintf("%03d_%s", len(replace), filepath.Base(path)))
		replace[path] = to
		return os.WriteFile(to, text, 0o600)
	}
	var errs []error
	sql := len(mutants) > 0 && mutants[0].fn.decl == nil
	for _, f := range c.files {
		if !packages[f.dir] {
			continue
		}
		switch {
		case byFile[f] != nil:
			errs = append(errs, add(f.path, f.withMutants(byFile[f], numbers).text))
		case sql: // a constant may use another file's constant
			errs = append(errs, add(f.path, []byte(applyEdits(f.src, 0, len(f.src), f.constantsToVariables()))))
		}
		if at := filepath.Join(filepath.Dir(f.path), switchFile); replace[at] == "" {
			errs = append(errs, add(at, []byte(switchText(f.pkg.Name))))
		}
	}
	path, err := overlay.Write(dir, replace)
	if err := cmp.Or(errors.Join(errs...), err); err != nil {
		return "", fmt.Errorf("writing the overlay into %s: %w", dir, err)
	}
	return path, nil
}
