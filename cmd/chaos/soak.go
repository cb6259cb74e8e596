//go:build !simulator

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"handoff/chaos/live"
	"handoff/chaos/live/capability"
	"handoff/chaos/scenario"
	"handoff/chaos/soak"
	"handoff/core/config"
	"handoff/reports"
)

type soakFlags struct {
	lasts       time.Duration
	seed        uint64
	rate        float64
	out, mutant string
	planOnly    bool
	quiet       bool
}

// The limits of soak's flags.
const (
	highestRate   = 1000
	soakFor       = 10 * time.Minute
	soakPlanFile  = "plan.yaml"
	soakPageFile  = "index.html"
	soakTableFile = "soak.json"
)

func (a *app) soakCommand() *cobra.Command {
	var f soakFlags
	cmd := &cobra.Command{
		Use:   "soak",
		Short: soakShort,
		Long: `Starts private servers, executors and workers, finds the rate that this machine
holds and submits at 60 % of it, in batches, through the API. Meanwhile every part
is killed, paused and cut off, one after the other, by a plan that the seed draws:
the same seed and duration give the same plan. Nothing more is submitted while too
much is open.

The evidence is judged as it comes, in bounded memory: rows by triggers in the
database, runs by the journals of the shims under which actions run. A rule whose
evidence is not there is listed as not judged. Curves are drawn of memory,
descriptors, goroutines, connections, tables, queues and latencies, and judged: the
median of the last quarter may be a quarter above that of the second.

Ctrl-C ends it in order and judges what there is. Writes index.html, soak.json and
plan.yaml into --out; chaos run takes the plan too.`,
		Example: `  bin/chaos soak --for 60m --seed 7
  bin/chaos soak --for 90s --rate 20
  bin/chaos soak --for 60m --plan > plan.yaml`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.checkValues(cmd.Flags().Changed("rate")); err != nil {
				return err
			}
			return a.soakAndReport(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.lasts, "for", soakFor, "how long the load lasts, from 60s to 144h")
	flags.Uint64Var(&f.seed, "seed", 1, "draws the plan")
	flags.Float64Var(&f.rate, "rate", 0, "submit so many executions a second; left out: the rate that the machine holds is found")
	flags.StringVar(&f.out, "out", filepath.Join("reports", "out", "soak"), "the folder of the report")
	flags.StringVar(&f.mutant, "mutant", "", "plant this mutant into the daemons; `NAME`s: chaos list --mutants")
	flags.BoolVar(&f.planOnly, "plan", false, "print the plan as a scenario and end")
	flags.BoolVar(&f.quiet, "quiet", false, "no progress, only the result")
	return cmd
}

func (s *soakFlags) checkValues(rated bool) error {
	switch {
	case s.lasts < soak.LeastFor || s.lasts > soak.MostFor:
		return usageError("--for %v: from %v to %v are allowed, as in --for 60m", s.lasts, soak.LeastFor, soak.MostFor)
	case rated && !(s.rate > 0 && s.rate <= highestRate): // also false for NaN
		return usageError("--rate %v: above 0 and up to %d executions a second are allowed; leave it out, and the rate is found", s.rate, highestRate)
	case s.out == "":
		return usageError("--out is empty: the report needs a folder")
	}
	return nil
}

func (a *app) soakAndReport(ctx context.Context, f soakFlags) error {
	plan := soak.Draw(f.seed, f.lasts, soak.Default())
	text := plan.YAML(defaultScale)
	if f.planOnly {
		_, err := a.out.Write(text)
		return err
	}
	s, err := scenario.Parse(soakPlanFile, text)
	if err != nil {
		return harnessError("the plan is not a valid scenario: %v", err)
	}
	if _, err := plantableMutant(f.mutant); err != nil {
		return err
	}
	if why := capability.Unable(s, config.Hardened, defaultScale); why != "" {
		return harnessError("this machine can't soak: %s", why)
	}
	if err := makeFolder("--out", f.out); err != nil {
		return err
	}
	write := func(name string, do func(io.Writer) error) error {
		return reports.WriteFile(filepath.Join(f.out, name), do)
	}
	if err := write(soakPlanFile, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
		return harnessError("%v", err)
	}
	r, err := a.runSoak(ctx, f, plan, s)
	if err != nil {
		return err
	}
	a.printSoakResult(r, f)
	for name, do := range map[string]func(io.Writer) error{
		soakTableFile: func(w io.Writer) error { return reports.WriteSoakJSON(w, r) },
		soakPageFile:  func(w io.Writer) error { return reports.WriteSoak(w, r) },
	} {
		if err := write(name, do); err != nil {
			return harnessError("the soak is done, but writing its report failed: %v", err)
		}
	}
	a.code = r.Verdict.ExitCode()
	return nil
}

// runSoak starts the environment and runs the soak.
func (a *app) runSoak(ctx context.Context, f soakFlags, plan *soak.Plan, s *scenario.Scenario) (*soak.Result, error) {
	bin, err := a.daemonsOnServers(ctx)
	if err != nil {
		return nil, err
	}
	o := live.SoakOptions{Plan: plan, Scenario: s, Scale: defaultScale, Rate: f.rate, Mutant: f.mutant}
	log := io.Writer(a.err)
	if f.quiet {
		log = nil
	} else {
		short := plan.Short()
		if short != "" {
			short = "; " + short
		}
		fmt.Fprintf(a.err, "plan: %s in %s: %s%s\n", plural(len(plan.Strikes), "strike"), plural(plan.Rounds, "round"), filepath.Join(f.out, soakPlanFile), short)
		o.Progress = func(p soak.Progress) { fmt.Fprintln(a.err, p) }
	}
	l, err := live.Open(ctx, bin, true, log)
	if err != nil {
		if errors.Is(err, live.ErrNoDaemons) {
			return nil, harnessError("%v", err)
		}
		return nil, harnessError("the environment failed: %v", err)
	}
	r, err := l.Soak(ctx, o)
	if closed := l.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, harnessError("the environment failed: %v", err)
	}
	return r, nil
}

func (a *app) printSoakResult(r *soak.Result, f soakFlags) {
	how := "given"
	if r.Held > 0 {
		how = fmt.Sprintf("60 %% of the %.1f that the machine held", r.Held)
	}
	fmt.Fprintf(a.out, "%s soak of %v (%v of load), seed %d, %.1f executions a second (%s)\n", a.out.colourVerdict(r.Verdict.String()), r.For, r.Ran.Round(time.Second), r.Seed, r.Rate, how)
	fmt.Fprintf(a.out, "  %d accepted, %d rows with %d retries, %d processes; %s held back, drained in %v\n", r.Accepted, r.Rows, r.Retries, r.Processes,
		r.HeldBack.Round(time.Second), r.Drain.Round(time.Second))
	for _, x := range r.Answers {
		fmt.Fprintf(a.out, "  %-12s %s: %s\n", a.out.colourVerdict(x.Verdict.String()), x.Question, reports.Printable(x.Text, "\n"))
	}
	for _, v := range r.Violations {
		fmt.Fprintf(a.out, "\n%s %s (invariant %d) at %v, execution %d\n  %s\n", a.out.red("FAIL"), v.Name, v.Invariant, v.At.Round(time.Millisecond), v.Execution, reports.Printable(v.Message, "\n"))
	}
	for _, why := range r.Why {
		fmt.Fprintf(a.out, "  why          %s\n", reports.Printable(why, "\n"))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(a.out, "  note         %s\n", reports.Printable(n, "\n"))
	}
	var not []string
	for _, j := range r.Judged {
		if j.Not != "" {
			not = append(not, fmt.Sprint(j.Number))
		}
	}
	fmt.Fprintf(a.out, "  not judged   invariants %s: a soak records no messages and no lines of the daemons\n", strings.Join(not, ", "))
	fmt.Fprintf(a.out, "  %s\n  report       %s\n", r.Audit, filepath.Join(f.out, soakPageFile))
}
