// Command executor finds workers for executions, reclaims executions that no worker claimed, and serves the
// HTTP API. Several may run at once.
package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strings"

	"handoff/core/config"
	"handoff/core/config/yamlfile"
	hostdaemon "handoff/core/host/daemon"
)

// The exit codes.
const (
	exitStopped   = 0
	exitFailed    = 1
	exitBadConfig = 2
)

func main() {
	hostdaemon.CollectRarely()
	// The first signal stops the process gracefully, whatever it is doing; a second one ends it at once.
	os.Exit(run(hostdaemon.Signals(context.Background()), os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run executes the command line; it returns the exit code.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "migrate" {
		return runMigrate(ctx, args[1:], environ, stdout, stderr)
	}
	args, planted := takeMutant(args)
	parsed := commandSpec().Parse(args, environ)
	if parsed.Help == "" {
		parsed.Found("executor.name", hostname(), "the machine's name")
	}
	parsed.Problems = append(parsed.Problems, servingProblems(parsed)...)
	actions, problems := loadActions(parsed)
	parsed.Problems = append(parsed.Problems, problems...)
	if code, done := parsed.Answer("executor", stdout, stderr); done {
		return code
	}
	d := &daemon{plant: planted, config: parsed.Config, deployment: parsed.Deployment, actions: actions, log: parsed.Deployment.Logger(stderr)}
	hostdaemon.LogSignals(ctx, d.log)
	d.name = parsed.Deployment.Executor.Name
	if err := d.runExecutor(ctx); err != nil {
		d.log.LogAttrs(ctx, slog.LevelError, "executor failed", slog.Any("error", err))
		return exitFailed
	}
	d.log.LogAttrs(ctx, slog.LevelInfo, "executor stopped")
	return exitStopped
}

// servingProblems returns the problems that ValidateServing finds, unless p already has one about the API.
func servingProblems(p config.Parsed) (found yamlfile.Errors) {
	if p.Effective == nil {
		return nil
	}
	for _, problem := range p.Problems {
		if strings.Contains(problem.Message, "api.") {
			return nil
		}
	}
	for _, problem := range p.Deployment.ValidateServing() {
		found = append(found, p.Locate(problem))
	}
	return found
}

func commandSpec() config.Command {
	return config.Command{
		Name: "executor",
		About: "finds workers for executions, watches over them and serves the HTTP API.\n" +
			"`executor migrate` looks after the database's schema; its --help says how.",
		Flags: []config.FlagSpec{
			{Name: "name", Path: "executor.name", Value: "NAME", Usage: "the name in logs and claims, the host's if left out"},
			{Name: "listen", Path: "api.listen", Value: "ADDRESS", Usage: `where the API listens, "" for nowhere`},
			{Name: "actions", Path: "executor.actions", Value: "DIR", Usage: "action files to put into the database at start"},
		},
		Notes: `message_queue.rabbitmq.dead_letter.ttl_ms is how long a stored dead letter is kept in the table dead_letter. The broker's
dead letter queue has no TTL: what waits there is stored nowhere else yet.

`,
	}
}

// hostname returns the machine's name, or "unnamed" if it has none.
func hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "unnamed"
	}
	return name
}
