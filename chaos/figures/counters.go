package figures

import (
	"maps"
	"slices"
	"strings"

	"handoff/core/execution"
	"handoff/core/telemetry"
)

// knownLabels maps each judged counter to the number of its leading labels whose values follow from the
// history. Other counters, such as the passes of a loop, count events that the history doesn't contain.
var knownLabels = map[telemetry.Figure]int{
	telemetry.Transitions: 4, telemetry.Retries: 1, telemetry.RetriesEnded: 2, telemetry.Assignments: 0, telemetry.LeasesExpired: 0,
	telemetry.WorkerDowntime: 0,
	telemetry.Dispatches:     1, telemetry.Canaries: 0, telemetry.DeadLettered: 3, telemetry.DeadLetters: 1, telemetry.DeadLetterSeconds: 0,
	telemetry.Observed: 2,
}

const malformed = "malformed" // outcome of an unreadable message

// Labels with which an observing prober counts the workers that it would mark (un)reachable.
const (
	prober      = "health_prober"
	reachable   = "reachable"
	unreachable = "unreachable"
)

// unhandled is the outcome of a dead letter that the executor gave up on.
const unhandled = "unhandled"

// recordCount adds to a process's own count, under the labels that follow from the history.
func (p *process) recordCount(f telemetry.Figure, n int64, l telemetry.Labels) {
	labels, judged := knownLabels[f]
	if !judged {
		return
	}
	if f == telemetry.Dispatches && l[0] != "confirmed" && l[0] != "returned" && l[0] != "refused" {
		return // the history lacks second attempts and the outcome of unanswered dispatches
	}
	if f == telemetry.DeadLetters && l[1] == malformed {
		// Every malformed letter is settled in the same way, whatever its queue.
		l, labels = telemetry.Labels{"", malformed}, len(l)
	}
	for i := labels; i < len(l); i++ {
		l[i] = ""
	}
	p.counted[series{f, l}] += n
}

// hasUnknownSteps reports whether the process may have made calls that change the counter, with an unknown
// outcome.
func (p *process) hasUnknownSteps(of series) bool {
	for _, step := range stepsChanging(of) {
		if p.open[step] > 0 {
			return true
		}
	}
	return p.crashed && len(stepsChanging(of)) == 0
}

// stepsChanging returns the kinds of database calls that may change a counter.
func stepsChanging(of series) []string {
	from, to, by := of.labels[0], of.labels[1], of.labels[2]
	switch of.figure {
	case telemetry.Retries:
		return []string{"orchestrate"}
	case telemetry.RetriesEnded:
		return []string{"reclaim", "park", "cancel", "finish", "heartbeat", "orchestrate", "settle children"}
	case telemetry.Assignments:
		return []string{"dispatch", "dispatch what is due"}
	case telemetry.LeasesExpired, telemetry.WorkerDowntime:
		return []string{"reap"}
	case telemetry.Observed:
		return []string{"observe"}
	case telemetry.Transitions:
	default:
		return nil
	}
	is := func(text string, part execution.Part) bool { return text == part.String() }
	switch {
	case is(by, execution.API):
		return []string{"create", "cancel"}
	case is(by, execution.ExecutionManager):
		return []string{"create", "orchestrate", "settle children"}
	case is(by, execution.RetryManager):
		return []string{"orchestrate"}
	case to == execution.Scheduling.String():
		return []string{"claim for scheduling", "dispatch what is due"}
	case to == execution.Scheduled.String():
		return []string{"dispatch", "dispatch what is due"}
	case from == execution.Scheduling.String() && is(by, execution.Scheduler):
		return []string{"park"}
	case !is(by, execution.Worker):
		return []string{"reclaim"}
	case to == execution.Running.String():
		return []string{"claim"}
	case to == execution.Requested.String():
		return []string{"release"}
	}
	return []string{"finish", "heartbeat"}
}

// judgeCounters compares a process's counters with what the process did according to the history.
func (j *Judge) judgeCounters(p *process) {
	all := maps.Clone(p.happened)
	maps.Copy(all, p.counted)
	for _, of := range slices.SortedFunc(maps.Keys(all), compareSeries) {
		counted, happened := p.counted[of], p.happened[of]
		if counted < happened && p.hasUnknownSteps(of) {
			continue
		}
		j.judged++
		if counted != happened {
			j.recordViolation("%s has counted %d of %s, and by the history there were %d", p.name, counted, j.seriesText(of), happened)
		}
	}
}

func compareSeries(a, b series) int {
	if a.figure != b.figure {
		return int(a.figure) - int(b.figure)
	}
	return slices.CompareFunc(a.labels[:], b.labels[:], strings.Compare)
}
