package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"handoff/chaos/audit"
	"handoff/chaos/invariant"
	"handoff/chaos/live"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/reports"
	"handoff/scenarios"
)

func (a *app) checkCommand() *cobra.Command {
	var url, profile, scenario string
	cmd := &cobra.Command{
		Use:   "check HISTORY.jsonl | --database-url URL",
		Short: "Judge a recorded history, or a database's audit table, with the same invariants, reading only",
		Long: `Judges what was written elsewhere. A history is what a report writes for every
failure (history.jsonl); its first line says the scenario, whose configuration
sets the bounds, unless --scenario names another. An invariant whose evidence
is not there is listed as not judged. The scenario that a history names must be
one of the library; --scenario also takes a file.`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usage("check takes one history, not %d", len(args))
			case len(args) == 1 && url != "":
				return usage("give either a history or --database-url, not both")
			case len(args) == 0 && url == "":
				return usage("nothing to judge: name a history, or with --database-url the database whose audit table is to be judged")
			}
			// The parser's own message may contain the password.
			if _, err := pgx.ParseConfig(url); url != "" && err != nil {
				return usage("--database-url is not the URL of a database: write it as postgres://USER:PASSWORD@HOST:5432/NAME")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkProfile(profile); err != nil {
				return err
			}
			if len(args) == 1 {
				chosen := ""
				if cmd.Flags().Changed("profile") {
					chosen = profile
				}
				return a.atOnce(cmd.Context(), func(ctx context.Context) error {
					return a.checkHistory(ctx, args[0], scenario, chosen)
				})
			}
			return a.check(cmd.Context(), url, config.Profile(profile))
		},
	}
	cmd.Flags().StringVar(&scenario, "scenario", "", "for a history: the `NAME` or file of its scenario")
	cmd.Flags().StringVar(&url, "database-url", "", "a postgres:// URL; a role that may only read is enough")
	cmd.Flags().StringVar(&profile, "profile", string(config.Hardened), "the profile that the daemons run with: hardened or documented")
	return cmd
}

func (a *app) check(ctx context.Context, url string, profile config.Profile) error {
	r, err := audit.Judge(ctx, url, audit.Options{Config: config.Default(profile)})
	switch {
	case errors.Is(err, audit.ErrNoAudit):
		return usage("%v: is it a database of Handoff, and migrated?", err)
	case err != nil:
		return broken("%v", err)
	}
	a.judged(r)
	return nil
}

// checkHistory judges a file in the format of a report. The file may come from anywhere, so it is
// judged line by line and within a memory budget.
func (a *app) checkHistory(ctx context.Context, path, scenario, profile string) error {
	file, err := os.Open(path)
	if err != nil {
		return usage("no such history: %s", reason(err))
	}
	defer func() { _ = file.Close() }()
	budget, done := newBudget(file)
	defer done()
	history, err := reports.NewHistoryReader(path, file)
	if err != nil {
		return usage("%v", err)
	}
	for _, w := range history.Warnings() {
		fmt.Fprintln(a.err, reports.Printable(w.Error(), ""))
	}
	rec := history.Header()
	h, err := recorded(rec, scenario, profile)
	if err != nil {
		return err
	}
	r, err := audit.JudgeHistory(ctx, budget.watch(history.Next), h)
	switch {
	case ctx.Err() != nil:
		return broken("interrupted: %s was not judged", path)
	case errors.Is(err, errBudget):
		return broken("%s: %v", path, err)
	case err != nil:
		return usage("%v", err)
	}
	fmt.Fprintf(a.out, "%s (%s), seed %d\n", reports.Printable(rec.Scenario, ""), h.Config.Profile, rec.Seed)
	a.judged(r)
	return nil
}

// recorded returns the settings under which a history was written: its scenario's configuration and
// expectations, under its profile, at its time scale.
func recorded(rec *verdict.Record, scenario, profile string) (audit.History, error) {
	h := audit.History{Kinds: rec.Kinds}
	if profile == "" {
		profile = string(rec.Profile)
	}
	if err := checkProfile(profile); err != nil || profile == "" {
		return h, errors.Join(err, usage("the history does not say its profile; add --profile"))
	}
	if scenario == "" {
		scenario = rec.Scenario
		// Only names of the library are accepted: the name comes from the file, and a path would
		// open any file that the history's author chose.
		if scenario != "" && !slices.Contains(scenarios.Names(), scenario) {
			return h, usage("the history is of the scenario %q, which the library does not have, and its configuration sets the bounds: name its file with --scenario", scenario)
		}
	}
	if scenario == "" {
		h.Config = config.Default(config.Profile(profile))
		return h, nil
	}
	t, err := replayTarget(scenario, profile)
	if err != nil {
		return h, usage("the configuration of the scenario %q sets the bounds of the history: %v", scenario, err)
	}
	s := t.Scenario
	if rec.TimeScale != 0 {
		if s, err = s.Scaled(rec.TimeScale, t.Profile); err != nil {
			return h, usage("the history's time scale: %v", err)
		}
		h.Tolerance = live.JudgedWithin
	}
	h.Config, h.Alerts = s.Config(t.Profile), invariant.Alerts(s.Expect(t.Profile).Alerts)
	return h, nil
}

// judged prints a judgement and sets the exit code.
func (a *app) judged(r *audit.Result) {
	fmt.Fprintf(a.out, "%s, %s, %d still open\n\n", plural(r.Executions, "execution"), plural(r.Events, "event"), r.Open)
	for _, i := range r.Judged {
		word := a.out.green("holds")
		for _, v := range r.Violations {
			if v.Invariant.Number == i.Number {
				word = a.out.red("BROKEN")
			}
		}
		fmt.Fprintf(a.out, "  %-6s  %2d %s\n", word, i.Number, i.Statement)
	}
	fmt.Fprintln(a.out)
	for _, n := range r.InPart {
		fmt.Fprintf(a.out, "  in part     %2d %s: judged %s\n", n.Invariant.Number, n.Invariant.Name, n.Why)
	}
	for _, n := range r.NotJudged {
		fmt.Fprintf(a.out, "  not judged  %2d %s: %s\n", n.Invariant.Number, n.Invariant.Name, n.Why)
	}
	a.unread(r)
	for _, v := range r.Violations {
		fmt.Fprintf(a.out, "\n%s invariant %d, %s\n  execution %d: %s\n", a.out.red("FAIL"), v.Invariant.Number, v.Invariant.Name, v.Execution,
			reports.Printable(v.Message, ""))
	}
	if len(r.Violations) > 0 {
		a.code = verdict.ExitFail
		return
	}
	if r.Executions == 0 {
		fmt.Fprintln(a.out, "\nthere was nothing to judge")
		a.code = verdict.ExitInconclusive
	}
}

// unread prints the events that could not be read.
func (a *app) unread(r *audit.Result) {
	if r.Unread == 0 {
		return
	}
	fmt.Fprintf(a.out, "\n  not read    %s with a word that this program does not know; a newer one wrote it, and can judge it (%s not judged)\n",
		plural(r.Unread, "event"), plural(r.Aside, "execution"))
	for _, why := range r.Unknown {
		fmt.Fprintf(a.out, "              %s\n", reports.Printable(why, ""))
	}
	if more := r.Unread - len(r.Unknown); more > 0 {
		fmt.Fprintf(a.out, "              and %d more\n", more)
	}
}
