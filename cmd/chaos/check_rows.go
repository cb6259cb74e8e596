//go:build !simulator

package main

import (
	"context"

	"handoff/chaos/jobhistory/jobrows"
)

// checkRows judges the rows of a query as a public history.
func (a *app) checkRows(ctx context.Context, f checkFlags) error {
	query, err := readSmall(f.sql)
	if err != nil {
		return usageError("reading the query: %v", err)
	}
	r, closeRows, err := jobrows.Open(ctx, f.url, f.sql, string(query))
	if err != nil {
		return usageError("%v", err)
	}
	defer closeRows()
	return a.checkJobs(ctx, r, f.sql, f)
}
