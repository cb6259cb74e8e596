package docs

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/printer"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/worker"
)

// These pages claim to list all items of a kind. Each list is compared with the code in both directions.

func TestOwnershipListsTransitions(t *testing.T) {
	p := readPage(t, "docs/ownership.md")
	var listed, known []string
	for _, row := range p.tableOf(t, "From", "To", "Writer").rows {
		listed = append(listed, row[0]+" → "+row[1]+" by "+row[2])
	}
	for _, k := range execution.Transitions() {
		known = append(known, k.From.String()+" → "+k.To.String()+" by "+k.By.String())
	}
	compareLists(t, "changes of status", listed, known)
}

func TestRetriesListsReasons(t *testing.T) {
	yes := map[bool]string{true: "yes"}
	p := readPage(t, "docs/retries.md")
	var listed, known []string
	for _, row := range p.tableOf(t, "Reason", "retriable").rows {
		listed = append(listed, strings.Join(row[:4], "|"))
	}
	for _, name := range execution.Reasons() {
		r, err := execution.ParseReason(name)
		if err != nil {
			t.Fatal(err)
		}
		known = append(known, strings.Join([]string{name, yes[r.Retriable()], yes[r.BlamesWorker()], yes[r.OfAction()]}, "|"))
	}
	compareLists(t, "reasons", listed, known)
}

// An error text is an interface, because people search logs and results for it.
func TestContractListsErrorTexts(t *testing.T) {
	p := readPage(t, "docs/contract.md")
	said := stringLiterals(parseGo(t, "core"))
	for _, row := range p.tableOf(t, "Text").rows {
		if !slices.ContainsFunc(said, func(text string) bool { return strings.HasPrefix(text, row[0]) }) {
			t.Errorf("no code has the text %q", row[0])
		}
	}
}

func TestActionsListsExitCodesAndKeys(t *testing.T) {
	page := readText(t, "actions.md")
	for _, c := range worker.ExitCodes() {
		if row := fmt.Sprintf("\n| %d | %s | `%v` | %s |\n", c.Code, c.Name, c.Reason, c.About); !strings.Contains(page, row) {
			t.Errorf("docs/actions.md lacks %s", row)
		}
	}
	for _, key := range config.ActionKeys() {
		if !strings.Contains(page, "| `"+key+"`") {
			t.Errorf("docs/actions.md does not explain the key %s", key)
		}
	}
	p := readPage(t, "docs/actions.md")
	if actions, problems := config.ParseActions("actions.md", []byte(p.codeBlocks("yaml")[0]), config.Default(config.Hardened)); len(actions) != 1 || len(problems) > 0 {
		t.Errorf("the example of docs/actions.md defines %d actions: %v", len(actions), problems)
	}
}

func TestQueuesListsDeathsAndMessages(t *testing.T) {
	p := readPage(t, "docs/queues.md")
	var deaths, types []string
	for r := broker.DeathExpired; r <= broker.DeathDeliveryLimit; r++ {
		deaths = append(deaths, r.String())
	}
	compareLists(t, "reasons of x-death", p.tableOf(t, "x-death reason").columnCells(0), deaths)
	for m := broker.ExecutionRequested; int(m) < broker.Types; m++ {
		types = append(types, m.String())
	}
	messages := p.tableOf(t, "Type", "key")
	compareLists(t, "types of messages", messages.columnCells(0), types)
	keys := []string{broker.KeyRequested, broker.KeyStatusChanged, broker.KeyCompleted, forAnyWorker(broker.DispatchKey(someWorker)), forAnyWorker(broker.CancelKey(someWorker)), "its own"}
	compareLists(t, "routing keys", messages.columnCells(1), keys)
}

// The page lists all parts that the executor starts, by their names in metrics and goroutine dumps.
func TestExecutorListsParts(t *testing.T) {
	p := readPage(t, "docs/executor.md")
	started := map[string]bool{}
	for _, f := range parseGo(t, "core/executor") {
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if method, ok := call.Fun.(*ast.SelectorExpr); ok && (method.Sel.Name == "Go" || method.Sel.Name == "runEvery") {
					for _, argument := range call.Args {
						if name, ok := stringLiteral(argument); ok && name != "probe" {
							started[name] = true
						}
					}
				}
			}
			return true
		})
	}
	var parts []string
	for name := range started {
		parts = append(parts, name)
	}
	compareLists(t, "parts of the executor", p.tableOf(t, "Part").columnCells(0), parts)
}

// units replaces Go's units of time and size in a constant's expression by readable ones.
var units = []struct {
	expression *regexp.Regexp
	unit       string
}{
	{regexp.MustCompile(`^time\.(\w)\w+$`), "1 * time.$1"},
	{regexp.MustCompile(`^(\d+) \* time\.Millisecond$`), "$1 ms"},
	{regexp.MustCompile(`^(\d+) \* time\.S(econd)?$`), "$1 s"},
	{regexp.MustCompile(`^(\d+) \* time\.M(inute)?$`), "$1 min"},
	{regexp.MustCompile(`^(\d+) \* time\.H(our)?$`), "$1 h"},
	{regexp.MustCompile(`^(\d+) << 10$`), "$1 Ki"},
	{regexp.MustCompile(`^(\d+) << 20$`), "$1 Mi"},
	{regexp.MustCompile(`^(\d+)_(\d{3})$`), "$1,$2"},
}

// Each row of the table of fixed numbers names a constant and its value.
func TestContractHasValuesOfConstants(t *testing.T) {
	p := readPage(t, "docs/contract.md")
	for _, row := range p.tableOf(t, "What", "value", "constant").rows {
		at := strings.LastIndexByte(row[2], '.')
		value := constantValue(t, row[2][:at], row[2][at+1:])
		for _, u := range units {
			value = u.expression.ReplaceAllString(value, u.unit)
		}
		if value != row[1] {
			t.Errorf("docs/contract.md has %s as %s, want %s", row[2], row[1], value)
		}
	}
}

// constantValue returns the expression by which a package's code defines a constant.
func constantValue(t *testing.T, directory, name string) (value string) {
	t.Helper()
	for _, f := range parseGo(t, directory) {
		if f.Name.Name != filepath.Base(directory) && f.Name.Name != "main" {
			continue // a package below
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok {
				for i, n := range spec.Names {
					if n.Name == name && i < len(spec.Values) {
						var b bytes.Buffer
						if err := printer.Fprint(&b, token.NewFileSet(), spec.Values[i]); err != nil {
							t.Fatal(err)
						}
						value = b.String()
					}
				}
			}
			return true
		})
	}
	return value
}
