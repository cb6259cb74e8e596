package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"handoff/chaos/audit"
	"handoff/chaos/invariant"
	"handoff/chaos/jobhistory"
	"handoff/chaos/live/capability"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/config/yamlfile"
	"handoff/reports"
	"handoff/scenarios"
	"handoff/sim/explore"
)

type checkFlags struct {
	url, scenario, json string
	// sql and promises are files: a query whose rows are a public history, and what the system promises.
	sql, promises string
	// profile is empty for a history unless the flag is given, because the history's header names one.
	profile string
}

func (a *app) checkCommand() *cobra.Command {
	var f checkFlags
	cmd := &cobra.Command{
		Use:   "check HISTORY.jsonl | FOLDER | --database-url URL [--sql FILE]",
		Short: "Judge a recorded history, or the rows of a database, reading only",
		Long: `Judges what was written elsewhere: the jobs of any queue, or a history of Handoff.

The jobs of any queue are lines of JSON (docs/history.md): submitted, started, ended,
settled. They are judged by twelve rules about what the queue promises. The promises
are in the first line or in the file of --promises; what is not promised is measured.
With --database-url and --sql FILE the lines are the rows of a query on your own
tables, in a read-only transaction.

A history of Handoff is judged by the invariants of a simulated run. A FOLDER is what a report writes for every
failure: the history, and the scenario whose configuration sets the bounds. It can be
copied to any machine. A file history.jsonl is judged with the scenario.yaml beside it.
Any other history alone names its scenario in its first line; --scenario names another,
or a file. Where the library has no such scenario, its configuration is not known, and
only the rules that need none are judged.

Each rule holds, is broken, or was not judged: because the history lacks kinds of
events, or because nothing happened that the rule judges.`,
		Example: `  bin/chaos check reports/out/ttl-race-hardened-7
  bin/chaos check history.jsonl --scenario my-incident.yaml
  bin/chaos check jobs.jsonl --promises promises.yaml
  bin/chaos check --database-url postgres://USER:PASSWORD@HOST:5432/NAME --sql jobs.sql
  bin/chaos check --database-url postgres://USER:PASSWORD@HOST:5432/NAME --json check.json`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usageError("check takes one history, not %d", len(args))
			case len(args) == 1 && f.url != "":
				return usageError("give either a history or --database-url, not both")
			case f.sql != "" && f.url == "":
				return usageError("--sql reads from a database: name it with --database-url")
			case len(args) == 0 && f.url == "":
				return usageError("nothing to judge: name a history, or with --database-url the database whose audit table is to be judged")
			}
			if f.url != "" {
				return checkDatabaseURL(f.url)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkProfile(f.profile); err != nil {
				return err
			}
			if len(args) == 1 {
				if !cmd.Flags().Changed("profile") {
					f.profile = ""
				}
				return a.atOnce(cmd.Context(), func(ctx context.Context) error { return a.checkHistory(ctx, args[0], f) })
			}
			if f.sql != "" {
				return a.atOnce(cmd.Context(), func(ctx context.Context) error { return a.checkRows(ctx, f) })
			}
			if f.promises != "" {
				return usageError("--promises is for a public history or --sql; Handoff's own audit table is judged by its invariants")
			}
			return a.checkDatabase(cmd.Context(), f)
		},
	}
	cmd.Flags().StringVar(&f.scenario, "scenario", "", "for a history: the `NAME` or file of its scenario")
	cmd.Flags().StringVar(&f.url, "database-url", "", "a postgres:// URL; a role that may only read is enough")
	cmd.Flags().StringVar(&f.sql, "sql", "", "with --database-url: the `FILE` of a query whose rows are the lines of a public history")
	cmd.Flags().StringVar(&f.promises, "promises", "", "for a public history: the `FILE` of the promises, instead of those in its first line")
	cmd.Flags().StringVar(&f.profile, "profile", string(config.Hardened), "the profile that the daemons run with: hardened or documented")
	cmd.Flags().StringVar(&f.json, "json", "", "write the judgement to this `FILE` too; - is standard output")
	return cmd
}

// checkHistory judges a file in the format of a report, or the folder of a failure. The file may come from
// anywhere, so it is judged line by line and within a memory budget.
func (a *app) checkHistory(ctx context.Context, path string, f checkFlags) error {
	from, err := openHistory(path, f.scenario != "")
	if err != nil {
		return err
	}
	defer func() { _ = from.file.Close() }()
	budget, done := newBudget(from.file)
	defer done()
	whole, public := isJobHistory(from.file)
	if public {
		r, err := jobhistory.NewReader(path, whole)
		if err != nil {
			return usageError("%s", reports.Printable(err.Error(), "\n"))
		}
		return a.checkJobs(ctx, r, path, f)
	}
	if f.promises != "" {
		return usageError("%s is no public history (docs/history.md), and --promises is for one", reports.Printable(path, ""))
	}
	history, err := reports.NewHistoryReader(from.path, whole)
	if err != nil {
		return usageError("%v", err)
	}
	for _, w := range history.Warnings() {
		fmt.Fprintln(a.err, reports.Printable(w.Error(), ""))
	}
	rec := history.Header()
	h, err := recordedSettings(rec, f.scenario, from.scenario, f.profile)
	if err != nil {
		return err
	}
	if h.Unconfigured {
		fmt.Fprintf(a.err, "%s is of the scenario %q, and there is neither a %s beside it nor such a scenario in the library. Its configuration is not known, "+
			"so only the rules that need none are judged. For all of them, name the file of the scenario: --scenario FILE.yaml\n",
			reports.Printable(path, ""), yamlfile.Cut(rec.Scenario), reports.ScenarioFile)
	}
	r, err := audit.JudgeHistory(ctx, budget.limitReads(history.Next), h)
	switch {
	case ctx.Err() != nil:
		return harnessError("interrupted: %s was not judged", path)
	case errors.Is(err, errBudget):
		return harnessError("%s: %v", path, err)
	case err != nil:
		return usageError("%v", err)
	}
	invariant.NameWorkers(r.Violations, rec.Workers)
	head := checkHead{Scenario: reports.Printable(rec.Scenario, ""), Profile: string(h.Config.Profile), Seed: rec.Seed}
	head.title = fmt.Sprintf("%s (%s), seed %d", head.Scenario, head.Profile, head.Seed)
	head.replay = from.replayLine(rec, h.Config.Profile)
	return a.printJudgement(r, head, f.json)
}

// recordedSettings returns the settings under which a history was written: its scenario's configuration and
// expectations, under its profile, at its time scale. The scenario is the chosen one, or else the one in the
// same folder, or else the library's scenario that the history names.
func recordedSettings(rec *verdict.Record, chosen string, beside *scenario.Scenario, profile string) (audit.History, error) {
	h := audit.History{Kinds: rec.Kinds}
	if profile == "" {
		profile = string(rec.Profile)
	}
	if err := checkProfile(profile); err != nil || profile == "" {
		return h, errors.Join(err, usageError("the history does not say its profile; add --profile"))
	}
	if chosen == "" && beside == nil {
		chosen = rec.Scenario
		// Accept only names of the library: the name comes from the history, whose author could otherwise
		// make this program open any file.
		if chosen != "" && !slices.Contains(scenarios.Names(), chosen) {
			h.Unconfigured, h.Config = true, config.Default(config.Profile(profile))
			return h, nil
		}
	}
	s := beside
	switch {
	case beside != nil && !slices.Contains(beside.Profiles, config.Profile(profile)):
		return h, usageError("%s does not run under the profile %s; it says profile: %v", beside.File, profile, beside.Profiles)
	case beside != nil && beside.Name != rec.Scenario:
		return h, usageError("%s is called %q, and the history beside it is of %q: one of them was replaced; name the right file with --scenario", beside.File, beside.Name, rec.Scenario)
	case beside != nil:
	case chosen == "":
		h.Config = config.Default(config.Profile(profile))
		return h, nil
	default:
		t, err := replayTarget(chosen, profile)
		if err != nil {
			return h, usageError("the configuration of the scenario %q sets the bounds of the history: %v", chosen, err)
		}
		s = t.Scenario
	}
	under := config.Profile(profile)
	if rec.TimeScale != 0 {
		var err error
		if s, err = s.Scaled(rec.TimeScale, under); err != nil {
			return h, usageError("the history's time scale: %v", err)
		}
		h.Tolerance = capability.Tolerance
	}
	h.Config, h.Alerts = s.Config(under), invariant.Alerts(s.Expect(under).Alerts)
	return h, nil
}

// historySource is a history to judge, with the scenario of its folder.
type historySource struct {
	path string
	file *os.File
	// scenario is the folder's scenario; nil for a single file.
	scenario *scenario.Scenario
}

// openHistory opens a history file, or the history in the folder of a failure. It also reads the folder's
// scenario, unless alone is set because the user named another. In a folder, whose source is not trusted, it
// follows no link that leads outside.
func openHistory(path string, alone bool) (historySource, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return openFolder(path, alone)
	}
	file, err := os.Open(path)
	if err != nil {
		return historySource{}, usageError("no such history: %s; name a %s, or the folder of a failure, as in reports/out/SCENARIO-PROFILE-SEED", fileErrorText(err), reports.HistoryFile)
	}
	from := historySource{path: path, file: file}
	if alone || filepath.Base(path) != reports.HistoryFile {
		return from, nil
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return from, nil //nolint:nilerr // the folder of a readable file may be unreadable
	}
	defer func() { _ = root.Close() }()
	if err := from.readScenario(root, filepath.Dir(path)); err != nil {
		_ = file.Close()
		return historySource{}, err
	}
	return from, nil
}

func openFolder(path string, alone bool) (from historySource, err error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return from, usageError("no such folder: %s", fileErrorText(err))
	}
	defer func() { _ = root.Close() }()
	from.path = filepath.Join(path, reports.HistoryFile)
	if from.file, err = root.Open(reports.HistoryFile); err != nil {
		return from, usageError("%s holds no %s (%v): name the folder of one failure, as in reports/out/SCENARIO-PROFILE-SEED", path, reports.HistoryFile, errors.Unwrap(err))
	}
	if alone {
		return from, nil
	}
	if err := from.readScenario(root, path); err != nil {
		_ = from.file.Close()
		return from, err
	}
	return from, nil
}

// readScenario reads a folder's scenario, if there is one: older reports have none.
func (h *historySource) readScenario(root *os.Root, path string) error {
	file, err := root.Open(reports.ScenarioFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	beside := filepath.Join(path, reports.ScenarioFile)
	if err != nil {
		return usageError("opening %s: %v; to judge without it, name another scenario with --scenario", beside, errors.Unwrap(err))
	}
	defer func() { _ = file.Close() }()
	// Read one byte more than allowed, so that Parse refuses longer files.
	text, err := io.ReadAll(io.LimitReader(file, yamlfile.MaxBytes+1))
	if err != nil {
		return usageError("reading %s: %v", beside, errors.Unwrap(err))
	}
	if h.scenario, err = scenario.Parse(beside, text); err != nil {
		return usageError("%v", err)
	}
	return nil
}

// replayLine returns the command that replays the recorded run. It is empty if the run was on real daemons,
// or if this program lacks its mutant.
func (h *historySource) replayLine(rec *verdict.Record, under config.Profile) string {
	if h.scenario == nil || rec.TimeScale != 0 {
		return ""
	}
	planted, err := findMutant(rec.Mutant)
	if err != nil {
		return ""
	}
	return explore.Target{Scenario: h.scenario, Profile: under}.Reproduce(rec.Seed, planted)
}
