package postgrestest_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"handoff/chaos/history"
	"handoff/chaos/selftest/conformance"
	"handoff/chaos/selftest/conformance/storetest"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
	"handoff/core/testenv"
	"handoff/sim/kernel"
	"handoff/sim/simnet"
	"handoff/sim/simstore"
)

// modelState is the model in its present state.
func modelState(db *simstore.Database) storetest.State {
	return storetest.State{Store: manualModel{db.Detached()}, Clone: func() storetest.State { return modelState(db.Clone()) }}
}

// manualModel is the model, extended so that tests can edit rows by hand.
type manualModel struct{ *simstore.Client }

// EditByHand implements storetest.Editor.
func (m manualModel) EditByHand(ctx context.Context, id execution.ID, maxRetries int) error {
	return m.Step(ctx, func(tx *simstore.Tx) {
		if row := tx.Row(id); row != nil {
			row.Action.MaxRetries = maxRetries
		}
	})
}

// emptyModel returns an empty model with the fixture's clock.
func (fi *fixture) emptyModel() storetest.State {
	k := kernel.New(kernel.Options{Start: fi.now})
	fi.Cleanup(k.Close)
	return modelState(simstore.New(k, simnet.New(k), history.Tee{}))
}

// Simultaneous calls of many clients are answered as if each had been made at one moment.
func TestLinearizable(t *testing.T) {
	b := newFixture(t)
	rounds, calls := 5, 0
	if testenv.All() {
		rounds = 25
	}
	for seed := range uint64(rounds) { //nolint:gosec // not negative
		b.emptyDatabase()
		unexplained, n := storetest.Linearizable(t, b.Store, b.emptyModel(), seed, storetest.Shape{Cells: 6, Clients: 4, Calls: 10})
		calls += n
		if unexplained != "" {
			t.Fatalf("seed %d: %s", seed, unexplained)
		}
	}
	b.recordAgreement(conformance.Result{Calls: calls})
}

// unguarded claims in two statements: it reads the row, and writes it without another check.
type unguarded struct {
	*postgres.Store
	b    *fixture
	pool *pgxpool.Pool
}

func (u unguarded) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	var results []store.ClaimResult
	for _, c := range cs {
		rows, err := u.Executions(ctx, []execution.ID{c.Key.ID})
		if err != nil || len(rows) != 1 {
			return nil, err
		}
		r := store.ClaimResult{Outcome: store.Outcome{Row: rows[0]}}
		if rows[0].Status == execution.Scheduled && rows[0].Epoch == c.Key.Epoch && rows[0].Incarnation == w.Incarnation {
			_, err := u.pool.Exec(ctx, `update execution set status = 'running', started_at = $2, run_deadline = $3, claim_beat = $4,
				written_by = 'worker' where id = $1 and status in ('scheduled', 'running')`,
				int64(c.Key.ID), u.b.now, u.b.now.Add(storetest.RunTimeout), int64(c.Beat)) //nolint:gosec // small
			if err != nil {
				return nil, err
			}
			if rows, err = u.Executions(ctx, []execution.ID{c.Key.ID}); err != nil {
				return nil, err
			}
			r.Outcome = store.Outcome{Applied: true, Row: rows[0]}
		}
		results = append(results, r)
	}
	return results, nil
}

// The check can fail: it detects a claim without its guard.
func TestLinearizableDetectsUnguardedClaim(t *testing.T) {
	b := newFixture(t)
	pool, err := pgxpool.New(b.ctx, b.url)
	b.must(err)
	defer pool.Close()
	end := time.Now().Add(testenv.Patience())
	for seed := uint64(0); time.Now().Before(end); seed++ {
		b.emptyDatabase()
		unexplained, _ := storetest.Linearizable(t, unguarded{b.Store, b, pool}, b.emptyModel(), seed, storetest.Shape{
			Cells: 6, Clients: 4, Calls: 3, Only: []string{"Claim", "Executions"},
		})
		if unexplained != "" {
			t.Logf("found at seed %d: %s", seed, unexplained)
			return
		}
	}
	t.Error("two claims of one epoch went unnoticed")
}
