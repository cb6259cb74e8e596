//go:build simulator

package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
)

// With the tag simulator, this program contains everything for the simulator, but no code that needs a
// server. It imports four of ten packages of the whole program and builds in less than half the time. It
// still lists the missing commands, and its error for them names the build that has them.

// extent ends the line that `chaos version` prints.
const extent = ", for the simulator alone"

const extentHelp = `

This program was built for the simulator alone (make chaos). It lacks up, inject, soak,
servers, --world live and check --database-url; make build builds the whole program.`

// notInThisBuild returns an error for a feature that this build lacks.
func notInThisBuild(what, needs string) error {
	return usageError("%s needs %s, and this program was built for the simulator alone (make chaos); make build builds the whole one", what, needs)
}

const needsServers = "real servers"

// commandOfWhole returns a placeholder for a command of the whole program. The command's flags are unknown
// here.
func commandOfWhole(use, short string) *cobra.Command {
	return &cobra.Command{
		Use:                use,
		Short:              short,
		Long:               short + ".\n\n" + notInThisBuild(use, needsServers).Error() + ".",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				return cmd.Help()
			}
			return notInThisBuild(cmd.Name(), needsServers)
		},
	}
}

func (a *app) upCommand() *cobra.Command      { return commandOfWhole("up", upShort) }
func (a *app) injectCommand() *cobra.Command  { return commandOfWhole("inject", injectShort) }
func (a *app) soakCommand() *cobra.Command    { return commandOfWhole("soak", soakShort) }
func (a *app) serversCommand() *cobra.Command { return commandOfWhole("servers", serversShort) }

func (a *app) runLive(context.Context, []string, runFlags) error {
	return notInThisBuild("run --world live", needsServers)
}

func (a *app) liveMutants(context.Context, string, int, int) error {
	return notInThisBuild("mutants --world live", needsServers)
}

func checkDatabaseURL(string) error { return notInThisBuild("check --database-url", "a database") }

func (a *app) checkDatabase(context.Context, checkFlags) error { return checkDatabaseURL("") }

func (a *app) checkRows(context.Context, checkFlags) error { return checkDatabaseURL("") }
