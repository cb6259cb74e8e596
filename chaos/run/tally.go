package run

import (
	"strings"
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// tally collects the figures for a scenario's expectations. It implements history.Sink.
type tally struct {
	wanted []string
	texts  map[string]int
	// Completions before the first fault began, and since the last fault began or ended.
	struck        bool
	before, after int
	// detection is the duration of the slowest detection of each kind; renewed and scheduled are
	// their starting points.
	detection map[string]time.Duration
	renewed   map[execution.Incarnation]time.Duration
	scheduled dense.Table[execution.ID, time.Duration]
	// last is the moment of each execution's last transition; names are the workers' names.
	last  dense.Table[execution.ID, moment]
	names map[execution.WorkerID]string
	// asked has the first executions of the chains that a client asked to cancel.
	asked map[execution.ID]bool
}

// newTally returns a tally that looks for these error texts.
func newTally(texts []string) *tally {
	return &tally{
		wanted: texts, texts: make(map[string]int), detection: make(map[string]time.Duration),
		renewed: make(map[execution.Incarnation]time.Duration), names: make(map[execution.WorkerID]string),
		asked: make(map[execution.ID]bool),
	}
}

// Observe implements history.Sink.
func (t *tally) Observe(e *history.Event) {
	switch e.Kind {
	case history.FaultBegan, history.FaultEnded:
		t.struck, t.after = true, 0
	case history.WorkerRegistered:
		t.renewed[e.Incarnation] = e.At
		t.names[e.Worker] = e.Process
	case history.HeartbeatRenewed:
		t.renewed[e.Incarnation] = e.At
	case history.WorkerLifecycle:
		if at, known := t.renewed[e.Incarnation]; known && e.Lifecycle == execution.Lost {
			t.detected(LostWorker, e.At-at)
		}
	case history.CancelRequested:
		t.asked[e.Chain] = true
	case history.Orchestrated:
		t.detected(Ended, e.Due)
	case history.Transition:
		t.last.Set(e.Execution, moment{e.At, e.Step})
		t.dispatch(e)
		if e.To == execution.Completed {
			if t.struck {
				t.after++
			} else {
				t.before++
			}
		}
		if e.To == execution.Failed && e.Text != "" {
			for _, text := range t.wanted {
				if strings.Contains(e.Text, text) {
					t.texts[text]++
				}
			}
		}
	default:
	}
}

// The kinds of detection that are timed: from a worker's last heartbeat to its loss, from a
// dispatch to its take-back, and from the end of an execution to the handling of that end.
const (
	LostWorker = "lost worker"
	Unclaimed  = "unclaimed"
	Ended      = "ended"
)

func (t *tally) detected(what string, took time.Duration) {
	t.detection[what] = max(t.detection[what], took)
}

// dispatch times dispatches that are not claimed.
func (t *tally) dispatch(e *history.Event) {
	if e.To == execution.Scheduled {
		t.scheduled.Set(e.Execution, e.At)
		return
	}
	if e.From != execution.Scheduled {
		return
	}
	if e.By != execution.Worker && (e.To == execution.Requested || e.To == execution.Failed) {
		t.detected(Unclaimed, e.At-t.scheduled.Get(e.Execution))
	}
	t.scheduled.Delete(e.Execution)
}

// fill writes the figures into a run.
func (t *tally) fill(r *verdict.Run) {
	r.Texts, r.CompletedBefore, r.CompletedAfter, r.Detection = t.texts, t.before, t.after, t.detection
}
