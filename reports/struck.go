package reports

import (
	"fmt"
	"slices"
	"strings"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
)

// struckNames is the maximum number of targets that an interval's label names.
const struckNames = 3

// labelIntervals labels each fault interval with the fault and its targets, for example "kill one worker →
// shell-2". It does not repeat names in the fault's own name. A fault without evidence is marked, unless the
// history does not record evidence.
func (b *builder) labelIntervals(intervals []verdict.FaultInterval) []string {
	names := make([][]string, len(intervals))
	touched := make([]bool, len(intervals))
	for i := range b.r.Events {
		e := &b.r.Events[i]
		if e.Kind != history.FaultBegan && e.Kind != history.FaultTouched {
			continue
		}
		at := intervalOf(intervals, e)
		if at < 0 {
			continue
		}
		touched[at] = touched[at] || e.Kind == history.FaultTouched
		for _, name := range b.namesStruck(e) {
			if !slices.Contains(names[at], name) && !containsName(intervals[at].Fault, name) {
				names[at] = append(names[at], name)
			}
		}
	}
	evident := b.r.Kinds == nil || slices.Contains(b.r.Kinds, history.FaultTouched)
	labels := make([]string, len(intervals))
	for i := range intervals {
		labels[i] = intervals[i].Fault
		if list := names[i]; len(list) > 0 {
			labels[i] += " → " + strings.Join(list[:min(len(list), struckNames)], ", ")
			if more := len(list) - struckNames; more > 0 {
				labels[i] += fmt.Sprintf(" and %d more", more)
			}
		}
		if !touched[i] && evident {
			labels[i] += " (touched nothing)"
		}
	}
	return labels
}

// intervalOf returns the index of the interval to which a fault's event belongs: the fault's last one that
// has begun, because evidence may come after the end. It is -1 if there is none.
func intervalOf(intervals []verdict.FaultInterval, e *history.Event) int {
	at := -1
	for i := range intervals {
		if intervals[i].Fault == e.Fault && (at < 0 || intervals[i].Begin <= e.At && intervals[i].Begin >= intervals[at].Begin) {
			at = i
		}
	}
	return at
}

// namesStruck returns the fault's targets that an event names.
func (b *builder) namesStruck(e *history.Event) []string {
	switch {
	case e.Process != "":
		return strings.Split(e.Process, ",")
	case e.Kind == history.FaultBegan:
		return nil // its queue holds the other ends of a link, or the type of messages
	case e.Execution != 0:
		return []string{fmt.Sprintf("execution %d", e.Execution)}
	case e.Queue != "":
		return []string{b.t.describeQueue(e.Queue)}
	case e.Message != 0:
		return []string{b.t.describeMessage(e)}
	}
	return nil
}

// containsName reports whether a text contains a name as a whole word: "kill shell-12" does not contain
// "shell-1".
func containsName(text, name string) bool {
	part := func(r byte) bool {
		return r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	for from := 0; name != ""; {
		at := strings.Index(text[from:], name)
		if at < 0 {
			return false
		}
		at += from
		end := at + len(name)
		if (at == 0 || !part(text[at-1])) && (end == len(text) || !part(text[end])) {
			return true
		}
		from = at + 1
	}
	return false
}
