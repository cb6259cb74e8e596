package invariant

import (
	"regexp"
	"strconv"

	"handoff/core/execution"
)

// numbered matches a worker's number in a message, with an incarnation that follows in brackets.
var numbered = regexp.MustCompile(`\bworker (\d+)\b( \((incarnation ))?`)

// NameWorkers adds the names of workers to their numbers in the messages of findings, because scenarios,
// queues and logs identify workers by name.
func NameWorkers(findings []Finding, names map[execution.WorkerID]string) {
	for i := range findings {
		f := &findings[i]
		f.Message = numbered.ReplaceAllStringFunc(f.Message, func(text string) string {
			m := numbered.FindStringSubmatch(text)
			id, _ := strconv.ParseInt(m[1], 10, 64)
			name := names[execution.WorkerID(id)]
			switch {
			case name == "":
				return text
			case m[2] == "":
				return text + " (" + name + ")"
			}
			return "worker " + m[1] + " (" + name + ", " + m[3]
		})
	}
}
