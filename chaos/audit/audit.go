// Package audit judges external histories, from a production database's audit table or a recorded file, with
// the same invariants that judge a simulated run.
//
// A database's audit is evidence, because triggers write it in the audited transactions. It is incomplete: it
// has no messages, leases or runs of actions. Some invariants that need those are judged in part (Rule.Part);
// the others are reported as not judged. Judge only reads the database, in one read-only transaction with a
// statement timeout. JudgeHistory reads no database. A program with the build tag simulator has only
// JudgeHistory, and no database driver.
package audit

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/core/config"
	"handoff/core/execution"
)

// Result is the outcome of judging a history.
type Result struct {
	// Executions and Events count the executions and events that were read.
	Executions, Events int
	// Open is the number of unfinished executions that are young enough to be unfinished.
	Open int
	// Rules has the judgement of every invariant, by number.
	Rules []Rule
	// Violations are the findings of the broken rules.
	Violations []invariant.Finding
	// Unread is the number of events that could not be read, because a newer program wrote them. Unknown has
	// the reasons for the first few. Aside is the number of executions that were not judged, because an event
	// could not be read or retention has deleted their first events.
	Unread  int
	Unknown []string
	Aside   int
	// Since is the time since which the audit is complete: retention has deleted earlier lines. It is the
	// zero time if nothing was deleted. Executions that were created before Since are not judged. Left is the
	// number of deleted executions that the audit still has lines about.
	Since time.Time
	Left  int
}

// Count returns the number of rules with an outcome.
func (r *Result) Count(of Outcome) (n int) {
	for i := range r.Rules {
		if r.Rules[i].Outcome == of {
			n++
		}
	}
	return n
}

// mostUnknown is the maximum length of Result.Unknown.
const mostUnknown = 5

// Outcome is the result for one invariant.
type Outcome string

// The outcomes. A rule holds only if something happened that could have broken it.
const (
	Holds     Outcome = "holds"
	Broken    Outcome = "broken"
	NotJudged Outcome = "not judged"
)

// Rule is the judgement of one invariant.
type Rule struct {
	Invariant *invariant.Invariant
	Outcome   Outcome
	// Occasions counts the occasions on which the rule was judged; see invariant.Suite.Judged.
	Occasions uint64
	// Why explains why the rule was not judged.
	Why string
	// Part describes which part of the rule was judged; empty for the whole rule.
	Part string
	// Never lists the recorded kinds of events that the rule needs but that never occurred.
	Never []history.Kind
}

// History describes a recorded history to be judged.
type History struct {
	// Config is the configuration of the recorded processes.
	Config config.Config
	// Unconfigured reports whether the configuration is unknown. Then rules whose bounds depend on it are not
	// judged.
	Unconfigured bool
	// Kinds are the kinds of events that the history records completely; nil for all.
	Kinds []history.Kind
	// Alerts holds the scenario's expectations of alerts. Without any, alerts were not evaluated.
	Alerts invariant.Alerts
	// Tolerance is passed to invariant.Suite.SetTolerance; 0 keeps the default.
	Tolerance time.Duration
}

// noFigures explains why invariant 15 is judged at most in part: detecting a wrong figure requires access to
// the reporting process.
const noFigures = "the figures that processes report are not in a history: chaos run and chaos replay judge them"

// JudgeHistory judges a recorded history. next reads the next event, and returns io.EOF after the last one.
// An event for which next returns a *history.UnknownWord is skipped, and its execution is not judged. The
// error comes from next or from ctx, which is checked before every event.
func JudgeHistory(ctx context.Context, next func(*history.Event) error, h History) (*Result, error) {
	j := newJudge(h, func(i *invariant.Invariant) string {
		switch {
		case h.Kinds != nil && missingKindsReason(i, h.Kinds) != "":
			return missingKindsReason(i, h.Kinds)
		case h.Unconfigured && !i.Unconfigured:
			return "its bounds follow from the configuration of the scenario, which is not known"
		case i.Number == invariant.AlertsNumber && !h.Alerts.Any():
			return "no expectation about alerts is known, and " + noFigures
		}
		return ""
	})
	if alerts := &j.r.Rules[invariant.AlertsNumber-1]; alerts.Why == "" {
		alerts.Part = "by the alerts that its scenario expects; " + noFigures
	}
	var e history.Event
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var unknown *history.UnknownWord
		switch err := next(&e); {
		case errors.Is(err, io.EOF):
			return j.finishJudgement(e.At), nil
		case errors.As(err, &unknown):
			j.setAside(&e, unknown)
		case err != nil:
			return nil, err
		default:
			j.observeEvent(&e)
		}
	}
}

// judge passes events to the invariants for which there is enough evidence. It stores no events.
type judge struct {
	r     *Result
	h     History
	suite *invariant.Suite
	last  history.Kind
	// seen holds the kinds of events that occurred.
	seen [history.Kinds]bool
}

// newJudge returns a judge that has read no events yet. lacks returns why the evidence is insufficient for an
// invariant, empty if it suffices.
func newJudge(h History, lacks func(*invariant.Invariant) string) *judge {
	r := new(Result)
	numbers := []int{} // nil would mean all kinds
	for _, i := range invariant.All() {
		rule := Rule{Invariant: i, Why: lacks(i)}
		if rule.Why == "" {
			numbers = append(numbers, i.Number)
			if i.InPart(h.Kinds) {
				rule.Part = i.Part
			}
		}
		r.Rules = append(r.Rules, rule)
	}
	suite := invariant.New(h.Config, numbers)
	suite.ExpectAlerts(h.Alerts)
	suite.SetEvidence(h.Kinds)
	if h.Tolerance > 0 {
		suite.SetTolerance(h.Tolerance)
	}
	return &judge{r: r, h: h, suite: suite}
}

func (j *judge) observeEvent(e *history.Event) {
	j.r.Events++
	j.last = e.Kind
	j.seen[e.Kind] = true
	if e.Kind == history.Created {
		j.r.Executions++
	}
	j.suite.Observe(e)
}

// setAside records an unreadable event.
func (j *judge) setAside(e *history.Event, why *history.UnknownWord) {
	j.r.Events++
	j.seen[e.Kind] = true
	if e.Kind == history.Created {
		j.r.Executions++
	}
	if j.r.Unread++; len(j.r.Unknown) < mostUnknown {
		j.r.Unknown = append(j.r.Unknown, why.Error())
	}
	j.suite.SetAside(e)
}

// finishJudgement judges rules that depend on the end of the history. now is the current time.
func (j *judge) finishJudgement(now time.Duration) *Result {
	settled := j.last == history.Quiescent
	if !settled {
		// Young executions may still be open.
		j.suite.SetPatience(invariant.Settle(j.h.Config, execution.DefaultTimeout, 0))
	}
	j.suite.Observe(&history.Event{Kind: history.Logged, At: now, Step: uint64(j.r.Events)})
	j.r.Violations = j.suite.End(settled)
	j.r.Open, j.r.Aside = j.suite.Open(), j.suite.Aside()
	occasions := j.suite.Judged()
	for n := range j.r.Rules {
		rule := &j.r.Rules[n]
		rule.Occasions = occasions[rule.Invariant.Number-1]
		j.setOutcome(rule)
	}
	return j.r
}

// setOutcome sets the outcome of a rule. A rule with a finding is broken. Any other was not judged if it could
// not be (Rule.Why, Suite.Blind), if it had no occasion, or if no event of the kinds that it needs occurred.
func (j *judge) setOutcome(rule *Rule) {
	i := rule.Invariant
	for _, kind := range i.Needs {
		if !j.seen[kind] {
			rule.Never = append(rule.Never, kind)
		}
	}
	switch {
	case slices.ContainsFunc(j.r.Violations, func(v invariant.Finding) bool { return v.Invariant == i }):
		rule.Outcome = Broken
		return
	case rule.Why != "":
	case j.suite.Blind(i):
		rule.Why = j.r.blindReason()
	case rule.Occasions > 0 && len(rule.Never) < len(i.Needs):
		rule.Outcome = Holds
		return
	case len(rule.Never) > 0:
		rule.Why = "nothing happened that it judges; of the kinds of events that it needs, " + joinKinds(rule.Never) + " never occurred"
	default:
		rule.Why = "nothing happened that it judges"
	}
	rule.Outcome, rule.Part, rule.Occasions = NotJudged, "", 0
}

// blindReason returns why a rule is blind (Suite.Blind): events that it needs are unreadable or deleted.
func (r *Result) blindReason() string {
	switch {
	case r.Since.IsZero():
		return "it needs events that could not be read"
	case r.Unread == 0:
		return "it needs events that retention has deleted"
	}
	return "it needs events that could not be read, or that retention has deleted"
}

// missingKindsReason names the kinds of events that an invariant needs but the history lacks; empty if there
// are none.
func missingKindsReason(i *invariant.Invariant, kinds []history.Kind) string {
	var lacks []history.Kind
	for _, kind := range i.Needs {
		if !slices.Contains(kinds, kind) {
			lacks = append(lacks, kind)
		}
	}
	if len(lacks) == 0 {
		return ""
	}
	return "the history has no " + joinKinds(lacks) + " events"
}

// joinKinds joins kinds of events to a phrase of a sentence.
func joinKinds(kinds []history.Kind) string {
	text := ""
	for i, kind := range kinds {
		switch {
		case i == 0:
		case i == len(kinds)-1:
			text += " and "
		default:
			text += ", "
		}
		text += kind.String()
	}
	return text
}
