package reports

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
)

func newFieldProblem(name, message string, args ...any) fieldProblem {
	return fieldProblem{name, yamlfile.Problem{Message: fmt.Sprintf(message, args...)}}
}

// checkFields validates the numbers in a line and the lengths of its names. A result without a message means
// that they are valid.
func (h *historyLine) checkFields() fieldProblem {
	const day = int64(24 * time.Hour)
	for _, n := range [...]struct {
		name            string
		is, least, most int64
	}{
		{"due_ns", h.Due, -2 * int64(maxMoment), 2 * int64(maxMoment)},
		{"run_timeout_ns", h.RunTimeout, 0, int64(maxMoment)},
		{"dispatch_timeout_ns", h.WaitTimeout, 0, int64(maxMoment)},
		{"execution", int64(h.Execution), 0, maxID},
		{"chain", int64(h.Chain), 0, maxID},
		{"related", int64(h.Related), 0, maxID},
		{"epoch", int64(h.Epoch), 0, maxID},
		{"old_epoch", int64(h.OldEpoch), 0, maxID},
		{"named", int64(h.Named), 0, maxID},
		{"worker", int64(h.Worker), 0, maxID},
		{"incarnation", int64(h.Incarnation), 0, maxID},
		{"writer", int64(h.Writer), 0, maxID},
		{"count", h.Count, -maxAmount, maxAmount},
		{"limit", h.Limit, -maxAmount, maxAmount},
	} {
		if n.is < n.least || n.is > n.most {
			return newFieldProblem(n.name, "%d; must be from %d to %d", n.is, n.least, n.most)
		}
	}
	switch {
	case h.At == nil:
		return newFieldProblem("at_ns", "is missing; every event says when it happened, in nanoseconds since the start of the run")
	case *h.At < int64(earliest) || *h.At > int64(maxMoment):
		return newFieldProblem("at_ns", "%d; must be from %d (a day before the start) to %d (%d days after it)", *h.At, int64(earliest), int64(maxMoment), int64(maxMoment)/day)
	}
	most := maxName
	if h.Kind == history.FaultBegan.String() || h.Kind == history.FaultEnded.String() {
		// In a fault's event, Process is a list of targets.
		most = maxNames
	}
	for _, s := range [...]struct {
		name, is string
		most     int
	}{
		{"kind", h.Kind, maxName},
		{"from", h.From, maxName},
		{"to", h.To, maxName},
		{"by", h.By, maxName},
		{"reason", h.Reason, maxName},
		{"lifecycle", h.Lifecycle, maxName},
		{"type", h.Type, maxName},
		{"action", h.Action, maxName},
		{"key", h.Key, maxName},
		{"fault", h.Fault, maxName},
		{"process", h.Process, most},
		{"queue", h.Queue, most},
	} {
		if len(s.is) > s.most {
			return newFieldProblem(s.name, "%d bytes; a name has at most %d", len(s.is), s.most)
		}
	}
	return fieldProblem{}
}

// toEvent converts a line back to the event that lineOf wrote, without the fields that parseNames parses.
func (h *historyLine) toEvent() history.Event {
	return history.Event{
		At: time.Duration(*h.At), Step: h.Step,
		Execution: h.Execution, Chain: h.Chain, Related: h.Related, Epoch: h.Epoch, OldEpoch: h.OldEpoch, Named: h.Named,
		Worker: h.Worker, Incarnation: h.Incarnation, Writer: h.Writer,
		Message: h.Message, Count: h.Count, Limit: h.Limit, Due: time.Duration(h.Due), RunTimeout: time.Duration(h.RunTimeout), DispatchTimeout: time.Duration(h.WaitTimeout),
		Process: h.Process, Action: h.Action, Key: h.Key, Queue: h.Queue, Fault: h.Fault, Text: h.Text,
	}
}

// parseNames parses the enumerations of a line. It parses all of them, and returns the first unknown one.
func (h *historyLine) parseNames(e *history.Event) (unknown fieldProblem) {
	note := func(bad fieldProblem) {
		if unknown.Message == "" {
			unknown = bad
		}
	}
	// Every event has a kind, so a missing one is unknown too.
	note(parseName("kind", h.Kind, kindNames, &e.Kind))
	note(parseName("from", h.From, statusNames, &e.From))
	note(parseName("to", h.To, statusNames, &e.To))
	note(parseName("by", h.By, partNames, &e.By))
	note(parseName("reason", h.Reason, reasonNames, &e.Reason))
	note(parseName("lifecycle", h.Lifecycle, lifecycleNames, &e.Lifecycle))
	note(parseName("type", h.Type, messageTypes[:], &e.Type))
	return unknown
}

func unknownName(name, value string, allowed []string) fieldProblem {
	return fieldProblem{name, yamlfile.Problem{
		Message: fmt.Sprintf("unknown name %q", clipQuotation(value)), Allowed: allowed, Nearest: yamlfile.Nearest(clipQuotation(value), allowed),
	}}
}

// The names, in a history, of each enumeration's values. The zero values have none.
var ( //nolint:gochecknoglobals // constant lists
	kindNames      = namesOf(history.Kind(history.Kinds))
	statusNames    = namesOf(execution.Status(execution.Statuses))
	partNames      = namesOf(execution.Part(execution.Parts))
	reasonNames    = append([]string{""}, execution.Reasons()...)
	lifecycleNames = namesOf(execution.Lost + 1)
)

func namesOf[T interface {
	~uint8
	String() string
}](end T) []string {
	names := make([]string, end)
	for v := T(1); v < end; v++ {
		names[v] = v.String()
	}
	return names
}

// parseName parses one enumeration; a missing field keeps its zero value.
func parseName[T ~uint8](name, value string, names []string, into *T) fieldProblem {
	i := slices.Index(names, value)
	if i < 0 || i == 0 && name == "kind" {
		return unknownName(name, value, names[1:])
	}
	*into = T(i)
	return fieldProblem{}
}

// internNames keeps one copy of each name, up to maxDistinct names.
func (h *HistoryReader) internNames(e *history.Event) {
	for _, s := range [...]*string{&e.Process, &e.Action, &e.Queue, &e.Fault} {
		if *s == "" {
			continue
		}
		if known, there := h.names[*s]; there {
			*s = known
		} else if len(h.names) < maxDistinct {
			h.names[*s] = *s
		}
	}
}

// limitDistinct limits the number of distinct items in a history, because each is kept in memory to the end.
func (h *HistoryReader) limitDistinct(e *history.Event) fieldProblem {
	count := func(into map[string]bool, name, what, value string) fieldProblem {
		if value != "" && !into[value] {
			if len(into) == maxDistinct {
				return newFieldProblem(name, "more than %d different %s", maxDistinct, what)
			}
			into[value] = true
		}
		return fieldProblem{}
	}
	switch e.Kind {
	case history.FaultBegan, history.FaultEnded:
		for name := range strings.SplitSeq(e.Process, ",") {
			if bad := count(h.processes, "process", "processes", name); bad.Message != "" {
				return bad
			}
		}
		return fieldProblem{}
	case history.ActionDefined:
		if bad := count(h.actions, "action", "actions", e.Action); bad.Message != "" {
			return bad
		}
	case history.Created:
		if bad := count(h.actions, "action", "actions", e.Action); bad.Message != "" {
			return bad
		}
		if bad := count(h.runtimes, "text", "runtimes", e.Text); bad.Message != "" {
			return bad
		}
	case history.WorkerRegistered:
		if !h.incarnations[e.Incarnation] {
			if len(h.incarnations) == maxDistinct {
				return newFieldProblem("incarnation", "more than %d different incarnations of workers", maxDistinct)
			}
			h.incarnations[e.Incarnation] = true
		}
	case history.ClockStepped:
		if h.skew += e.Due; h.skew < -maxMoment || h.skew > maxMoment {
			return newFieldProblem("due_ns", "the steps of the database's clock add up to more than %d days", int64(maxMoment/(24*time.Hour)))
		}
	default:
	}
	return count(h.processes, "process", "processes", e.Process)
}
