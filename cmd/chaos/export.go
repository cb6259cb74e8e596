package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"handoff/chaos/audit"
	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/reports"
	"handoff/sim/explore"
)

func (a *app) exportCommand() *cobra.Command {
	var f runChoice
	var perfetto string
	cmd := &cobra.Command{
		Use:   "export SCENARIO|FILE --seed N --perfetto FILE | export RECORDING --perfetto FILE",
		Short: "Write one run in the format of another tool",
		Long: `Runs one seed again, or reads a recording, and writes it as a trace for Perfetto's
viewer, https://ui.perfetto.dev, as JSON trace events: a track for each process and
server, slices for the statuses of executions, for actions, queued messages and
faults, and flows for messages. The viewer runs in the browser and sends the file
nowhere.

RECORDING is a file history.jsonl, or the folder of a failure. The trace shows 100,000
events at most, those around the first violation.`,
		Example: `  bin/chaos export network-partition --seed 4 --mutant unguarded-claim --perfetto demo.json
  bin/chaos export reports/out/ttl-race-hardened-7 --perfetto run.json`,
		Args: needsOne("scenario or recording"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if perfetto == "" {
				return usageError("export needs --perfetto FILE: the trace to write; - is standard output")
			}
			record := func(ctx context.Context) (*verdict.Record, error) { return f.recordRun(ctx, cmd, args[0]) }
			if isRecording(args[0]) {
				if err := refuseRunChoice(cmd, "a scenario; a recording says itself what it is"); err != nil {
					return err
				}
				record = func(ctx context.Context) (*verdict.Record, error) { return a.judgedRecording(ctx, args[0]) }
			}
			return a.atOnce(cmd.Context(), func(ctx context.Context) error {
				rec, err := record(ctx)
				if err != nil {
					return err
				}
				return a.exportTrace(rec, perfetto)
			})
		},
	}
	f.addFlags(cmd, "the run")
	cmd.Flags().StringVar(&perfetto, "perfetto", "", "write a trace for Perfetto's viewer to this `FILE`; - is standard output")
	return cmd
}

// isRecording reports whether a path is a history or a folder with a history, rather than a scenario.
func isRecording(path string) bool {
	if filepath.Ext(path) == ".jsonl" {
		return true
	}
	_, err := os.Stat(filepath.Join(path, reports.HistoryFile))
	return err == nil
}

// recordRun repeats and records the chosen run, whether it fails or not.
func (rc *runChoice) recordRun(ctx context.Context, cmd *cobra.Command, file string) (*verdict.Record, error) {
	t, planted, err := rc.chosenTarget(cmd, file, "the seed of the run")
	if err != nil {
		return nil, err
	}
	rec, result := explore.Record(ctx, t, rc.seed, planted)
	if result.Interrupted {
		return nil, harnessError("interrupted: nothing was written")
	}
	return rec, nil
}

// judgedRecording reads a recording and judges it as chaos check does, because a history does not contain its
// violations. If it can't be judged, the trace lacks the violations, and a message says so.
func (a *app) judgedRecording(ctx context.Context, path string) (*verdict.Record, error) {
	rec, err := readRecording(path)
	if err != nil {
		return nil, err
	}
	from, err := openHistory(path, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = from.file.Close() }()
	h, err := recordedSettings(rec, "", from.scenario, "")
	var r *audit.Result
	if err == nil {
		i := 0
		r, err = audit.JudgeHistory(ctx, func(e *history.Event) error {
			if i == len(rec.Events) {
				return io.EOF
			}
			*e = rec.Events[i]
			i++
			return nil
		}, h)
	}
	switch {
	case ctx.Err() != nil:
		return nil, harnessError("interrupted: nothing was written")
	case err != nil:
		fmt.Fprintln(a.err, reports.Printable("the trace shows no violations, because the recording can't be judged: "+err.Error(), "\n"))
		return rec, nil
	}
	for _, v := range r.Violations {
		rec.Violations = append(rec.Violations, verdict.Violation{
			Invariant: v.Invariant.Number, Name: v.Invariant.Name, Statement: v.Invariant.Statement,
			Seed: rec.Seed, Execution: v.Execution, Step: v.Step, At: v.At, Message: v.Message,
		})
	}
	return rec, nil
}

// exportTrace writes the trace and prints its path.
func (a *app) exportTrace(rec *verdict.Record, path string) error {
	write := func(w io.Writer) error { return reports.WritePerfetto(w, rec) }
	if path == standardOutput {
		if err := write(a.out.Writer); err != nil {
			return harnessError("%v", err)
		}
		return nil
	}
	if err := makeFileFolder("--perfetto", path); err != nil {
		return err
	}
	if err := reports.WriteFile(path, write); err != nil {
		return harnessError("%v", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return harnessError("%v", err)
	}
	fmt.Fprintf(a.out, "%s: %s, %.1f MB; open it in https://ui.perfetto.dev\n",
		filepath.ToSlash(path), reports.RunLabel(rec), float64(info.Size())/(1<<20))
	return nil
}
