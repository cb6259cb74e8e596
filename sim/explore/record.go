package explore

import (
	"context"
	"slices"
	"strings"

	"handoff/chaos/history"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/core/execution"
	"handoff/sim"
)

// events is a sink that keeps every event.
type events []history.Event

// Observe implements history.Sink.
func (ev *events) Observe(e *history.Event) { *ev = append(*ev, *e) }

// Record runs one seed and keeps every event, the causes of its violations and the command that repeats it.
// When ctx ends, it stops the run, and the result is marked as interrupted.
func Record(ctx context.Context, t Target, seed uint64, f *mutant.Mutant) (*verdict.Record, *sim.Result) {
	return recordRun(t, sim.Options{Seed: seed, Mutant: f, Interrupted: interruptOn(ctx)})
}

// interruptOn returns a sim.Options.Interrupted that returns true once ctx has ended.
func interruptOn(ctx context.Context) func() bool { return func() bool { return ctx.Err() != nil } }

func recordRun(t Target, o sim.Options) (*verdict.Record, *sim.Result) {
	var kept events
	noted := sim.NewCauses(&kept)
	o.Record = noted
	r := runOnce(t, o)
	rec := &verdict.Record{Run: r.Run, Events: kept, Parents: noted.Parents(), Workers: r.Workers(), FaultIntervals: r.FaultIntervals}
	if plain, _, err := t.Plain(o.Seed); err == nil {
		rec.ScenarioText = plain.Scenario.Text()
	}
	rec.Violations = slices.Clone(r.Failures())
	for i := range rec.Violations {
		v := &rec.Violations[i]
		v.Causes, v.Past = Causes(rec, v)
		v.Reproduce, v.Varied = t.Reproduce(o.Seed, o.Mutant), rec.Varied
	}
	return rec, r
}

// Causes returns the main events that led to a violation, oldest first, and the number of all events that led
// to it.
func Causes(r *verdict.Record, v *verdict.Violation) (found []history.Event, past int) {
	causes := r.FindCauses(v)
	for _, i := range causes.Events {
		found = append(found, r.Events[i])
	}
	return found, causes.Past
}

// chainOf returns the first row of an execution's chain.
func chainOf(r *verdict.Record, id execution.ID) execution.ID {
	for i := range r.Events {
		if e := &r.Events[i]; e.Execution == id && e.Chain != 0 {
			return e.Chain
		}
	}
	return id
}

// Story returns a predicate for events that concern an execution: the rows of its chain, the processes that
// owned them, or a fault of one of these. For execution 0, it accepts every event except heartbeats, which
// would fill the history.
func Story(r *verdict.Record, id execution.ID) func(*history.Event) bool {
	if id == 0 {
		return func(e *history.Event) bool { return e.Kind != history.HeartbeatRenewed }
	}
	chain := chainOf(r, id)
	rows, involved := map[execution.ID]bool{id: true}, map[string]bool{}
	for i := range r.Events {
		if e := &r.Events[i]; e.Chain == chain {
			rows[e.Execution] = true
			if name := r.Workers[e.Worker]; name != "" {
				involved[name] = true
			}
		}
	}
	return func(e *history.Event) bool {
		switch {
		case e.Execution != 0:
			return rows[e.Execution]
		case e.Kind == history.Logged:
			// A warning logged by the execution's worker may explain its end, unless it names another
			// execution.
			return mentionsExecution(e.Text, rows) || involved[e.Process] && isWarning(e.Text) && !strings.Contains(e.Text, " execution=")
		case e.Kind == history.MutantActed:
			return true
		case e.Kind == history.FaultBegan, e.Kind == history.FaultEnded, e.Kind == history.FaultTouched:
			return affectsProcess(e.Fault, involved)
		case e.Kind == history.WorkerRegistered, e.Kind == history.WorkerLifecycle:
			return involved[r.Workers[e.Worker]]
		case e.Kind >= history.ProcessStarted && e.Kind <= history.ProcessThawed:
			return involved[e.Process]
		case e.Kind >= history.DatabaseDown && e.Kind <= history.BrokerUp:
			return true
		}
		return false
	}
}

// isWarning reports whether a log line is a warning or an error.
func isWarning(line string) bool {
	return strings.HasPrefix(line, "WARN ") || strings.HasPrefix(line, "ERROR ")
}

// mentionsExecution reports whether a log line names one of the executions.
func mentionsExecution(line string, rows map[execution.ID]bool) bool {
	for _, field := range strings.Fields(line) {
		key, value, found := strings.Cut(field, "=")
		if found && key == "execution" && rows[parseID(value)] {
			return true
		}
	}
	return false
}

func parseID(digits string) execution.ID {
	var id execution.ID
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0
		}
		id = 10*id + execution.ID(d-'0')
	}
	return id
}

// affectsProcess reports whether a fault may, judging by its name, affect one of the processes.
func affectsProcess(fault string, involved map[string]bool) bool {
	words := strings.FieldsFunc(fault, func(r rune) bool { return r == ' ' || r == ',' })
	return slices.ContainsFunc(words, func(w string) bool {
		return involved[w] || w == "worker" || w == "workers" || w == "broker" || w == "database"
	})
}
