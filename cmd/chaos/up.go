package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"handoff/chaos/live/cluster"
	"handoff/chaos/live/provision"
)

func (a *app) upCommand() *cobra.Command {
	workers := 2
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Real PostgreSQL, RabbitMQ, executor and workers on this machine, until Ctrl-C",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.up(cmd.Context(), workers) },
	}
	cmd.Flags().IntVar(&workers, "workers", workers, "how many workers, from 1 to 16")
	return cmd
}

// echoAction is what a first execution runs.
const echoAction = `name: core.echo
runtime: shell
entrypoint: cat
timeout_seconds: 30
max_retries: 1
`

// up runs the system until ctx ends.
func (a *app) up(ctx context.Context, workers int) error {
	if workers < 1 || workers > 16 {
		return usage("--workers %d: must be from 1 to 16", workers)
	}
	began := time.Now()
	self, err := os.Executable()
	if err != nil {
		return broken("finding the daemons beside this binary: %v", err)
	}
	if err := provision.EnsureInstalled(ctx, a.err); err != nil {
		return broken("%v", err)
	}
	c, err := cluster.Up(ctx, cluster.Options{
		Bin: filepath.Dir(self), Executors: 1, Workers: workers,
		Links: true, ActionFiles: map[string]string{"echo.yaml": echoAction}, Servers: provision.Options{Log: a.err},
	})
	if err != nil {
		return broken("%v", err)
	}
	api := c.Executors[0].URL
	fmt.Fprintf(a.out, "ready after %v: one executor, %d workers\n\n", time.Since(began).Round(100*time.Millisecond), workers)
	fmt.Fprintf(a.out, "  API         %s/api/v1\n", api)
	fmt.Fprintf(a.out, "  PostgreSQL  %s\n", c.Servers.Postgres.URL)
	fmt.Fprintf(a.out, "  RabbitMQ    %s\n", c.Servers.RabbitMQ.URL)
	fmt.Fprintf(a.out, "  control     %s\n", c.Control)
	fmt.Fprintf(a.out, "  logs        %s\n\n", c.Servers.Dir())
	fmt.Fprintf(a.out, "create an execution:\n\n  curl -s %s/api/v1/executions -H 'Content-Type: application/json' -d '{\"action_ref\": \"core.echo\", \"parameters\": {\"hello\": \"world\"}}'\n\n", api)
	fmt.Fprintf(a.out, "break something:\n\n  bin/chaos inject --at %s 'pause: worker-1, for: 20s'\n\n", c.Control)
	fmt.Fprintf(a.out, "judge what happened:\n\n  bin/chaos check --database-url '%s'\n\n", c.Servers.Postgres.URL)
	fmt.Fprintln(a.out, "Ctrl-C takes it all down.")
	<-ctx.Done()
	fmt.Fprintln(a.err, "taking everything down")
	if err := c.Down(); err != nil {
		return broken("taking down: %v", err)
	}
	return nil
}
