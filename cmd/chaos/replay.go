package main

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/core/execution"
	"handoff/reports"
	"handoff/sim"
	"handoff/sim/explore"
)

type replayFlags struct {
	runChoice
	execution int64
	from, to  uint64
}

func (a *app) replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay SCENARIO|FILE [--seed N]",
		Short: "Run one seed again and show what happens in it, event by event",
		Long: `Runs one seed and prints its history: every event with its step and virtual
time, the core's own log lines and each act of a planted mutant among them, and
every violation at the step at which it happened. With --execution it keeps to one execution, its retries, and
the workers that had it, and ends with the state of its rows. A file that chaos shrink wrote
needs no --seed: its key regression says the seed and the mutant.`,
		Example: `  bin/chaos replay ttl-race --seed 7 | less
  bin/chaos replay ttl-race --profile documented --seed 1 --mutant unguarded-monitor --execution 3`,
		Args: needsOne("scenario"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.from > f.to {
				return usageError("--from %d is after --to %d", f.from, f.to)
			}
			return a.atOnce(cmd.Context(), func(ctx context.Context) error { return a.replayRun(ctx, cmd, args[0], f) })
		},
	}
	f.addFlags(cmd, "the run")
	flags := cmd.Flags()
	flags.Int64Var(&f.execution, "execution", 0, "show only this execution and its retries")
	flags.Uint64Var(&f.from, "from", 0, "begin at this `STEP`")
	flags.Uint64Var(&f.to, "to", math.MaxUint64, "end with this `STEP`, and show the state there")
	flags.Lookup("to").DefValue = "0"
	return cmd
}

func (a *app) replayRun(ctx context.Context, cmd *cobra.Command, file string, f replayFlags) error {
	t, planted, err := f.chosenTarget(cmd, file, "the seed of the run to show")
	if err != nil {
		return err
	}
	rec, result := explore.Record(ctx, t, f.seed, planted)
	if result.Interrupted {
		return harnessError("interrupted after %s of virtual time: nothing is shown", humanDuration(rec.Virtual))
	}
	id := execution.ID(f.execution)
	if _, known := result.Execution(id); id != 0 && !known {
		return usageError("there is no execution %d in this run; it has 1 to %d", id, lastExecution(result))
	}
	out := bufio.NewWriter(a.out)
	defer func() { _ = out.Flush() }()
	s := story{out: out, colour: a.out, rec: rec, about: func(*history.Event) bool { return true }, from: f.from, to: f.to}
	if id != 0 {
		s.about = explore.Story(rec, id)
	}
	fmt.Fprintf(out, "%s, seed %d%s\n\n", t, f.seed, withMutant(planted))
	printChanges(out, rec.Varied)
	s.printEvents()
	if id != 0 {
		a.printState(out, t, rec, result, f, planted)
	}
	sc := explore.Judge(t, &rec.Run, planted)
	a.printReplayEnd(out, t, rec, sc, planted)
	a.code = sc.Verdict.ExitCode()
	return nil
}

// replayTarget returns the target of a single scenario under one profile.
func replayTarget(file, profile string) (explore.Target, error) {
	list, err := loadScenarios([]string{file})
	if err != nil {
		return explore.Target{}, err
	}
	if len(list) != 1 {
		return explore.Target{}, usageError("%s holds %d scenarios, but replay takes one", file, len(list))
	}
	if profile == "" {
		profile = string(list[0].Profiles[0])
	}
	targets, _, err := chooseTargets([]string{file}, profile, scenario.Sim)
	if err != nil {
		return explore.Target{}, err
	}
	return targets[0], nil
}

func withMutant(f *mutant.Mutant) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf(", with the mutant %s planted: %s", f.Name, f.About)
}

func lastExecution(r *sim.Result) execution.ID {
	id := execution.ID(0)
	for _, known := r.Execution(id + 1); known; _, known = r.Execution(id + 1) {
		id++
	}
	return id
}

// story prints the events of a recorded run.
type story struct {
	out      *bufio.Writer
	colour   *terminal
	rec      *verdict.Record
	about    func(*history.Event) bool
	from, to uint64
	marked   int
}

// printEvents prints the events, and each violation after the last event of its step.
func (s *story) printEvents() {
	for i := range s.rec.Events {
		e := &s.rec.Events[i]
		s.printViolations(e.Step)
		if e.Step < s.from || e.Step > s.to || !s.about(e) {
			continue
		}
		line := fmt.Sprintf("%7d  %s", e.Step, reports.Describe(e, s.rec.Workers))
		switch e.Kind {
		case history.Logged, history.HeartbeatRenewed:
			line = s.colour.dim(line)
		case history.FaultBegan, history.FaultEnded, history.FaultTouched, history.ProcessCrashed, history.MutantActed:
			line = s.colour.yellow(line)
		default:
		}
		fmt.Fprintln(s.out, line)
	}
	s.printViolations(math.MaxUint64)
	fmt.Fprintln(s.out)
}

// printViolations prints the violations of the steps up to, but excluding, before. They are ordered by their
// discovery, which is the order of their steps, except for those found at the end.
func (s *story) printViolations(before uint64) {
	for ; s.marked < len(s.rec.Violations) && s.rec.Violations[s.marked].Step < before; s.marked++ {
		v := &s.rec.Violations[s.marked]
		if v.Step < s.from || v.Step > s.to {
			continue
		}
		fmt.Fprintln(s.out, s.colour.red(fmt.Sprintf("%7d  %s  VIOLATION of %s: %s", v.Step, reports.FormatTime(v.At), v.Rule(), v.Message)))
		fmt.Fprintln(s.out, s.colour.red("         rule: "+v.Statement))
	}
}

// printState prints the rows of the execution's chain, at the end of the run or after the step that --to names.
func (a *app) printState(out *bufio.Writer, t explore.Target, rec *verdict.Record, r *sim.Result, f replayFlags, planted *mutant.Mutant) {
	at := "at the end of the run"
	if f.to < r.Steps {
		at = fmt.Sprintf("after step %d", f.to)
		plain, _, _ := t.Plain(f.seed) // the changes were already drawn, without an error, for the record
		r = sim.Run(plain.Scenario, t.Profile, sim.Options{Seed: f.seed, Mutant: planted, MaxSteps: max(f.to, 1)})
	}
	row, known := r.Execution(execution.ID(f.execution))
	if !known {
		fmt.Fprintf(out, "%s: execution %d does not exist yet\n\n", at, f.execution)
		return
	}
	chain := row.Chain()
	fmt.Fprintf(out, "%s %s:\n", a.out.bold("State"), at)
	for id := chain; ; id++ {
		row, known := r.Execution(id)
		if !known {
			break
		}
		if row.Chain() == chain {
			fmt.Fprintf(out, "  %s\n", stateLine(&row, rec.Workers))
		}
	}
	fmt.Fprintln(out)
}

func stateLine(e *execution.Execution, workers map[execution.WorkerID]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "execution %d: %s, epoch %d", e.ID, e.Status, e.Epoch)
	if e.Worker != 0 {
		fmt.Fprintf(&b, ", worker %s (incarnation %d)", workers[e.Worker], e.Incarnation)
	}
	if e.Dispatches > 0 {
		fmt.Fprintf(&b, ", %d unclaimed dispatches", e.Dispatches)
	}
	if e.RetryCount > 0 {
		fmt.Fprintf(&b, ", retry %d of %d", e.RetryCount, e.Action.MaxRetries)
	}
	if e.FailureReason != execution.NoReason {
		fmt.Fprintf(&b, ", because of %s", e.FailureReason)
	}
	if e.Result.Error != "" {
		fmt.Fprintf(&b, ", error %q", e.Result.Error)
	}
	switch {
	case !e.Status.Terminal():
	case e.OrchestratedAt.IsZero():
		b.WriteString(", its end is not handled yet")
	default:
		fmt.Fprintf(&b, ", its end was handled %v later", e.OrchestratedAt.Sub(e.Ended).Round(time.Millisecond))
	}
	return b.String()
}

// printReplayEnd prints the verdict. Without a violation, it prints how to find a seed with one.
func (a *app) printReplayEnd(out *bufio.Writer, t explore.Target, rec *verdict.Record, sc *verdict.Scenario, planted *mutant.Mutant) {
	for i := range rec.Violations {
		v := &rec.Violations[i]
		about := ""
		if v.Execution != 0 {
			about = fmt.Sprintf(", execution %d", v.Execution)
		}
		fmt.Fprintf(out, "%s at step %d%s: %s\n", a.out.red("VIOLATION of "+v.Rule()), v.Step, about, v.Message)
	}
	if rec.Panic != "" {
		fmt.Fprintln(out, rec.Panic)
	}
	if len(rec.Violations) == 0 {
		fmt.Fprintf(out, "Seed %d violates nothing%s.\n", rec.Seed, withMutantName(planted))
		search := fmt.Sprintf("bin/chaos run %s --profile %s", t.Argument(), t.Profile)
		if planted != nil {
			fmt.Fprintf(out, "To look for a seed that does: %s --mutant %s\n", search, planted.Name)
		}
	}
	for _, why := range sc.Why {
		if sc.Verdict == verdict.Inconclusive {
			fmt.Fprintf(out, "inconclusive: %s\n", why)
		}
	}
	fmt.Fprintf(out, "verdict: %s\n", a.out.colourVerdict(sc.Verdict.String()))
	fmt.Fprintf(out, "%d steps, %s of virtual time, history hash %016x\n", rec.Steps, humanDuration(rec.Virtual), sc.Hash)
}

func withMutantName(f *mutant.Mutant) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf(", though the mutant %s is planted", f.Name)
}
