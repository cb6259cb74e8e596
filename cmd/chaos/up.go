package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"handoff/chaos/live/cluster"
	"handoff/chaos/servers"
)

// upFlags configure the system.
type upFlags struct {
	executors, workers int
	config             string
}

func (a *app) upCommand() *cobra.Command {
	f := upFlags{executors: 1, workers: 2}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Real PostgreSQL, RabbitMQ, executor and workers on this machine, until Ctrl-C",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.up(cmd.Context(), f) },
	}
	cmd.Flags().IntVar(&f.executors, "executors", f.executors, "how many executors, from 1 to 4")
	cmd.Flags().IntVar(&f.workers, "workers", f.workers, "how many workers, from 1 to 16")
	cmd.Flags().StringVar(&f.config, "config", f.config, "a configuration that every daemon reads, a YAML `FILE`, such as docs/playbooks/practice.yaml")
	return cmd
}

// echoAction is the action of a first execution.
const echoAction = `name: core.echo
runtime: shell
entrypoint: cat
timeout_seconds: 30
max_retries: 1
`

// up runs the system until ctx ends.
func (a *app) up(ctx context.Context, f upFlags) error {
	switch {
	case f.workers < 1 || f.workers > 16:
		return usage("--workers %d: must be from 1 to 16", f.workers)
	case f.executors < 1 || f.executors > 4:
		return usage("--executors %d: must be from 1 to 4", f.executors)
	}
	if f.config != "" {
		if _, err := os.Stat(f.config); err != nil {
			return usage("--config: %v; name a configuration file of the daemons, or leave the flag out", err)
		}
	}
	began := time.Now()
	self, err := os.Executable()
	if err != nil {
		return broken("finding the daemons beside this binary: %v", err)
	}
	if err := servers.EnsureInstalled(ctx, a.err); err != nil {
		return broken("%v", err)
	}
	c, err := cluster.Up(ctx, cluster.Options{
		Bin: filepath.Dir(self), Executors: f.executors, Workers: f.workers, ConfigFile: f.config,
		Links: true, ActionFiles: map[string]string{"echo.yaml": echoAction}, Servers: servers.Options{Log: a.err, Management: true},
	})
	if err != nil {
		return broken("%v", err)
	}
	env := filepath.Join(c.Servers.Dir(), "env")
	if err = os.WriteFile(env, environment(c), 0o600); err == nil {
		a.describe(c, env, time.Since(began))
		<-ctx.Done()
		fmt.Fprintln(a.err, "taking everything down")
	}
	if down := c.Down(); err == nil {
		err = down
	}
	if err != nil {
		return broken("taking down: %v", err)
	}
	return nil
}

// describe prints all addresses and the possible next steps.
func (a *app) describe(c *cluster.Cluster, env string, took time.Duration) {
	api := c.Executors[0].URL
	fmt.Fprintf(a.out, "ready after %v: %s, %s\n\n", took.Round(100*time.Millisecond), number(len(c.Executors), "executor"), number(len(c.Workers), "worker"))
	fmt.Fprintf(a.out, "  API         %s/api/v1\n", api)
	fmt.Fprintf(a.out, "  metrics     %s/metrics\n", api)
	fmt.Fprintf(a.out, "  playbooks   %s/playbooks/\n", api)
	fmt.Fprintf(a.out, "  PostgreSQL  %s\n", c.Servers.Postgres.URL)
	fmt.Fprintf(a.out, "  RabbitMQ    %s\n", c.Servers.RabbitMQ.URL)
	fmt.Fprintf(a.out, "  management  %s\n", c.Servers.RabbitMQ.Management)
	fmt.Fprintf(a.out, "  control     %s\n", c.Control)
	if c.Config != "" {
		fmt.Fprintf(a.out, "  config      %s, read at every start of a daemon\n", c.Config)
	}
	fmt.Fprintf(a.out, "  logs        %s\n", c.Servers.Dir())
	fmt.Fprintf(a.out, "  shell       . %s    (the same as $API, $DB, $AMQP, $CONTROL, $LOGS, $CONFIG, rabbitmqadmin and rabbitmqctl)\n\n", env)
	fmt.Fprintf(a.out, "create an execution:\n\n  curl -s %s/api/v1/executions -H 'Content-Type: application/json' -d '{\"action_ref\": \"core.echo\", \"parameters\": {\"hello\": \"world\"}}'\n\n", api)
	fmt.Fprintf(a.out, "break something:\n\n  bin/chaos inject --at %s 'pause: worker-1, for: 20s'\n\n", c.Control)
	fmt.Fprintf(a.out, "judge what happened:\n\n  bin/chaos check --database-url '%s'\n\n", c.Servers.Postgres.URL)
	fmt.Fprintln(a.out, "Ctrl-C takes it all down.")
}

func number(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// environment is a file for a POSIX shell; after reading it, the commands in the pages of docs work
// unchanged.
func environment(c *cluster.Cluster) []byte {
	var b strings.Builder
	b.WriteString("# Where the system is that `chaos up` started. It goes away with it.\n")
	for _, v := range [][2]string{
		{"API", c.Executors[0].URL},
		{"DB", c.Servers.Postgres.URL},
		{"AMQP", c.Servers.RabbitMQ.URL},
		{"CONTROL", c.Control},
		{"LOGS", c.Servers.Dir()},
		{"CONFIG", c.Config},
	} {
		fmt.Fprintf(&b, "export %s=%s\n", v[0], quoted(v[1]))
	}
	management, _ := url.Parse(c.Servers.RabbitMQ.Management) // empty where there is none
	vhost := ""
	if u, err := url.Parse(c.Servers.RabbitMQ.URL); err == nil {
		vhost = strings.TrimPrefix(u.Path, "/")
	}
	fmt.Fprintf(&b, "export VHOST=%s\n", quoted(vhost))
	if management != nil && management.Host != "" {
		management.User = url.UserPassword("guest", "guest")
		fmt.Fprintf(&b, "export MANAGEMENT=%s\n", quoted(management.String()))
		fmt.Fprintf(&b, "rabbitmqadmin() { command rabbitmqadmin --host=%s --port=%s --username=guest --password=guest --vhost=%s \"$@\"; }\n",
			management.Hostname(), management.Port(), quoted(vhost))
	}
	if c.Servers.RabbitMQ.Control != "" {
		fmt.Fprintf(&b, "rabbitmqctl() { %s \"$@\"; }\n", quoted(c.Servers.RabbitMQ.Control))
	}
	return []byte(b.String())
}

// quoted quotes a word for a shell.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
