package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"handoff/chaos/servers"
)

func (a *app) serversCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "servers",
		Short: "Find PostgreSQL and RabbitMQ for tests, or install them (Debian, as root)",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.servers(cmd.Context()) },
	}
}

// servers checks that private instances can be started here, or reports what is missing.
func (a *app) servers(ctx context.Context) error {
	if err := servers.EnsureInstalled(ctx, a.err); err != nil {
		return broken("%v", err)
	}
	fmt.Fprintln(a.out, "PostgreSQL and RabbitMQ: found, or excluded by HANDOFF_WITHOUT")
	return nil
}
