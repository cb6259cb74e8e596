package docs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/worker"
)

// What the page for authors of actions says is what a worker does.
func TestTheActionsPageHasEveryExitCodeAndEveryKey(t *testing.T) {
	data, err := os.ReadFile("actions.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	var want strings.Builder
	want.WriteString("<!-- exit codes -->\n| exit code | name | reason | what it says |\n|---|---|---|---|\n")
	for _, c := range worker.ExitCodes() {
		fmt.Fprintf(&want, "| %d | %s | `%v` | %s |\n", c.Code, c.Name, c.Reason, c.About)
	}
	if !strings.Contains(page, want.String()+"\n") {
		t.Errorf("the page lacks the table\n%s", want.String())
	}
	for _, key := range config.ActionKeys() {
		if !strings.Contains(page, "| `"+key+"`") {
			t.Errorf("the page does not explain the key %s", key)
		}
	}
	_, example, _ := strings.Cut(page, "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	if actions, problems := config.ParseActions("actions.md", []byte(example), config.Default(config.Hardened)); len(actions) != 1 || len(problems) > 0 {
		t.Errorf("the example defines %d actions: %v", len(actions), problems)
	}
	_, types, _ := strings.Cut(page, "The type is one of")
	types, _, _ = strings.Cut(types, "Any other type")
	for _, name := range execution.Reasons() {
		r, err := execution.ParseReason(name)
		if err != nil {
			t.Fatal(err)
		}
		if listed := strings.Contains(types, "`"+name+"`"); listed != (r.OfAction() && r != execution.Unknown) {
			t.Errorf("the page lists the type %s: %v", name, listed)
		}
	}
}
