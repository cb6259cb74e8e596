package oracle_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// The oracle's table of exit codes must equal the table in docs/actions.md.
func TestExitCodesMatchDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/actions.md")
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[int]string)
	first := make(map[string]int)
	for _, row := range regexp.MustCompile("(?m)^\\| (\\d+) \\| [^|]+ \\| `(\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		code, _ := strconv.Atoi(row[1])
		names[code] = row[2]
		if first[row[2]] == 0 {
			first[row[2]] = code
		}
	}
	if len(names) == 0 {
		t.Fatal("the page has no table")
	}
	for code := 1; code <= oracle.MostExitCode; code++ {
		name := names[code]
		if name == "" {
			name = "unknown"
		}
		if got := oracle.ReasonOf(code, []int{code + 1}); got.String() != name {
			t.Errorf("exit code %d means %v, the page says %s", code, got, name)
		}
		if name != "connection" {
			name = "transient"
		}
		if got := oracle.ReasonOf(code, []int{7, code}); got.String() != name {
			t.Errorf("exit code %d of an action that declares it means %v, the page says %s", code, got, name)
		}
	}
	for r, name := range oracle.ReasonNames() {
		if got := oracle.ExitCodeOf(execution.Reason(r)); got != first[name] {
			t.Errorf("the exit code of %q is %d, on the page it is %d", name, got, first[name])
		}
	}
}

func TestWrongMessageChecksRetryLine(t *testing.T) {
	const (
		coded   = "exit status 1: oops\nNot retried, with 2 of 3 retries left, because exit code 1 is not retried. If a later attempt may succeed, declare retried_exit_codes: [1] in the action (docs/actions.md, What is retried)."
		worded  = "no\nNot retried, with 3 of 3 retries left, because the reason is rejected, which is never retried (docs/actions.md, What is retried)."
		unknown = "Not retried, with 3 of 3 retries left, because the reason is unknown, and only what an action reports as a failure for now is retried, for example exit code 75 (docs/actions.md, What is retried)."
	)
	for _, c := range []struct {
		message     string
		reason      execution.Reason
		code        int
		retry, most int64
		want        string
	}{
		{coded, execution.Unknown, 1, 1, 3, ""},
		{worded, execution.Rejected, 0, 0, 3, ""},
		{unknown, execution.Unknown, 0, 0, 3, ""},
		{"exit status 1: oops", execution.Transient, 1, 0, 3, ""},
		{"exit status 1", execution.Unknown, 1, 3, 3, ""},
		{"", execution.Unknown, 0, 0, 0, ""},
		{coded, execution.Transient, 1, 1, 3, "says that no retry follows"},
		{coded, execution.Unknown, 1, 3, 3, "says that no retry follows"},
		{coded, execution.Unknown, 1, 0, 3, "3 of 3"},
		{coded, execution.Unknown, 1, 1, 4, "3 of 4"},
		{"exit status 1: oops", execution.Unknown, 1, 1, 3, "2 of 3"},
		{coded, execution.Unknown, 0, 1, 3, "the reason is unknown"},
		{strings.ReplaceAll(coded, "status 1", "status 2"), execution.Unknown, 2, 1, 3, "exit code 2"},
		{strings.ReplaceAll(coded, "[1]", "[2]"), execution.Unknown, 1, 1, 3, "retried_exit_codes: [1]"},
		{strings.ReplaceAll(coded, "status 1", "status 12"), execution.Unknown, 1, 1, 3, "does not begin with exit status 1"},
		{strings.SplitN(coded, "\n", 2)[1], execution.Unknown, 1, 1, 3, "does not begin with exit status 1"},
		{worded, execution.Validation, 0, 0, 3, "validation"},
		{strings.SplitN(worded, "\n", 2)[1], execution.Rejected, 0, 0, 3, "the action's own text"},
		{"", execution.Rejected, 0, 3, 3, "the action's own text"},
		{strings.ReplaceAll(unknown, "75", "1"), execution.Unknown, 0, 0, 3, "exit code 75"},
		{"\n" + unknown, execution.Unknown, 0, 0, 3, "empty line"},
	} {
		got := oracle.WrongMessage(c.message, c.reason, c.code, c.retry, c.most)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q of %v with exit code %d, retry %d of %d: %q, want %q", c.message, c.reason, c.code, c.retry, c.most, got, c.want)
		}
	}
}
