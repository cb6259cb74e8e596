package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"handoff/chaos/audit"
	"handoff/chaos/verdict"
	"handoff/core/config"
)

func (a *app) checkCommand() *cobra.Command {
	var url, profile string
	cmd := &cobra.Command{
		Use:   "check --database-url URL",
		Short: "Judge a database's audit table with the same invariants, reading only",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if url == "" {
				return usage("--database-url is missing; name the database whose audit table is to be judged")
			}
			if profile != "" {
				if err := checkProfile(profile); err != nil {
					return err
				}
			}
			return a.check(cmd.Context(), url, config.Profile(profile))
		},
	}
	cmd.Flags().StringVar(&url, "database-url", "", "a postgres:// URL; a role that may only read is enough")
	cmd.Flags().StringVar(&profile, "profile", string(config.Hardened), "the profile that the daemons run with: hardened or documented")
	return cmd
}

func (a *app) check(ctx context.Context, url string, profile config.Profile) error {
	r, err := audit.Judge(ctx, url, audit.Options{Config: config.Default(profile)})
	switch {
	case errors.Is(err, audit.ErrNoAudit):
		return usage("%v: is it a database of Handoff, and migrated?", err)
	case err != nil:
		return broken("%v", err)
	}
	fmt.Fprintf(a.out, "%s, %s, %d still open\n\n", plural(r.Executions, "execution"), plural(r.Events, "event"), r.Open)
	for _, i := range r.Judged {
		word := a.out.green("holds")
		for _, v := range r.Violations {
			if v.Invariant.Number == i.Number {
				word = a.out.red("BROKEN")
			}
		}
		fmt.Fprintf(a.out, "  %-6s  %2d %s\n", word, i.Number, i.Statement)
	}
	fmt.Fprintln(a.out)
	for _, n := range r.NotJudged {
		fmt.Fprintf(a.out, "  not judged  %2d %s: %s\n", n.Invariant.Number, n.Invariant.Name, n.Why)
	}
	for _, v := range r.Violations {
		fmt.Fprintf(a.out, "\n%s invariant %d, %s\n  execution %d: %s\n", a.out.red("FAIL"), v.Invariant.Number, v.Invariant.Name, v.Execution, v.Message)
	}
	if len(r.Violations) > 0 {
		a.code = verdict.ExitFail
		return nil
	}
	if r.Executions == 0 {
		fmt.Fprintln(a.out, "\nthere was nothing to judge")
		a.code = verdict.ExitInconclusive
	}
	return nil
}
