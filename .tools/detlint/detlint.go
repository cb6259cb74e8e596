package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/inspector"
	"golang.org/x/tools/go/types/typeutil"
)

const doc = `report what makes a simulated run depend on more than its scenario and its choices

A run under the kernel is a function of (scenario, choices). Clocks, goroutines, channels, unseeded
randomness, map order, floats and state shared by all simulated processes break that. A finding that
is harmless is marked where it stands, or on the line above, with the reason:

	//detlint:ok REASON

A marker without a reason, and one that suppresses nothing, are findings themselves. Test files are
exempt.`

// Analyzer is the whole check. It needs no facts of other packages, so only the named packages are
// loaded from source.
var Analyzer = &analysis.Analyzer{
	Name: "detlint",
	Doc:  doc,
	Run:  run,
}

// hostPath is the package that declares Host, whose every method is a point where the kernel may
// run something else.
const hostPath = "handoff/core/host"

// forbiddenImports are packages of which nothing can be used safely. A path that ends in a slash
// stands for everything below it.
var forbiddenImports = map[string]string{
	"crypto/rand":            "its bytes can't be seeded; draw from Host.Uint64N or from the chooser",
	"hash/maphash":           "its seed is another one in each process; use a hash with a fixed definition",
	"golang.org/x/sync/":     "it starts goroutines or waits on channels, which the kernel can't order; use Host.Go and Task.Wait",
	"github.com/google/uuid": "it draws from a global source; make identifiers from Host.Uint64N",
}

// forbiddenObjects are functions, methods and types, by package path and name; a method's name has
// its type's before it.
var forbiddenObjects = map[string]map[string]string{
	"time": withReason("the kernel can't see real time; use Host.Now, Host.Monotonic and Host.Sleep",
		"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"),
	"context": withReason("the kernel can't see it end; use Host.WithCancel and Host.WithTimeout",
		"WithCancel", "WithCancelCause", "WithDeadline", "WithDeadlineCause", "WithTimeout", "WithTimeoutCause",
		"WithoutCancel", "AfterFunc"),
	"sync": withReason("it hides a wait or an order from the kernel; use Host.Go, Task.Wait and Host.NewSignal",
		"Map", "Cond", "NewCond", "WaitGroup"),
	"reflect": withReason("it visits a map in random order",
		"Value.MapKeys", "Value.MapRange"),
	"github.com/gofrs/uuid/v5": withReason("it draws from a global source; use a generator over Host.Uint64N",
		"NewV1", "NewV4", "NewV6", "NewV7", "NewV7AtTime", "NewV1AtTime", "NewV6AtTime"),
}

func withReason(reason string, names ...string) map[string]string {
	m := make(map[string]string, len(names))
	for _, name := range names {
		m[name] = reason
	}
	return m
}

// exactMath are the functions of package math whose result is exact on every architecture. The
// others have assembly on some, or are open to fused multiply-add.
var exactMath = withReason("exact",
	"Float64frombits", "Float32frombits", "Inf", "NaN", "Abs", "Ceil", "Floor", "Trunc", "Round", "RoundToEven",
	"Max", "Min", "Copysign", "Modf", "Frexp", "Ldexp", "Nextafter", "Nextafter32", "Sqrt", "FMA")

type checker struct {
	pass    *analysis.Pass
	markers markers
	// sorted are the calls of maps.Keys and its like that stand directly inside slices.Sorted….
	sorted map[*ast.Ident]bool
}

func run(pass *analysis.Pass) (any, error) {
	var files []*ast.File
	for _, f := range pass.Files {
		// A name without .go is a test's main package, which the go command writes.
		name := pass.Fset.Position(f.FileStart).Filename
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			files = append(files, f)
		}
	}
	m, err := readMarkers(pass, files)
	if err != nil {
		return nil, err
	}
	c := &checker{pass: pass, markers: m, sorted: map[*ast.Ident]bool{}}
	for _, f := range files {
		for _, spec := range f.Imports {
			c.importSpec(spec)
		}
		for _, d := range f.Decls {
			c.packageVars(d)
		}
	}
	for cur := range inspector.New(files).Root().Preorder() {
		c.node(cur)
	}
	for _, f := range files {
		c.locks(f)
	}
	m.reportMisuse(pass)
	return nil, nil
}

func (c *checker) report(at token.Pos, format string, args ...any) {
	if c.markers.cover(c.pass.Fset.Position(at)) {
		return
	}
	c.pass.Report(analysis.Diagnostic{Pos: at, Message: fmt.Sprintf(format, args...)})
}

func (c *checker) importSpec(spec *ast.ImportSpec) {
	path := strings.Trim(spec.Path.Value, "`\"")
	for forbidden, reason := range forbiddenImports {
		below := strings.HasSuffix(forbidden, "/") && strings.HasPrefix(path, forbidden)
		if path == forbidden || below {
			c.report(spec.Pos(), "import of %s: %s", path, reason)
		}
	}
}

// packageVars reports variables of the package itself: all simulated processes of a run, and runs
// that go on in parallel, would share them.
func (c *checker) packageVars(d ast.Decl) {
	decl, ok := d.(*ast.GenDecl)
	if !ok || decl.Tok != token.VAR {
		return
	}
	for _, s := range decl.Specs {
		for _, name := range s.(*ast.ValueSpec).Names {
			obj := c.pass.TypesInfo.Defs[name]
			if name.Name == "_" || obj == nil || immutable(obj.Type()) {
				continue
			}
			c.report(name.Pos(), "package-level variable %s: all simulated processes would share it", name.Name)
		}
	}
}

// immutable says whether a package-level variable of this type does no harm: an error value or a
// compiled expression. Nobody assigns to those, and reading them has no effect.
func immutable(t types.Type) bool {
	errorType := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	return types.Implements(t, errorType) || typeIs(t, "regexp", "Regexp")
}

func (c *checker) node(cur inspector.Cursor) {
	info := c.pass.TypesInfo
	switch n := cur.Node().(type) {
	case *ast.GoStmt:
		c.report(n.Pos(), "go statement: the kernel can't order it; use Host.Go")
	case *ast.SelectStmt:
		c.report(n.Pos(), "select: its choice is random and the kernel can't see the wait; use Host.NewSignal")
	case *ast.SendStmt:
		c.report(n.Arrow, "channel send: the kernel can't see it block; use Host.NewSignal")
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			c.report(n.Pos(), "channel receive: the kernel can't see it block; use Host.NewSignal or Task.Wait")
		}
	case *ast.CallExpr:
		c.call(n)
	case *ast.Ident:
		c.use(n)
	case *ast.RangeStmt:
		c.rangeStmt(n)
	case *ast.BinaryExpr:
		// One finding for a whole formula is enough.
		if outer, ok := parentExpr(cur).(*ast.BinaryExpr); ok && c.float(outer) {
			return
		}
		if c.float(n) {
			c.report(n.Pos(), "float arithmetic: it may be rounded differently elsewhere; use integers")
		}
	case *ast.AssignStmt:
		if n.Tok != token.ASSIGN && n.Tok != token.DEFINE && isFloat(info.TypeOf(n.Lhs[0])) {
			c.report(n.Pos(), "float arithmetic: it may be rounded differently elsewhere; use integers")
		}
	case *ast.IncDecStmt:
		if isFloat(info.TypeOf(n.X)) {
			c.report(n.Pos(), "float arithmetic: it may be rounded differently elsewhere; use integers")
		}
	}
}

func (c *checker) call(call *ast.CallExpr) {
	info := c.pass.TypesInfo
	if b, ok := typeutil.Callee(info, call).(*types.Builtin); ok && b.Name() == "make" {
		if _, ok := coreType(info.TypeOf(call)).(*types.Chan); ok {
			c.report(call.Pos(), "make of a channel: the kernel can't see waits on it; use Host.NewSignal")
		}
	}
	// Arguments are visited after their call, so this is known before use sees maps.Keys.
	if fn := typeutil.StaticCallee(info, call); fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "slices" &&
		strings.HasPrefix(fn.Name(), "Sorted") && len(call.Args) > 0 {
		if inner, ok := ast.Unparen(call.Args[0]).(*ast.CallExpr); ok {
			if name := calleeName(inner); name != nil {
				c.sorted[name] = true
			}
		}
	}
}

// use looks at every mention of an object and not only at calls, so that a function which is
// passed on as a value is found too.
func (c *checker) use(id *ast.Ident) {
	obj := c.pass.TypesInfo.Uses[id]
	if obj == nil || obj.Pkg() == nil {
		return
	}
	path, name := obj.Pkg().Path(), obj.Name()
	fn, _ := obj.(*types.Func)
	if fn != nil && fn.Signature().Recv() != nil {
		recv := fn.Signature().Recv().Type()
		if name == "Done" && implementsContext(recv) {
			c.report(id.Pos(), "Done of a context: the kernel can't see waits on it; look at Err, or let Host or the call end with the context")
		}
		name = typeName(recv) + "." + name
	} else if obj.Parent() != obj.Pkg().Scope() {
		return // a local name or a field
	}
	if reason, ok := forbiddenObjects[path][name]; ok {
		c.report(id.Pos(), "%s.%s: %s", obj.Pkg().Name(), name, reason)
	}
	if fn == nil || fn.Signature().Recv() != nil {
		return
	}
	switch path {
	case "math/rand", "math/rand/v2":
		if !strings.HasPrefix(name, "New") {
			c.report(id.Pos(), "rand.%s: it draws from a global source; draw from Host.Uint64N or from the chooser", name)
		}
	case "maps", "golang.org/x/exp/maps":
		if (name == "Keys" || name == "Values" || name == "All") && !c.sorted[id] {
			c.report(id.Pos(), "maps.%s: map order is random; put it directly inside slices.Sorted", name)
		}
	case "math":
		if _, exact := exactMath[name]; !exact && fn.Signature().Results().Len() > 0 && isFloat(fn.Signature().Results().At(0).Type()) {
			c.report(id.Pos(), "math.%s: it may be rounded differently elsewhere; use integers", name)
		}
	}
}

func (c *checker) rangeStmt(n *ast.RangeStmt) {
	switch coreType(c.pass.TypesInfo.TypeOf(n.X)).(type) {
	case *types.Chan:
		c.report(n.Pos(), "range over a channel: the kernel can't see it block")
	case *types.Map:
		// A loop that sees neither key nor value can't see their order.
		if blank(n.Key) && blank(n.Value) {
			return
		}
		c.report(n.Pos(), "range over a map: its order is random; range over slices.Sorted(maps.Keys(m))")
	}
}

// float says whether an expression computes a float while the program runs. What the compiler
// folds is exact.
func (c *checker) float(e *ast.BinaryExpr) bool {
	tv := c.pass.TypesInfo.Types[e]
	return tv.Value == nil && isFloat(tv.Type)
}

func blank(e ast.Expr) bool {
	if e == nil {
		return true
	}
	id, ok := e.(*ast.Ident)
	return ok && id.Name == "_"
}

// parentExpr is the node around cur, parentheses left out.
func parentExpr(cur inspector.Cursor) ast.Node {
	p := cur.Parent()
	for {
		if _, ok := p.Node().(*ast.ParenExpr); !ok {
			return p.Node()
		}
		p = p.Parent()
	}
}

// calleeName is the identifier that names the function of a call: Keys in maps.Keys(m) and in
// maps.Keys[M, K, V](m).
func calleeName(call *ast.CallExpr) *ast.Ident {
	fun := ast.Unparen(call.Fun)
	switch f := fun.(type) {
	case *ast.IndexExpr:
		fun = f.X
	case *ast.IndexListExpr:
		fun = f.X
	}
	switch f := fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel
	case *ast.Ident:
		return f
	}
	return nil
}

// coreType is the underlying type; of a type parameter, the one that all its types share, where
// the constraint names one directly (M ~map[K]V).
func coreType(t types.Type) types.Type {
	if t == nil {
		return nil
	}
	p, ok := types.Unalias(t).(*types.TypeParam)
	if !ok {
		return t.Underlying()
	}
	constraint := p.Constraint().Underlying().(*types.Interface)
	for e := range constraint.EmbeddedTypes() {
		if u, ok := e.(*types.Union); ok && u.Len() == 1 {
			return u.Term(0).Type().Underlying()
		}
	}
	return constraint
}

func isFloat(t types.Type) bool {
	if t == nil {
		return false
	}
	if p, ok := types.Unalias(t).(*types.TypeParam); ok {
		t = coreType(p)
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&(types.IsFloat|types.IsComplex) != 0
}

func typeName(t types.Type) string {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}

// typeIs says whether t, or what it points to, is the named type.
func typeIs(t types.Type, path, name string) bool {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := types.Unalias(t).(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == path && n.Obj().Name() == name
}

// implementsContext recognises context.Context and types like it by their methods, because the
// package under check need not import context itself.
func implementsContext(t types.Type) bool {
	set := types.NewMethodSet(t)
	for _, name := range []string{"Deadline", "Done", "Err", "Value"} {
		if set.Lookup(nil, name) == nil {
			return false
		}
	}
	return true
}
