//go:build !simulator

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"handoff/chaos/live/cluster"
	"handoff/chaos/servers"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/worker/subprocess"
)

// upFlags configure the system. Flags that the daemons have too use the same names and syntax.
type upFlags struct {
	executors, workers int
	config             string
	profile            string
	actions            string
	runtimes           string
	listen             string
	keep               string
}

func (a *app) upCommand() *cobra.Command {
	f := upFlags{executors: 1, workers: 2}
	cmd := &cobra.Command{
		Use:   "up",
		Short: upShort,
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.runSystem(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.executors, "executors", f.executors, "how many executors, from 1 to 4")
	flags.IntVar(&f.workers, "workers", f.workers, "how many workers, from 1 to 16")
	flags.StringVar(&f.actions, "actions", f.actions, "a `DIR` of action files and their scripts, for executors and workers")
	flags.StringVar(&f.runtimes, "runtimes", f.runtimes, "what every worker runs, a `LIST` with commas: shell, python, node, noop; what the machine has if left out")
	flags.StringVar(&f.profile, "profile", f.profile, "the set of defaults and policies, a `NAME`: hardened or documented; the configuration's if left out")
	flags.StringVar(&f.config, "config", f.config, "a configuration that every daemon reads, a YAML `FILE`, such as docs/playbooks/practice.yaml")
	flags.StringVar(&f.listen, "listen", f.listen, "the `ADDRESS` at which the first executor serves the API, such as 127.0.0.1:8080; a free port if left out")
	flags.StringVar(&f.keep, "keep", f.keep, "a `DIR` that keeps data, addresses and logs for the next chaos up with it; new, empty, or kept before")
	return cmd
}

// echoAction is an action for a first execution.
const echoAction = `name: core.echo
runtime: shell
entrypoint: cat
timeout_seconds: 30
max_retries: 1
`

// runSystem runs the system until ctx ends.
func (a *app) runSystem(ctx context.Context, f upFlags) error {
	actions, err := f.checkedActions()
	if err != nil {
		return err
	}
	began := time.Now()
	self, err := os.Executable()
	if err != nil {
		return harnessError("finding the daemons beside this binary: %v", err)
	}
	if err := servers.EnsureInstalled(ctx, a.err); err != nil {
		return harnessError("%v", err)
	}
	o := cluster.Options{
		Bin: filepath.Dir(self), Executors: f.executors, Workers: f.workers, ConfigFile: f.config, Profile: f.profile, Listen: f.listen,
		Runtimes: f.runtimes, Links: true, Servers: servers.Options{Log: a.err, Management: true, Keep: f.keep},
	}
	if f.actions != "" {
		if o.Scripts, err = filepath.Abs(f.actions); err != nil {
			return harnessError("--actions %s: %v", f.actions, err)
		}
	}
	first := "core.echo"
	if len(actions) > 0 {
		o.Actions, first = o.Scripts, actions[0].Ref
	} else {
		o.ActionFiles = map[string]string{"echo.yaml": echoAction}
	}
	a.warnOfRuntimes(actions, f.runtimes)
	c, err := cluster.Up(ctx, o)
	if kept := (*servers.KeepError)(nil); errors.As(err, &kept) {
		return usageError("--keep: %v", err)
	}
	if err != nil {
		return harnessError("%v", err)
	}
	env := filepath.Join(c.Servers.Dir(), "env")
	if err = os.WriteFile(env, environmentFile(c), 0o600); err == nil {
		a.printAddresses(c, f, env, first, time.Since(began))
		<-ctx.Done()
		fmt.Fprintln(a.err, "taking everything down")
	}
	if f.keep != "" {
		err = errors.Join(err, os.Remove(env)) // the file's addresses become invalid
	}
	if err = errors.Join(err, c.Down()); err != nil {
		return harnessError("taking down: %v", err)
	}
	return nil
}

// checkedActions refuses, before any server starts, flags that the daemons would refuse. It returns the
// actions of the directory.
func (u *upFlags) checkedActions() ([]execution.Action, error) {
	switch {
	case u.workers < 1 || u.workers > 16:
		return nil, usageError("--workers %d: must be from 1 to 16", u.workers)
	case u.executors < 1 || u.executors > 4:
		return nil, usageError("--executors %d: must be from 1 to 4", u.executors)
	}
	if err := checkProfile(u.profile); err != nil {
		return nil, err
	}
	// The daemons will get the private servers' addresses from their environment; these two stand in for them.
	in := config.Input{File: u.config, Environ: []string{
		"HANDOFF_DATABASE_URL=postgres://127.0.0.1/handoff", "HANDOFF_MESSAGE_QUEUE_RABBITMQ_URL=amqp://127.0.0.1",
	}}
	for _, flag := range []config.Flag{
		{Name: "--profile", Path: "profile", Value: u.profile},
		{Name: "--runtimes", Path: "worker.runtimes", Value: u.runtimes},
		{Name: "--listen", Path: "api.listen", Value: u.listen},
	} {
		if flag.Value != "" {
			in.Flags = append(in.Flags, flag)
		}
	}
	effective, problems := config.LoadFile(in)
	if len(problems) == 0 {
		for _, p := range effective.Deployment.ValidateServing() {
			problems = append(problems, effective.Locate(p))
		}
	}
	if len(problems) > 0 {
		return nil, usageError("%v", problems)
	}
	if u.listen != "" {
		l, err := net.Listen("tcp", u.listen)
		if err != nil {
			return nil, usageError("--listen %s: something listens there, or it is no address of this machine: %v", u.listen, err)
		}
		_ = l.Close() // nothing was accepted
	}
	if u.actions == "" {
		return nil, nil
	}
	if info, err := os.Stat(u.actions); err != nil || !info.IsDir() {
		return nil, usageError("--actions %s: is not a directory; name the one that holds the action files (docs/actions.md)", u.actions)
	}
	actions, problems := config.LoadActions(u.actions, effective.Config)
	if len(problems) > 0 {
		return nil, usageError("%v", problems)
	}
	return actions, nil
}

// warnOfRuntimes warns of actions that no worker can run, because their executions would wait.
func (a *app) warnOfRuntimes(actions []execution.Action, runtimes string) {
	have := strings.Split(runtimes, ",")
	if runtimes == "" {
		have = subprocess.Runtimes()
	}
	for _, action := range actions {
		if !slices.ContainsFunc(have, func(r string) bool { return strings.TrimSpace(r) == action.Runtime }) {
			fmt.Fprintf(a.err, "warning: no worker has the runtime %s of %s, whose executions will wait; the workers have %s\n",
				action.Runtime, action.Ref, strings.Join(have, ", "))
		}
	}
}

// printAddresses prints all addresses and possible next steps. first is a stored action.
func (a *app) printAddresses(c *cluster.Cluster, f upFlags, env, first string, took time.Duration) {
	api := c.Executors[0].URL
	fmt.Fprintf(a.out, "ready after %v: %s, %s\n\n", took.Round(100*time.Millisecond), countText(len(c.Executors), "executor"), countText(len(c.Workers), "worker"))
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
	fmt.Fprintf(a.out, "create an execution:\n\n  curl -s %s/api/v1/executions -H 'Content-Type: application/json' -d '{\"action_ref\": %q, \"parameters\": {\"hello\": \"world\"}}'\n\n", api, first)
	fmt.Fprintf(a.out, "break something, and take back what is left broken:\n\n  bin/chaos inject --at %s 'pause: worker-1, for: 20s'\n  bin/chaos inject --at %s --undo\n\n", c.Control, c.Control)
	profile := ""
	if f.profile != "" {
		profile = " --profile " + f.profile
	}
	fmt.Fprintf(a.out, "judge what happened:\n\n  bin/chaos check --database-url '%s'%s\n\n", c.Servers.Postgres.URL, profile)
	if f.keep != "" {
		fmt.Fprintf(a.out, "Ctrl-C takes it all down; %s keeps data and logs for the next chaos up --keep %s.\n", f.keep, f.keep)
		return
	}
	fmt.Fprintln(a.out, "Ctrl-C takes it all down.")
}

func countText(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// environmentFile returns the text of a file for a POSIX shell. In a shell that has read it, the commands on
// the pages of docs work unchanged.
func environmentFile(c *cluster.Cluster) []byte {
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
		fmt.Fprintf(&b, "export %s=%s\n", v[0], shellQuote(v[1]))
	}
	management, _ := url.Parse(c.Servers.RabbitMQ.Management) // empty where there is none
	vhost := ""
	if u, err := url.Parse(c.Servers.RabbitMQ.URL); err == nil {
		vhost = strings.TrimPrefix(u.Path, "/")
	}
	fmt.Fprintf(&b, "export VHOST=%s\n", shellQuote(vhost))
	if management != nil && management.Host != "" {
		management.User = url.UserPassword("guest", "guest")
		fmt.Fprintf(&b, "export MANAGEMENT=%s\n", shellQuote(management.String()))
		fmt.Fprintf(&b, "rabbitmqadmin() { command rabbitmqadmin --host=%s --port=%s --username=guest --password=guest --vhost=%s \"$@\"; }\n",
			management.Hostname(), management.Port(), shellQuote(vhost))
	}
	if c.Servers.RabbitMQ.Control != "" {
		fmt.Fprintf(&b, "rabbitmqctl() { %s \"$@\"; }\n", shellQuote(c.Servers.RabbitMQ.Control))
	}
	return []byte(b.String())
}

// shellQuote quotes a word for a shell.
func shellQuote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
