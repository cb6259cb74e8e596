package verdict_test

import (
	"testing"

	"handoff/chaos/verdict"
	"handoff/core/execution"
)

func TestNamedTruncatesLongLists(t *testing.T) {
	for want, ids := range map[string][]execution.ID{
		"execution 7":                         {7},
		"executions 7, 9":                     {7, 9},
		"executions 1, 2, 3, 4, 5":            {1, 2, 3, 4, 5},
		"executions 1, 2, 3, 4, 5 and 2 more": {1, 2, 3, 4, 5, 6, 7},
	} {
		if got := verdict.Named(ids); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
