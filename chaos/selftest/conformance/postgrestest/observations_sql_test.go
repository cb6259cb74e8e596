package postgrestest_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/servers"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
)

// The query counts the actions that each part would have taken, and the dispatches whose wait another event
// ended.
func TestObservationsQueryCountsByHourAndPart(t *testing.T) {
	query, err := os.ReadFile("../../../../docs/sql/observations.sql")
	if err != nil {
		t.Fatal(err)
	}
	url, ctx := servers.Database(t).URL, t.Context()
	s, err := postgres.Open(ctx, url, postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.PutActions(ctx, []execution.Action{{Ref: "core.echo", Runtime: "shell", Entrypoint: "echo"}}))
	_, err = s.Create(ctx, []store.NewExecution{{ActionRef: "core.echo"}, {ActionRef: "core.echo"}})
	must(err)
	w, err := s.Register(ctx, store.Registration{Process: 1, Attempt: 1, Name: "w", Runtimes: []string{"shell"}, Capacity: 2, Lease: time.Hour})
	must(err)
	_, err = s.Heartbeat(ctx, store.Beat{WorkerKey: w.WorkerKey, Number: 1, Lease: time.Hour, ConsumerAlive: true})
	must(err)
	must(s.SetLifecycle(ctx, w.WorkerKey, execution.Active))
	rows, err := s.ClaimForScheduling(ctx, store.SchedulingClaim{Executor: "e", Expiry: time.Hour, Others: 2})
	must(err)
	var reclaims []store.Reclaim
	for i := range rows {
		sent, err := s.Dispatch(ctx, "e", []store.Dispatch{{Key: rows[i].Key(), Worker: w.WorkerKey, Timeout: time.Minute}})
		must(err)
		reclaims = append(reclaims, store.Reclaim{
			Key: sent[0].Row.Key(), Cause: store.Unclaimed, By: execution.TimeoutMonitor, Reason: execution.DispatchTimeout, Policy: config.Reschedule,
		})
	}
	_, err = s.ObserveReclaims(ctx, reclaims)
	must(err)
	_, err = s.ObserveWorkers(ctx, []store.ProbedWorker{{WorkerKey: w.WorkerKey, Reason: "refused"}})
	must(err)
	reclaims[0].Cause, reclaims[0].By = store.DeadLettered, execution.DeadLetterHandler
	_, err = s.Reclaim(ctx, reclaims[:1])
	must(err)

	conn, err := pgx.Connect(ctx, url)
	must(err)
	defer conn.Close(ctx)
	found, err := conn.Query(ctx, string(query))
	must(err)
	lines, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (string, error) {
		var hour time.Time
		var part, would, reason string
		var n, executions, workers, overtaken int
		var longest *time.Duration
		err := row.Scan(&hour, &part, &would, &reason, &n, &executions, &workers, &longest, &overtaken)
		if longest != nil && (*longest < 0 || *longest > time.Hour) {
			err = fmt.Errorf("an outage of %v", *longest)
		}
		return fmt.Sprint(part, " ", would, " ", reason, " ", n, executions, workers, overtaken, longest != nil), err
	})
	must(err)
	want := []string{"execution_timeout_monitor requested dispatch_timeout 2 2 1 1 false", "health_prober unreachable refused 1 0 1 0 true"}
	if !slices.Equal(lines, want) {
		t.Errorf("the query finds\n%q, want\n%q", lines, want)
	}
}
