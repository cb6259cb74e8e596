package postgrestest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"handoff/core/store"
	"handoff/sim/simstore"
)

// The model refuses the calls that wait for a stranger's lock of a table. This test measures which calls
// those are: each call is made during a lock of each table.
func TestModelKnowsWhichCallsNeedTables(t *testing.T) {
	t.Parallel() // it compares errors, not times
	c := newCosts(t)
	rows, err := c.hand.Query(c.ctx, `select relname::text from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by 1`)
	c.must(err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	c.must(err)
	waits := func(call func() error, table, mode string) bool {
		tx, err := c.hand.Begin(c.ctx)
		c.must(err)
		_, err = tx.Exec(c.ctx, fmt.Sprintf("lock table %s in %s mode", table, mode))
		c.must(err)
		err = call()
		c.must(tx.Rollback(c.ctx))
		if err != nil && !store.Retriable(err) {
			t.Errorf("%s in %s mode: %v", table, mode, err)
		}
		return err != nil
	}
	reads, writes := make(map[string][]string), make(map[string][]string)
	for _, k := range costCases() {
		if k.method == "Transitions" || k.method == "Changes" {
			continue // the model has no audit
		}
		reads[k.method] = append(reads[k.method], "")[:len(reads[k.method])] // it is among the methods
		for _, table := range tables {
			if slices.Contains(writes[k.method], table) {
				continue
			}
			call := k.prepare(c, 2)
			_, err := c.session.Exec(c.ctx, "set lock_timeout = 10")
			c.must(err)
			switch {
			case !waits(call, table, "access exclusive"):
			case waits(call, table, "share"):
				writes[k.method] = append(writes[k.method], table)
			default:
				reads[k.method] = append(reads[k.method], table)
			}
		}
	}
	for method := range reads {
		// A table that one of its cases writes, others may only read.
		of := simstore.Tables{
			Reads:  joinNames(slices.DeleteFunc(reads[method], func(table string) bool { return slices.Contains(writes[method], table) })),
			Writes: joinNames(writes[method]),
		}
		if known := simstore.TablesOf(method); known != of {
			t.Errorf("%s waits for other tables than the model says: want %q: {Reads: %q, Writes: %q}", method, method, of.Reads, of.Writes)
		}
	}
}

// joinNames lists names once each, in order.
func joinNames(names []string) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), " ")
}
