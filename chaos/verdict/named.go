package verdict

import (
	"fmt"
	"strings"

	"handoff/core/execution"
)

// mostNamed limits the number of executions that a sentence names.
const mostNamed = 5

// Named returns a list of executions for a sentence: up to mostNamed executions, and the number of the rest.
func Named(ids []execution.ID) string {
	if len(ids) == 1 {
		return fmt.Sprintf("execution %d", ids[0])
	}
	first := ids[:min(len(ids), mostNamed)]
	text := "executions " + strings.ReplaceAll(strings.Trim(fmt.Sprint(first), "[]"), " ", ", ")
	if more := len(ids) - len(first); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
