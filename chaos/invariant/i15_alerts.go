package invariant

import (
	"fmt"
	"slices"

	"handoff/chaos/history"
)

// AlertsNumber is the number of the invariant about alerts and figures.
const AlertsNumber = 15

// expectedAlerts returns invariant 15 (defects D26, D47, D59).
func expectedAlerts() *Invariant {
	i := &Invariant{
		Number: AlertsNumber, Name: "alerts",
		Statement: "Each alert that should fire does so and resolves. All others stay silent. The figures behind the alerts agree with the database, the broker and the history, and so do the figures of runs that workers send.",
		Needs:     []history.Kind{history.AlertFired, history.AlertResolved},
	}
	i.make = func(s *Suite) checker {
		return &alertChecker{i: i, s: s, fired: make(map[string]bool), firing: make(map[string]bool)}
	}
	return i
}

// Alerts names the alerts that must fire, that must resolve, and that must never fire in a scenario.
type Alerts struct {
	Fires, Resolves, Never []string
}

// Any reports whether the scenario has any expectation about alerts.
func (a Alerts) Any() bool { return len(a.Fires)+len(a.Resolves)+len(a.Never) > 0 }

// Reported adds the result of judging the figures that processes export: the first wrong figure, empty for
// none, and the number of comparisons. Only the simulated world knows the answers that each process got.
func (s *Suite) Reported(wrong string, compared uint64) {
	for _, c := range s.checkers {
		if a, ok := c.(*alertChecker); ok {
			s.occasions[a.i.Number-1] += compared
			a.wrong = wrong
		}
	}
}

// ExpectAlerts sets the expected alerts. Without it, or without events about alerts, alerts are not judged.
func (s *Suite) ExpectAlerts(a Alerts) { s.alerts = a }

type alertChecker struct {
	i *Invariant
	s *Suite
	// fired holds the alerts that have fired, and firing the alerts that are firing now.
	fired, firing map[string]bool
	// wrong describes the first wrong figure, empty for none.
	wrong string
}

// observedKinds implements selective.
func (a *alertChecker) observedKinds() []history.Kind {
	return []history.Kind{history.AlertFired, history.AlertResolved}
}

func (a *alertChecker) observeEvent(e *history.Event, _ *life) {
	switch e.Kind {
	case history.AlertFired:
		a.fired[e.Fault], a.firing[e.Fault] = true, true
		if slices.Contains(a.s.alerts.Never, e.Fault) {
			a.s.countOccasion(a.i)
			a.s.recordViolation(a.i, 0, "the alert %s fired, and nothing was wrong that it is about%s", e.Fault, playbookHint(e.Fault))
		}
	case history.AlertResolved:
		a.firing[e.Fault] = false
	default:
	}
}

func (a *alertChecker) endRun(bool) {
	if a.wrong != "" {
		defer a.s.recordViolation(a.i, 0, "a figure is wrong: %s", a.wrong)
	}
	for _, name := range a.s.alerts.Never {
		if !a.fired[name] {
			a.s.countOccasion(a.i)
		}
	}
	for _, name := range a.s.alerts.Fires {
		a.s.countOccasion(a.i)
		if !a.fired[name] {
			a.s.recordViolation(a.i, 0, "the alert %s never fired%s%s", name, a.firedAlerts(), playbookHint(name))
		}
	}
	for _, name := range a.s.alerts.Resolves {
		a.s.countOccasion(a.i)
		switch {
		case !a.fired[name]:
			a.s.recordViolation(a.i, 0, "the alert %s never fired, so nothing shows that it resolves%s%s", name, a.firedAlerts(), playbookHint(name))
		case a.firing[name]:
			a.s.recordViolation(a.i, 0, "the alert %s still fires at the end%s", name, playbookHint(name))
		}
	}
}

// playbookHint returns a reference to the alert's playbook, to be appended to a message.
func playbookHint(alert string) string { return "; see docs/playbooks/" + alert + ".md" }

// firedAlerts returns the names of the alerts that fired, as text.
func (a *alertChecker) firedAlerts() string {
	var names []string
	for name := range a.fired { //detlint:ok sorted below
		names = append(names, name)
	}
	if len(names) == 0 {
		return "; none did"
	}
	slices.Sort(names)
	return fmt.Sprintf("; these did: %v", names)
}
