package reports

import (
	"fmt"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/core/config/yamlfile"
	"handoff/core/execution"
)

func problem(name, message string, args ...any) field {
	return field{name, yamlfile.Problem{Message: fmt.Sprintf(message, args...)}}
}

// check validates the numbers and the lengths of the names of a line. Without a message, they are
// valid.
func (l *historyLine) check() field {
	const day = int64(24 * time.Hour)
	for _, n := range [...]struct {
		name            string
		is, least, most int64
	}{
		{"due_ns", l.Due, -2 * int64(maxMoment), 2 * int64(maxMoment)},
		{"run_timeout_ns", l.RunTimeout, 0, int64(maxMoment)},
		{"dispatch_timeout_ns", l.WaitTimeout, 0, int64(maxMoment)},
		{"execution", int64(l.Execution), 0, maxID},
		{"chain", int64(l.Chain), 0, maxID},
		{"related", int64(l.Related), 0, maxID},
		{"epoch", int64(l.Epoch), 0, maxID},
		{"old_epoch", int64(l.OldEpoch), 0, maxID},
		{"named", int64(l.Named), 0, maxID},
		{"worker", int64(l.Worker), 0, maxID},
		{"incarnation", int64(l.Incarnation), 0, maxID},
		{"writer", int64(l.Writer), 0, maxID},
		{"count", l.Count, -maxAmount, maxAmount},
		{"limit", l.Limit, -maxAmount, maxAmount},
	} {
		if n.is < n.least || n.is > n.most {
			return problem(n.name, "%d; must be from %d to %d", n.is, n.least, n.most)
		}
	}
	switch {
	case l.At == nil:
		return problem("at_ns", "is missing; every event says when it happened, in nanoseconds since the start of the run")
	case *l.At < int64(earliest) || *l.At > int64(maxMoment):
		return problem("at_ns", "%d; must be from %d (a day before the start) to %d (%d days after it)", *l.At, int64(earliest), int64(maxMoment), int64(maxMoment)/day)
	}
	most := maxName
	if l.Kind == history.FaultBegan.String() || l.Kind == history.FaultEnded.String() {
		// Process of a fault's event is a list of targets.
		most = maxNames
	}
	for _, s := range [...]struct {
		name, is string
		most     int
	}{
		{"kind", l.Kind, maxName},
		{"from", l.From, maxName},
		{"to", l.To, maxName},
		{"by", l.By, maxName},
		{"reason", l.Reason, maxName},
		{"lifecycle", l.Lifecycle, maxName},
		{"type", l.Type, maxName},
		{"action", l.Action, maxName},
		{"key", l.Key, maxName},
		{"fault", l.Fault, maxName},
		{"process", l.Process, most},
		{"queue", l.Queue, most},
	} {
		if len(s.is) > s.most {
			return problem(s.name, "%d bytes; a name has at most %d", len(s.is), s.most)
		}
	}
	return field{}
}

// event is the inverse of lineOf, except for the fields that names parses.
func (l *historyLine) event() history.Event {
	return history.Event{
		At: time.Duration(*l.At), Step: l.Step,
		Execution: l.Execution, Chain: l.Chain, Related: l.Related, Epoch: l.Epoch, OldEpoch: l.OldEpoch, Named: l.Named,
		Worker: l.Worker, Incarnation: l.Incarnation, Writer: l.Writer,
		Message: l.Message, Count: l.Count, Limit: l.Limit, Due: time.Duration(l.Due), RunTimeout: time.Duration(l.RunTimeout), DispatchTimeout: time.Duration(l.WaitTimeout),
		Process: l.Process, Action: l.Action, Key: l.Key, Queue: l.Queue, Fault: l.Fault, Text: l.Text,
	}
}

// names parses the enumerations of a line. It parses all of them, and returns the first unknown
// one.
func (l *historyLine) names(e *history.Event) (unknown field) {
	note := func(bad field) {
		if unknown.Message == "" {
			unknown = bad
		}
	}
	var err error
	// Every event has a kind, so the empty name goes to the parser too.
	if e.Kind, err = history.ParseKind(l.Kind); err != nil {
		note(unknownName("kind", l.Kind, kindNames()))
	}
	note(parseName("from", l.From, execution.ParseStatus, &e.From, statusNames))
	note(parseName("to", l.To, execution.ParseStatus, &e.To, statusNames))
	note(parseName("by", l.By, execution.ParsePart, &e.By, partNames))
	note(parseName("reason", l.Reason, execution.ParseReason, &e.Reason, execution.Reasons))
	note(parseName("lifecycle", l.Lifecycle, execution.ParseLifecycle, &e.Lifecycle, lifecycleNames))
	note(parseName("type", l.Type, parseMessageType, &e.Type, typeNames))
	return unknown
}

func unknownName(name, value string, allowed []string) field {
	return field{name, yamlfile.Problem{
		Message: fmt.Sprintf("unknown name %q", clip(value)), Allowed: allowed, Nearest: yamlfile.Nearest(clip(value), allowed),
	}}
}

// parseName parses one enumeration; a missing field keeps its zero value.
func parseName[T any](name, value string, parse func(string) (T, error), into *T, allowed func() []string) field {
	if value == "" {
		return field{}
	}
	v, err := parse(value)
	if err == nil {
		*into = v
		return field{}
	}
	return unknownName(name, value, allowed())
}

// intern keeps one copy of each name, as long as there are few.
func (h *HistoryReader) intern(e *history.Event) {
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

// amounts limits the number of different things in a history, because each is kept in memory to the
// end.
func (h *HistoryReader) amounts(e *history.Event) field {
	count := func(into map[string]bool, name, what, value string) field {
		if value != "" && !into[value] {
			if len(into) == maxDistinct {
				return problem(name, "more than %d different %s", maxDistinct, what)
			}
			into[value] = true
		}
		return field{}
	}
	switch e.Kind {
	case history.FaultBegan, history.FaultEnded:
		for name := range strings.SplitSeq(e.Process, ",") {
			if bad := count(h.processes, "process", "processes", name); bad.Message != "" {
				return bad
			}
		}
		return field{}
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
				return problem("incarnation", "more than %d different incarnations of workers", maxDistinct)
			}
			h.incarnations[e.Incarnation] = true
		}
	case history.ClockStepped:
		if h.skew += e.Due; h.skew < -maxMoment || h.skew > maxMoment {
			return problem("due_ns", "the steps of the database's clock add up to more than %d days", int64(maxMoment/(24*time.Hour)))
		}
	default:
	}
	return count(h.processes, "process", "processes", e.Process)
}

func kindNames() (names []string) {
	for k := history.NoKind + 1; int(k) < history.Kinds; k++ {
		names = append(names, k.String())
	}
	return names
}

func statusNames() (names []string) {
	for s := execution.Requested; int(s) < execution.Statuses; s++ {
		names = append(names, s.String())
	}
	return names
}

func partNames() (names []string) {
	for p := execution.NoPart + 1; int(p) < execution.Parts; p++ {
		names = append(names, p.String())
	}
	return names
}

func lifecycleNames() (names []string) {
	for l := execution.Starting; l <= execution.Lost; l++ {
		names = append(names, l.String())
	}
	return names
}

func typeNames() []string { return messageTypes[1:] }
