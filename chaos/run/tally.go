package run

import (
	"strings"
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/execution"
)

// tally collects what a scenario's expectations are judged by. It implements history.Sink.
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
	// last is the time and step of each execution's last transition; names are the workers' names.
	last  dense.Table[execution.ID, moment]
	names map[execution.WorkerID]string
	// asked holds the first executions of the chains that a client asked to cancel.
	asked map[execution.ID]bool
	// idle are the workers that registered and were never active, by name.
	idle map[execution.WorkerID]string
	// poisoned is the first death of a message whose header stops the broker from creating queues; its kind
	// is NoKind if there was none.
	poisoned history.Event
	// actions are the scenario's actions, by their references.
	actions map[string]*scenario.Action
}

// newTally returns a tally for a run of s that counts failures with these error texts.
func newTally(s *scenario.Scenario, texts []string) *tally {
	t := &tally{
		wanted: texts, texts: make(map[string]int), detection: make(map[string]time.Duration),
		renewed: make(map[execution.Incarnation]time.Duration), names: make(map[execution.WorkerID]string),
		asked: make(map[execution.ID]bool), idle: make(map[execution.WorkerID]string), actions: make(map[string]*scenario.Action),
	}
	for i := range s.Actions {
		t.actions[s.Actions[i].Ref] = &s.Actions[i]
	}
	return t
}

// Observe implements history.Sink.
func (t *tally) Observe(e *history.Event) {
	switch e.Kind {
	case history.FaultBegan, history.FaultEnded:
		t.struck, t.after = true, 0
	case history.WorkerRegistered:
		t.renewed[e.Incarnation] = e.At
		if t.names[e.Worker] == "" {
			t.idle[e.Worker] = e.Process
		}
		t.names[e.Worker] = e.Process
	case history.HeartbeatRenewed:
		t.renewed[e.Incarnation] = e.At
	case history.Expired, history.Rejected, history.ReturnedTooOften:
		if e.Count > 0 && t.poisoned.Kind == history.NoKind {
			t.poisoned = *e
		}
	case history.WorkerLifecycle:
		if e.Lifecycle == execution.Active {
			delete(t.idle, e.Worker)
		}
		if at, known := t.renewed[e.Incarnation]; known && e.Lifecycle == execution.Lost {
			t.noteDetection(LostWorker, e.At-at)
		}
	case history.CancelRequested:
		t.asked[e.Chain] = true
	case history.Orchestrated:
		t.noteDetection(Ended, e.Due)
	case history.Transition:
		t.last.Set(e.Execution, moment{e.At, e.Step})
		t.timeDispatch(e)
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

// The detections that are timed: from a worker's last heartbeat to its loss, from a dispatch to its reclaim,
// and from an execution's end to the handling of that end.
const (
	LostWorker = "lost worker"
	Unclaimed  = "unclaimed"
	Ended      = "ended"
)

func (t *tally) noteDetection(what string, took time.Duration) {
	t.detection[what] = max(t.detection[what], took)
}

// timeDispatch measures how long unclaimed dispatches take to be reclaimed.
func (t *tally) timeDispatch(e *history.Event) {
	if e.To == execution.Scheduled {
		t.scheduled.Set(e.Execution, e.At)
		return
	}
	if e.From != execution.Scheduled {
		return
	}
	if e.By != execution.Worker && (e.To == execution.Requested || e.To == execution.Failed) {
		t.noteDetection(Unclaimed, e.At-t.scheduled.Get(e.Execution))
	}
	t.scheduled.Delete(e.Execution)
}

// fillFigures writes the collected counts and durations into a run.
func (t *tally) fillFigures(r *verdict.Run) {
	r.Texts, r.CompletedBefore, r.CompletedAfter, r.Detection = t.texts, t.before, t.after, t.detection
}
