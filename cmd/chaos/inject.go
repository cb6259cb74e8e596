//go:build !simulator

package main

import (
	"context"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"handoff/chaos/live/compose"
	"handoff/chaos/live/manual"
)

// injectFlags select the running system.
type injectFlags struct {
	at, target, file, toxiproxy string
	undo                        bool
}

func (a *app) injectCommand() *cobra.Command {
	f := injectFlags{target: "up", file: composeFile, toxiproxy: "127.0.0.1:8474"}
	cmd := &cobra.Command{
		Use:   "inject FAULT | --undo",
		Short: injectShort,
		Long: `Brings one fault about in a running system, waits for its end, and ends it; Ctrl-C ends it at once. The fault
is written as in a scenario, without its time:

  chaos inject --at http://127.0.0.1:PORT 'pause: worker-1, for: 20s'     (the address is what chaos up prints)
  chaos inject --at http://127.0.0.1:PORT 'broker: kill, for: 10s'        (or broker: restart, database: kill, database: restart)
  chaos inject --at http://127.0.0.1:PORT 'database: {slow: 200ms}, for: 30s'
  chaos inject --target compose 'partition: {cut: any worker, from: [broker]}, for: 30s'
  chaos inject --at http://127.0.0.1:PORT --undo

--undo takes back what faults have left, also those of a chaos inject that was killed: it starts servers and
processes that are down, resumes those that are paused, and heals every link.

chaos list --faults shows how faults are written. A fault that can't be injected by hand is refused, with a
list of those that can.

Nothing is recorded: chaos check says what came of it.`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.undo && len(args) > 0:
				return usageError("%s takes a fault or --undo, not both", cmd.Name())
			case !f.undo && len(args) != 1:
				return usageError("%s needs one fault, in quotes, such as 'crash: worker-1, restart_after: 10s', or --undo", cmd.Name())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.undo {
				return a.undoFaults(cmd.Context(), f)
			}
			return a.injectFault(cmd.Context(), args[0], f)
		},
	}
	cmd.Flags().StringVar(&f.at, "at", f.at, "the control address of a running chaos up")
	cmd.Flags().BoolVar(&f.undo, "undo", f.undo, "take back what faults by hand have left")
	cmd.Flags().StringVar(&f.target, "target", f.target, "what runs the system: up or compose")
	cmd.Flags().StringVar(&f.file, "file", f.file, "the compose file, for --target compose")
	cmd.Flags().StringVar(&f.toxiproxy, "toxiproxy", f.toxiproxy, "the address of toxiproxy's API, for --target compose")
	return cmd
}

func (a *app) injectFault(ctx context.Context, text string, f injectFlags) error {
	system, err := f.targetSystem()
	if err != nil {
		return err
	}
	processes, err := system.Supervisor.Processes(ctx)
	if err != nil {
		return harnessError("%v", err)
	}
	s, fault, err := manual.Parse(text, processes)
	if err != nil {
		return usageError("%v", err)
	}
	if err := system.Break(ctx, s, fault, func(what string) { fmt.Fprintln(a.out, what) }); err != nil {
		return harnessError("%v", err)
	}
	return nil
}

// undoFaults undoes the effects of earlier faults.
func (a *app) undoFaults(ctx context.Context, f injectFlags) error {
	system, err := f.targetSystem()
	if err != nil {
		return err
	}
	if err := system.Undo(ctx); err != nil {
		return harnessError("%v", err)
	}
	fmt.Fprintln(a.out, "what was down is started, what was paused goes on, and every link is healed")
	return nil
}

// targetSystem returns the system that the flags select.
func (i injectFlags) targetSystem() (*manual.System, error) {
	switch i.target {
	case "up":
		u, err := url.Parse(i.at)
		if err != nil || u.Host == "" {
			return nil, usageError("--at %q: must be the control address that chaos up prints, such as http://127.0.0.1:40123", i.at)
		}
		return &manual.System{Supervisor: manual.Control("http://" + u.Host), Toxiproxy: u.Host}, nil
	case "compose":
		tool, err := compose.FindTool()
		if err != nil {
			return nil, harnessError("%v", err)
		}
		return &manual.System{Supervisor: manual.Compose{File: i.file, Tool: tool}, Toxiproxy: i.toxiproxy}, nil
	}
	return nil, usageError("--target %s: must be up or compose", i.target)
}
