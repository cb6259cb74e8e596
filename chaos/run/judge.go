package run

import (
	"fmt"
	"time"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/oracle"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/chaos/verdict/discovery"
	"handoff/core/config"
	"handoff/core/execution"
)

// Judges turn the history of a run into a verdict. They implement history.Sink.
type Judges struct {
	// Suite judges the invariants. A world adds facts to it that only the world knows.
	Suite *invariant.Suite

	scenario *scenario.Scenario
	profile  config.Profile
	// waiting are the latest events, which only the suite has received so far. The other sinks are needed
	// only at the end. They receive many events at once, which keeps the code of the suite and of the run in
	// the processor's cache.
	waiting  [eventsAtOnce]history.Event
	waits    int
	hash     *history.Hasher
	probes   *verdict.Probes
	tally    *tally
	seen     *discovery.Collector
	accepted acceptanceLosses
}

// eventsAtOnce is the largest number of waiting events: eight kilobytes, a quarter of a processor's fastest
// cache.
const eventsAtOnce = 32

// NewJudges returns judges without events. c is the configuration of the run, scaled like the scenario.
// only lists the numbers of the invariants to judge, nil for all.
func NewJudges(s *scenario.Scenario, p config.Profile, c config.Config, only []int) *Judges {
	expected := s.Expect(p)
	j := &Judges{
		Suite: invariant.New(c, only), scenario: s, profile: p, hash: history.NewHasher(),
		probes: verdict.NewProbes(c.Executor.ReconcileInterval), tally: newTally(s, expected.Texts), seen: discovery.NewCollector(),
	}
	j.accepted.countRewinds(s)
	j.Suite.SetRequests(s.Requested)
	j.Suite.ExpectAlerts(invariant.Alerts(expected.Alerts))
	return j
}

// Observe implements history.Sink. It ignores the core's log lines, which are not evidence.
func (j *Judges) Observe(e *history.Event) {
	if e.Kind == history.Logged {
		return
	}
	j.Suite.Observe(e)
	j.waiting[j.waits] = *e
	if j.waits++; j.waits == eventsAtOnce {
		j.flushWaiting()
	}
}

// flushWaiting passes the waiting events to the other sinks.
func (j *Judges) flushWaiting() {
	events := j.waiting[:j.waits]
	j.waits = 0
	for _, sink := range [...]history.Sink{j.hash, j.probes, j.tally, &j.accepted, j.seen} {
		for i := range events {
			sink.Observe(&events[i])
		}
	}
}

// Events returns the number of observed events.
func (j *Judges) Events() uint64 {
	j.flushWaiting()
	return j.hash.Events()
}

// Ending is how a run ended.
type Ending uint8

// The ways in which a run ends.
const (
	// Settled: nothing was left to do.
	Settled Ending = iota
	// Unsettled: the run's time was over before it came to rest.
	Unsettled
	// Cut: the run was ended early, because an invariant was violated or it took more steps than allowed.
	// Findings so far count, but conditions for the end of a run are not judged.
	Cut
	// Unjudged: the run proves nothing about the invariants.
	Unjudged
)

// Outcome is what a world knows about a run that has ended.
type Outcome struct {
	Seed   uint64
	Mutant string
	Ending Ending
	// Panic and GaveUp are as in verdict.Run.
	Panic, GaveUp string
	Faults        []verdict.FaultCount
	Steps         uint64
	At            time.Duration
	// Rows are the executions at the end of the run.
	Rows []*execution.Execution
	// Workers are the names of the workers, for messages.
	Workers map[execution.WorkerID]string
	// Cut reports whether the run was ended early because it took more steps than allowed; its Ending is Cut.
	Cut bool
	// Abandoned reports whether the submitting process may have been killed, so that some submissions may
	// never have been accepted.
	Abandoned bool
}

// Verdict judges the observed run. Call it once, after the last event.
func (j *Judges) Verdict(o Outcome) verdict.Run {
	j.flushWaiting()
	r := verdict.Run{
		Scenario: j.scenario.Name, Profile: j.profile, Seed: o.Seed, Mutant: o.Mutant, Panic: o.Panic, GaveUp: o.GaveUp,
		Faults: o.Faults, Sometimes: j.probes.Hits(), Near: j.probes.Near(), Steps: o.Steps, Virtual: o.At, Hash: j.hash.Sum(), Cut: o.Cut,
		Situations: j.seen.Situations(),
	}
	j.tally.fillFigures(&r)
	switch o.Ending {
	case Unjudged:
	case Cut:
		j.judgeEnd(&r, j.Suite.Findings(), &o, false)
	case Settled, Unsettled:
		j.judgeEnd(&r, j.Suite.End(o.Ending == Settled), &o, !o.Abandoned)
	}
	if o.Ending == Unsettled && r.Panic == "" && r.GaveUp == "" && len(r.Violations) == 0 {
		r.GaveUp = fmt.Sprintf("after %v it had not come to rest", o.At.Round(time.Second))
	}
	r.Judged = j.Suite.Judged()
	return r
}

// judgeEnd adds the invariants' findings to a run, and judges the scenario's expectations by the rows at
// the end of the run.
func (j *Judges) judgeEnd(r *verdict.Run, findings []invariant.Finding, o *Outcome, accepted bool) {
	invariant.NameWorkers(findings, o.Workers)
	for _, f := range findings {
		r.Violations = append(r.Violations, Violation(&f, r.Seed))
	}
	all := o.Rows
	last := lastRows(all)
	r.Rows, r.Chains = statusCounts(all), statusCounts(last)
	if accepted {
		checkAcceptance(r, j.scenario, j.accepted.lost)
	}
	e := j.scenario.Expect(r.Profile)
	j.tally.judgeBounds(r, "executions", e.Executions, r.Chains, last)
	j.tally.judgeBounds(r, "rows", e.Rows, r.Rows, all)
}

// Violation converts a finding in a run with this seed to a violation.
func Violation(f *invariant.Finding, seed uint64) verdict.Violation {
	return verdict.Violation{
		Invariant: f.Invariant.Number, Name: f.Invariant.Name, Statement: f.Invariant.Statement, Seed: seed,
		Execution: f.Execution, Step: f.Step, At: f.At, Message: f.Message,
	}
}

// statusCounts counts rows by status.
func statusCounts(rows []*execution.Execution) (n [execution.Statuses]int64) {
	for _, row := range rows {
		n[terminalStatus(row.Status)]++
	}
	return n
}

// lastRows returns the last rows of the chains, in the order of the chains' first rows.
func lastRows(rows []*execution.Execution) (list []*execution.Execution) {
	list = make([]*execution.Execution, 0, len(rows))
	var last dense.Table[execution.ID, int]
	for _, row := range rows {
		at := last.At(row.Chain())
		switch {
		case at == nil:
			last.Set(row.Chain(), len(list))
			list = append(list, row)
		case row.RetryCount > list[*at].RetryCount:
			list[*at] = row
		}
	}
	return list
}

// terminalStatus returns a terminal status unchanged, and None (stuck) for any other.
func terminalStatus(s execution.Status) execution.Status {
	if oracle.Terminal(s) {
		return s
	}
	return execution.None
}

// acceptanceLosses counts accepted executions that were lost with the database's latest writes.
type acceptanceLosses struct {
	// at holds the acceptance times of executions that a later fault may still lose.
	at    []time.Duration
	fails int
	lost  int64
}

// countRewinds counts the faults that may lose accepted executions.
func (a *acceptanceLosses) countRewinds(s *scenario.Scenario) {
	for i := range s.Faults {
		if s.Faults[i].Kind.Rewinds() {
			a.fails++
		}
	}
}

// Observe implements history.Sink.
func (a *acceptanceLosses) Observe(e *history.Event) {
	switch {
	case a.fails == 0:
	case e.Kind == history.Created && e.Count == 0:
		a.at = append(a.at, e.At)
	case e.Kind == history.DatabaseRewound:
		for len(a.at) > 0 && a.at[len(a.at)-1] >= e.Due {
			a.at = a.at[:len(a.at)-1]
			a.lost++
		}
		if a.fails--; a.fails == 0 {
			a.at = nil
		}
	default:
	}
}

// checkAcceptance requires that every submission was accepted in the end, because clients retry until it is.
// lost is the number of accepted executions that the database may have lost.
func checkAcceptance(r *verdict.Run, s *scenario.Scenario, lost int64) {
	var originals int64
	for _, n := range r.Chains {
		originals += n
	}
	if submitted := int64(s.Submissions()); originals > submitted || originals+lost < submitted {
		addViolation(r, "acceptance", "Everything that is submitted is accepted in the end, once.",
			fmt.Sprintf("%d executions were submitted and %d exist", submitted, originals))
	}
}

// judgeBounds judges a list of the scenario's expectations by the counted rows.
func (t *tally) judgeBounds(r *verdict.Run, what string, bounds []scenario.Bound, counts [execution.Statuses]int64, rows []*execution.Execution) {
	total := int64(len(rows))
	for _, b := range bounds {
		of := execution.None
		if b.Of != scenario.Stuck {
			of, _ = execution.ParseStatus(b.Of)
		}
		if n := counts[of]; !b.Holds(n, total) {
			t.addUnmetBound(r, what, b, of, n, total, rows)
		}
	}
}

func addViolation(r *verdict.Run, name, statement, message string) {
	r.Violations = append(r.Violations, verdict.Violation{
		Name: name, Statement: statement, Seed: r.Seed, Step: r.Steps, At: r.Virtual, Message: message,
	})
}
