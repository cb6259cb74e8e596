// Package run is what both worlds share of a run: when a fault's trigger has come, what is counted on
// the way, when the run ends at the latest, and what the scenario expects of it.
package run

import (
	"fmt"
	"strings"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/execution"
)

// Linger is how long everything has to stay quiet before a run ends: longer than any backoff of a
// writer that nobody but itself knows of.
const Linger = 15 * time.Second

// Horizon is when a run ends at the latest: the last moment at which something new can happen, and
// the time that the configuration implies for what is then still open.
func Horizon(s *scenario.Scenario, c config.Config) time.Duration {
	last := s.LastSubmission()
	longest, retries := time.Duration(0), 0
	for _, a := range s.Actions {
		longest = max(longest, a.TakesMax)
		retries = max(retries, a.MaxRetries)
	}
	for i := range s.Workload {
		retries = max(retries, s.Workload[i].Limits.MaxRetries)
	}
	settle := s.Settle
	if settle == 0 {
		settle = time.Duration(s.Generations()) * invariant.Settle(c, longest, retries)
	}
	for i := range s.Faults {
		f := &s.Faults[i]
		begin := f.When.Max
		if f.When.After != "" {
			// A trigger comes while there is work, at the latest when the workload is over.
			begin = s.LastSubmission() + settle/2 + f.When.Plus
		}
		last = max(last, begin+lasts(s, f, c))
	}
	return last + settle + Linger
}

// lasts bounds how long after its beginning a fault can still change something.
func lasts(s *scenario.Scenario, f *scenario.Fault, c config.Config) time.Duration {
	_, targets := s.Cluster.Names().Select(f.Spec.Strikes().Target)
	return f.Kind.Lasts(f.Spec, fault.Bounds{
		For: f.For, RestartAfter: f.RestartAfter, Targets: targets, Stop: c.Worker.ShutdownTimeout + invariant.BoundsOf(c).Slack,
	})
}

// Tally counts what a scenario's expectations ask for. It implements history.Sink.
type Tally struct {
	wanted []string
	texts  map[string]int
	// completions before the first fault began, and since the last one began or ended.
	struck        bool
	before, after int
	// detection is how long the slowest detections took; renewed and scheduled are what they count from.
	detection map[string]time.Duration
	renewed   map[execution.Incarnation]time.Duration
	scheduled map[execution.ID]time.Duration
}

// NewTally returns a tally that looks for these error texts.
func NewTally(texts []string) *Tally {
	return &Tally{
		wanted: texts, texts: make(map[string]int), detection: make(map[string]time.Duration),
		renewed: make(map[execution.Incarnation]time.Duration), scheduled: make(map[execution.ID]time.Duration),
	}
}

// Observe implements history.Sink.
func (t *Tally) Observe(e *history.Event) {
	switch e.Kind {
	case history.FaultBegan, history.FaultEnded:
		t.struck, t.after = true, 0
	case history.HeartbeatRenewed, history.WorkerRegistered:
		t.renewed[e.Incarnation] = e.At
	case history.WorkerLifecycle:
		if at, known := t.renewed[e.Incarnation]; known && e.Lifecycle == execution.Lost {
			t.detected(LostWorker, e.At-at)
		}
	case history.Orchestrated:
		t.detected(Ended, e.Due)
	case history.Transition:
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

// The kinds of detection that are timed: from a worker's last heartbeat to the moment at which it is marked lost,
// from a dispatch to its take-back, and from the end of an execution to the handling of it.
const (
	LostWorker = "lost worker"
	Unclaimed  = "unclaimed"
	Ended      = "ended"
)

func (t *Tally) detected(what string, took time.Duration) {
	t.detection[what] = max(t.detection[what], took)
}

// dispatch times what is scheduled and not claimed.
func (t *Tally) dispatch(e *history.Event) {
	if e.To == execution.Scheduled {
		t.scheduled[e.Execution] = e.At
		return
	}
	if e.From != execution.Scheduled {
		return
	}
	if e.By != execution.Worker && (e.To == execution.Requested || e.To == execution.Failed) {
		t.detected(Unclaimed, e.At-t.scheduled[e.Execution])
	}
	delete(t.scheduled, e.Execution)
}

// Fill writes what was counted into a run.
func (t *Tally) Fill(r *verdict.Run) {
	r.Texts, r.CompletedBefore, r.CompletedAfter, r.Detection = t.texts, t.before, t.after, t.detection
}

// Judge adds the findings of the invariants to a run, and what its rows, each as the run left it, say of
// the scenario's expectations.
func Judge(r *verdict.Run, s *scenario.Scenario, findings []invariant.Finding, rows []execution.Execution, accepted bool) {
	for _, f := range findings {
		r.Violations = append(r.Violations, verdict.Violation{
			Invariant: f.Invariant.Number, Name: f.Invariant.Name, Statement: f.Invariant.Statement, Seed: r.Seed,
			Execution: f.Execution, Step: f.Step, At: f.At, Message: f.Message,
		})
	}
	count(r, rows)
	if accepted {
		acceptance(r, s)
	}
	expectations(r, s.Expect(r.Profile))
}

// count counts rows by status and chains by their last status.
func count(r *verdict.Run, rows []execution.Execution) {
	last := make(map[execution.ID]*execution.Execution)
	for i := range rows {
		row := &rows[i]
		r.Rows[ended(row.Status)]++
		if best := last[row.Chain()]; best == nil || row.RetryCount > best.RetryCount {
			last[row.Chain()] = row
		}
	}
	for _, row := range last { //detlint:ok counting is the same in any order
		r.Chains[ended(row.Status)]++
	}
}

// ended is the status itself where it is terminal, else None: stuck.
func ended(s execution.Status) execution.Status {
	if s.Terminal() {
		return s
	}
	return execution.None
}

// acceptance demands that everything that was submitted was accepted in the end: a client tries until it
// is told so.
func acceptance(r *verdict.Run, s *scenario.Scenario) {
	var originals int64
	for _, n := range r.Chains {
		originals += n
	}
	if submitted := int64(s.Submissions()); originals != submitted {
		violate(r, "acceptance", "Everything that is submitted is accepted in the end, once.",
			fmt.Sprintf("%d executions were submitted and %d exist", submitted, originals))
	}
}

// expectations judges what the scenario expects of every run.
func expectations(r *verdict.Run, e scenario.Expect) {
	judge := func(what string, bounds []scenario.Bound, counts [execution.Statuses]int64) {
		var total int64
		for _, n := range counts {
			total += n
		}
		for _, b := range bounds {
			status := execution.None
			if b.Of != scenario.Stuck {
				status, _ = execution.ParseStatus(b.Of)
			}
			if n := counts[status]; !b.Holds(n, total) {
				violate(r, "expectation", "The scenario's own expectations hold.",
					fmt.Sprintf("%d of %d %s ended as %s; the scenario expects %s", n, total, what, b.Of, b.Source))
			}
		}
	}
	judge("executions", e.Executions, r.Chains)
	judge("rows", e.Rows, r.Rows)
}

func violate(r *verdict.Run, name, statement, message string) {
	r.Violations = append(r.Violations, verdict.Violation{
		Name: name, Statement: statement, Seed: r.Seed, Step: r.Steps, At: r.Virtual, Message: message,
	})
}
