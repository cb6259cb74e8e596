package oracle_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// plain lists the exported functions and methods of the core's two data packages that a judge may call: they
// return names and lists, or read, check and print configurations. None of them implements a rule about an
// execution or a worker.
var plain = []string{
	"execution.Status.String", "execution.ParseStatus", "execution.Reason.String", "execution.ParseReason", "execution.Reasons",
	"execution.Part.String", "execution.ParsePart", "execution.Lifecycle.String", "execution.ParseLifecycle", "execution.Health.String",
	"execution.Execution.Key", "execution.Execution.Chain", "execution.Limits.Names", "execution.LimitsNamed",
	"execution.NewExitCodes", "execution.ExitCodes.List",
}

// settings lists the parts of the configuration. Methods of other types there read, check or print it.
var settings = regexp.MustCompile(`^config\.(Config|Executor|Worker|MessageQueue|RabbitMQ|DeadLetter|Retry|Health)\.`)

// checking lists the methods of these types that only check.
var checking = []string{"config.Config.Validate", "config.Config.ValidateAction", "config.Config.ValidateLimits"}

// Every new function of the two packages needs a decision: if it computes something, the linter must forbid
// it to judges.
func TestJudgesMustNotCallCorePolicies(t *testing.T) {
	refused, allowed := patterns(t), slices.Concat(plain, checking)
	for _, name := range slices.Concat(exported(t, "execution"), exported(t, "config")) {
		if !strings.HasPrefix(name, "execution.") && !settings.MatchString(name) {
			continue
		}
		banned := slices.ContainsFunc(refused, func(p *regexp.Regexp) bool { return p.MatchString(name) })
		if listed := slices.Contains(allowed, name); banned == listed {
			t.Errorf("%s: refused to who judges (forbidigo in .golangci.yaml) is %v, listed as plain here is %v; one of them must be true", name, banned, listed)
		}
	}
}

// patterns returns the patterns that .golangci.yaml forbids to judges.
func patterns(t *testing.T) (list []*regexp.Regexp) {
	t.Helper()
	text, err := os.ReadFile("../../.golangci.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Linters struct {
			Settings struct {
				Forbidigo struct {
					Forbid []struct{ Pattern, Msg string }
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Linters.Settings.Forbidigo.Forbid {
		if strings.HasPrefix(f.Msg, "who judges does not ask") {
			list = append(list, regexp.MustCompile(f.Pattern))
		}
	}
	if len(list) == 0 {
		t.Fatal("the linter refuses nothing to who judges")
	}
	return list
}

// exported returns the exported functions and methods of a package below core, named as by forbidigo.
func exported(t *testing.T, pkg string) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../core/" + pkg + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("core/%s has no files: %v", pkg, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			name := pkg + "."
			if f.Recv != nil {
				of := f.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				id, ok := of.(*ast.Ident)
				if !ok || !id.IsExported() {
					continue
				}
				name += id.Name + "."
			}
			names = append(names, name+f.Name.Name)
		}
	}
	return names
}
