//go:build !simulator

package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/audit"
	"handoff/core/config"
)

// checkDatabaseURL refuses an invalid URL. The parser's own message may contain the password.
func checkDatabaseURL(url string) error {
	if _, err := pgx.ParseConfig(url); err != nil {
		return usageError("--database-url is not the URL of a database: write it as postgres://USER:PASSWORD@HOST:5432/NAME")
	}
	return nil
}

// checkDatabase judges the audit table of a database.
func (a *app) checkDatabase(ctx context.Context, f checkFlags) error {
	r, err := audit.Judge(ctx, f.url, audit.Options{Config: config.Default(config.Profile(f.profile))})
	switch {
	case errors.Is(err, audit.ErrNoAudit):
		return usageError("%v: is it a database of Handoff, and migrated?", err)
	case err != nil:
		return harnessError("%v", err)
	}
	return a.printJudgement(r, checkHead{Profile: f.profile}, f.json)
}
