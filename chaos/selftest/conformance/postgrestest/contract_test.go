package postgrestest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/selftest/conformance"
	"handoff/chaos/selftest/conformance/storetest"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
)

// The same contract as for the model of the simulated world. After each case, every query is
// answered as by the model. All cases share a database, emptied before each.
func TestContract(t *testing.T) {
	b := newFixture(t)
	b.Store = b.openStore(postgres.Options{Now: b.readClock, Tracer: &refused{t: t}, SlowWalk: 1}) // searches of lanes begin at bounds
	storetest.Compare(t, runOnModel, func(_ *testing.T, body func(storetest.Subject)) {
		b.emptyDatabase()
		b.now = beginning
		body(b.newSubject())
	})
	b.recordAgreement(conformance.Result{Cases: len(storetest.Cases())})
}

// The next release will have added columns, tables and values before the last process of this one has ended.
// A quarter of the cases is enough: they use almost every statement, and statements read and write columns by
// their names.
func TestContractOnNewerSchema(t *testing.T) {
	b := newFixture(t)
	for _, sql := range []string{
		"create table of_a_newer_release (id bigint primary key)",
		"alter table execution_record add column of_a_newer_release text not null default 'x', add column another_one jsonb",
		"alter table execution_work add column of_a_newer_release text not null default 'x', add column another_one jsonb",
		"alter table worker add column of_a_newer_release int not null default 1",
		"alter table worker_incarnation add column of_a_newer_release text[] default '{a}'",
		"alter table dead_letter add column of_a_newer_release timestamptz",
		"alter table concurrency_slot add column of_a_newer_release int",
		"alter table action add column of_a_newer_release int",
		"alter table transition_group add column of_a_newer_release int",
		"alter type failure_reason add value 'of_a_newer_release' after 'connection'",
		"alter type execution_status add value 'of_a_newer_release' before 'completed'",
		"alter type execution_status add value 'another_one'",
		"alter type worker_lifecycle add value 'of_a_newer_release'",
		"create index of_a_newer_release_index on execution_record (of_a_newer_release)",
		"insert into schema_version (version, needs) select max(version) + 1, max(version) from schema_version",
	} {
		b.execSQL(sql)
	}
	b.Store = b.openStore(postgres.Options{Now: b.readClock, Tracer: &refused{t: t}})
	b.must(b.Store.SchemaReady(b.ctx))
	for i, c := range storetest.Cases() {
		if i%4 != 0 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			b.emptyDatabase()
			b.now = beginning
			storetest.RunCase(t, c, b.newSubject())
		})
	}
}

// A worker whose row a newer program wrote is listed, marked as unreadable, gets no work, and is not reaped.
func TestUnreadableWorkerGetsNoWork(t *testing.T) {
	b := newFixture(t)
	unknown, strange := b.activeWorker("w1"), b.activeWorker("w2")
	b.activeWorker("w3")
	b.execSQL("alter type worker_lifecycle add value 'hibernating'")
	b.execSQL("update worker_incarnation set lifecycle = 'hibernating', lease_expires_at = $2 where incarnation = $1", int64(unknown.Incarnation), b.now.Add(-lease))
	b.execSQL(`update worker_incarnation set capabilities = '{"health": {"total_executions": "many"}}' where incarnation = $1`, int64(strange.Incarnation))
	rows, err := b.Workers(b.ctx, nil)
	b.must(err)
	var seen []string
	for i := range rows {
		seen = append(seen, fmt.Sprint(rows[i].Lifecycle, " ", rows[i].Fits("shell"), " ", rows[i].Unreadable))
	}
	want := []string{
		fmt.Sprint(execution.NoLifecycle, ` false unknown lifecycle "hibernating"`),
		`active false capabilities.health.total_executions is "many", must be a whole number`,
		"active true ",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("the workers are\n%q, want\n%q", seen, want)
	}
	reaped, err := b.Reap(b.ctx, []store.Reap{{WorkerKey: unknown, Beat: rows[0].Beat}})
	b.must(err)
	if reaped[0] {
		t.Error("a worker with an unknown lifecycle was marked lost")
	}
}

// A worker holds an execution in a status of a newer program. A survey counts and names it once, and counts
// the others as usual.
func TestSurveyCountsUnknownStatusOnce(t *testing.T) {
	b := newFixture(t)
	id := b.runningExecution(b.activeWorker("w")).ID
	b.requestedExecution()
	b.execSQL("alter type execution_status add value 'paused' before 'completed'")
	b.execSQL("set session_replication_role = replica")
	b.execSQL("update execution_work set status = 'paused' where id = $1", int64(id))
	found, err := b.Survey(b.ctx)
	b.must(err)
	expectEqual(b, "the others", fmt.Sprint(found.Waiting), fmt.Sprint([]store.Waiting{{Status: execution.Requested, Count: 1}}))
	expectEqual(b, "how many can't be read", found.UnreadableCount, 1)
	want := []store.UnreadableRow{{ID: id, Why: fmt.Sprintf(`a row can't be read: status of execution %d: unknown execution status "paused"`, id)}}
	if !slices.Equal(found.Unreadable, want) {
		t.Errorf("those that can't be read are %+v, want %+v", found.Unreadable, want)
	}
}

// recordAgreement records the extent to which this version of PostgreSQL agreed with the model.
func (fi *fixture) recordAgreement(r conformance.Result) {
	if fi.Failed() {
		return
	}
	var version string
	fi.scanRow("show server_version", nil, &version)
	r.Server, r.Version = "PostgreSQL", strings.Fields(version)[0]
	fi.Logf("%+v", r)
	fi.must(conformance.Record(r))
}
