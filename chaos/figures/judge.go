// Package figures judges what executors and workers report about themselves: every gauge must equal the
// latest answer of the database or the broker, and every counter must equal the events in the history.
//
// A [Judge] sits between the world and the core. It gives the core a store, a broker and a recorder that
// record each call, answer and report, and it observes the history. The truth comes from the world: the
// answers of its database and broker, and its events. Nothing of the core computes it.
//
// Judges skip what can't be known, by process and kind of step: a step with an unknown outcome may have
// happened without being counted. A counter must never exceed the events in the history, whatever is unknown.
package figures

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/telemetry"
)

// Judge judges the figures that a run's processes report. It is not safe for concurrent use.
type Judge struct {
	config     config.Config
	thresholds *oracle.Thresholds
	now        func() time.Duration
	table      []telemetry.Info
	processes  map[string]*process
	// actions maps each execution to its action, and retries maps each retry to its reason.
	actions map[execution.ID]string
	retries map[execution.ID]execution.Reason
	wrong   string
	judged  uint64
}

// series is a figure with its labels.
type series struct {
	figure telemetry.Figure
	labels telemetry.Labels
}

// process holds the counts of the process with this name, across its restarts.
type process struct {
	name string
	// counted holds the reported counts, and happened the counts that follow from the history. In both,
	// labels that don't follow from the history are empty.
	counted, happened map[series]int64
	// open counts, by kind, the database calls under way and those whose outcome the process never learned.
	open map[string]int
	// crashed reports whether the process was ever killed, so some of its counts may be lost.
	crashed bool
	current *Watch
}

// New returns a judge for a run that begins now. now returns the run's time.
func New(c config.Config, now func() time.Duration) *Judge {
	return &Judge{
		config: c, thresholds: oracle.NewThresholds(&c.Health), now: now, table: telemetry.Table(), processes: make(map[string]*process),
		actions: make(map[execution.ID]string), retries: make(map[execution.ID]execution.Reason),
	}
}

func (j *Judge) processNamed(name string) *process {
	p := j.processes[name]
	if p == nil {
		p = &process{name: name, counted: make(map[series]int64), happened: make(map[series]int64), open: make(map[string]int)}
		j.processes[name] = p
	}
	return p
}

// recordViolation records the first wrong figure.
func (j *Judge) recordViolation(format string, args ...any) {
	if j.wrong == "" {
		j.wrong = fmt.Sprintf(format, args...)
	}
}

// seriesText returns a series in Prometheus' notation.
func (j *Judge) seriesText(of series) string {
	info := j.table[of.figure]
	text := ""
	for i, label := range info.Labels {
		if text += ", "; of.labels[i] == "" {
			continue
		}
		text += label + "=" + of.labels[i]
	}
	return info.Name + "{" + text[min(2, len(text)):] + "}"
}

// End judges the figures that can only be judged at the end of the run. wrong describes the first wrong
// figure, empty for none; judged is the number of comparisons.
func (j *Judge) End() (wrong string, judged uint64) {
	for _, name := range slices.Sorted(maps.Keys(j.processes)) {
		p := j.processes[name]
		if p.current != nil {
			p.current.judgeFreshness()
		}
		j.judgeCounters(p)
	}
	return j.wrong, j.judged
}

// expectCount records an event that a process must count.
func (j *Judge) expectCount(process string, f telemetry.Figure, labels ...string) {
	var l telemetry.Labels
	copy(l[:], labels)
	j.processNamed(process).happened[series{f, l}]++
}

// Observe implements history.Sink.
func (j *Judge) Observe(e *history.Event) {
	switch e.Kind {
	case history.Created:
		j.actions[e.Execution] = e.Action
		if e.Count > 0 {
			j.retries[e.Execution] = e.Reason
		}
		j.expectCount(e.Process, telemetry.Transitions, "none", execution.Requested.String(), e.By.String(), e.Reason.String())
		if e.By == execution.RetryManager {
			j.expectCount(e.Process, telemetry.Retries, e.Reason.String())
		}
	case history.Transition:
		j.expectCount(e.Process, telemetry.Transitions, e.From.String(), e.To.String(), e.By.String(), e.Reason.String())
		if e.From == execution.Scheduling && e.To == execution.Scheduled {
			j.expectCount(e.Process, telemetry.Assignments)
		}
		if reason, retry := j.retries[e.Execution]; retry && oracle.Terminal(e.To) && e.Reason != execution.ParentFailed {
			j.expectCount(e.Process, telemetry.RetriesEnded, reason.String(), e.To.String())
		}
	case history.Observed:
		part, would := e.By.String(), e.To.String()
		if e.By != execution.TimeoutMonitor {
			part, would = prober, reachable
			if e.Count > 0 {
				would = unreachable
			}
		}
		j.expectCount(e.Process, telemetry.Observed, part, would)
	case history.WorkerLifecycle:
		if p := j.processes[e.Process]; e.Lifecycle == execution.Lost && p != nil && p.current != nil && p.current.samples {
			j.expectCount(e.Process, telemetry.LeasesExpired)
			j.expectCount(e.Process, telemetry.WorkerDowntime)
		}
	case history.ProcessCrashed:
		p := j.processNamed(e.Process)
		p.crashed, p.current = true, nil
	case history.ProcessStopped:
		j.processNamed(e.Process).current = nil
	case history.ProcessStopping:
		if w := j.processNamed(e.Process).current; w != nil {
			w.ending = true
		}
	case history.ProcessPaused, history.ProcessFrozen:
		if w := j.processNamed(e.Process).current; w != nil {
			w.fresh = -1
		}
	case history.ProcessResumed, history.ProcessThawed:
		if w := j.processNamed(e.Process).current; w != nil {
			w.fresh, w.hindered = e.At, e.At
		}
	default:
	}
}
