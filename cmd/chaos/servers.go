//go:build !simulator

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"handoff/chaos/servers"
)

func (a *app) serversCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "servers [-- COMMAND [ARGUMENT]...]",
		Short: serversShort,
		Long: `servers finds PostgreSQL and RabbitMQ, or installs them (Debian, as root). With a
command it also starts both, private and on loopback, runs the command with their
addresses in ` + servers.AddressPostgres + ` and ` + servers.AddressRabbitMQ + `, and ends
them when the command ends. Its exit code is the command's.`,
		Example: `  bin/chaos servers
  bin/chaos servers -- go test ./chaos/selftest/conformance/...`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return usageError("servers takes a command after --, as in: bin/chaos servers -- %s", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := servers.EnsureInstalled(cmd.Context(), a.err); err != nil {
				return harnessError("%v", err)
			}
			if len(args) == 0 {
				fmt.Fprintln(a.out, "PostgreSQL and RabbitMQ: found, or excluded by HANDOFF_WITHOUT")
				return nil
			}
			return a.besideServers(cmd.Context(), args)
		},
	}
}

// besideServers starts servers, runs a command with their addresses, and stops them.
func (a *app) besideServers(ctx context.Context, command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return usageError("servers: finding the command: %v", err)
	}
	variables, down, err := servers.Shared(ctx, a.err)
	if err != nil {
		return harnessError("%v", err)
	}
	c := exec.CommandContext(ctx, path, command[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = append(os.Environ(), variables...)
	// The command has received the same Ctrl-C. It gets time to stop what it has started.
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	ran := c.Run()
	if err := down(); err != nil {
		return harnessError("ending the servers: %v", err)
	}
	var ended *exec.ExitError
	switch {
	case errors.As(ran, &ended) && ended.Exited():
		a.code = ended.ExitCode()
		return nil
	case ran != nil:
		return harnessError("%s: %v", command[0], ran)
	}
	return nil
}
