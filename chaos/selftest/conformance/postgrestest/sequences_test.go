package postgrestest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/history"
	"handoff/chaos/selftest/conformance"
	"handoff/chaos/selftest/conformance/storetest"
	"handoff/core/execution"
	"handoff/core/testenv"
	"handoff/sim/kernel"
	"handoff/sim/simnet"
	"handoff/sim/simstore"
)

// lanes is the number of databases on which sequences run concurrently.
const lanes = 4

// randomCommands is the number of random commands that TestSequences compares.
func randomCommands() int {
	if testenv.All() {
		return 10_000
	}
	return 700
}

// The model of the simulated world and PostgreSQL give the same answers to random commands, and
// their audits are equal. For more and other commands: HANDOFF_CONFORMANCE_STEPS=100000
// HANDOFF_CONFORMANCE_SEED=2 go test ./chaos/selftest/conformance/postgrestest -run TestSequences -timeout
// 1h
func TestSequences(t *testing.T) {
	t.Parallel()
	free := make(chan *fixture, lanes)
	for range lanes {
		free <- newFixture(t)
	}
	commands := storetest.Sequences(t, runOnModel, func(_ *testing.T, body func(storetest.Subject)) {
		b := <-free
		defer func() { free <- b }()
		b.emptyDatabase()
		body(b.newSubject())
	}, randomCommands(), lanes)
	(<-free).recordAgreement(conformance.Result{Commands: commands})
}

// emptyDatabase empties the database. It rarely truncates: each time makes about forty new files, which the
// server has to remove before the database can be dropped.
func (fi *fixture) emptyDatabase() {
	fi.emptied++
	if fi.emptied%100 == 0 {
		fi.execSQL(`truncate action, concurrency_slot, worker, worker_incarnation, worker_expiry, execution_record, execution_work, execution_unhandled, dead_letter, observation, refused_result, transition_group restart identity`)
		return
	}
	_, err := fi.conn.PgConn().Exec(fi.ctx, emptying).ReadAll()
	fi.must(err)
}

// emptying is one transaction; only its end checks the references between workers and incarnations.
const emptying = `
delete from concurrency_slot; delete from action; delete from worker_incarnation; delete from worker; delete from worker_expiry;
delete from execution_record; delete from execution_work; delete from execution_unhandled; delete from dead_letter; delete from observation; delete from refused_result; delete from transition_group;
select setval(pg_get_serial_sequence(t.name, t.key), 1, false)
  from (values ('action', 'id'), ('worker', 'id'), ('worker_incarnation', 'incarnation'), ('execution_record', 'id'), ('dead_letter', 'id'), ('observation', 'id'),
               ('refused_result', 'id'), ('transition_group', 'id')) t (name, key)`

func (fi *fixture) newSubject() storetest.Subject {
	return storetest.Subject{
		Store: fi.Store, Advance: fi.advanceClock,
		Kept: func() (letters, refused int) {
			fi.scanRow(`select (select count(*) from dead_letter), (select count(*) from refused_result)`, nil, &letters, &refused)
			return letters, refused
		},
		Audit: fi.readAudit, LeaveSlot: fi.leaveSlot, TakeSlot: fi.takeSlot, Foreign: fi.writeForeignReason,
	}
}

// writeForeignReason writes a reason that only the next release may write, after its migration.
func (fi *fixture) writeForeignReason(id execution.ID, write bool) {
	value := execution.Connection.String()
	if write {
		value = "of_a_newer_release"
		fi.execSQL("alter type failure_reason add value if not exists 'of_a_newer_release'")
	}
	fi.execSQL(fmt.Sprintf(`update execution set retry_reason = case when status < 'completed' then '%[1]s'::failure_reason end,
		failure_reason = case when status in ('failed', 'abandoned') then '%[1]s'::failure_reason else failure_reason end where id = %[2]d`, value, id))
}

func (fi *fixture) leaveSlot(id execution.ID) {
	fi.execSQL("update execution set orchestrated_at = ended where id = $1", int64(id))
}

func (fi *fixture) takeSlot(id execution.ID) {
	fi.execSQL(`update concurrency_slot set execution = $1, taken_at = $2 where (action, number) =
		(select s.action, min(s.number) from concurrency_slot s join execution e on e.action = s.action where e.id = $1 and s.execution is null group by s.action)`,
		int64(id), fi.now)
}

// readAudit reads the audit table.
func (fi *fixture) readAudit(after int) (changes []storetest.Change) {
	rows, err := fi.conn.Query(fi.ctx, `
		select execution, coalesce("from"::text, 'none'), "to"::text, epoch, old_epoch, named_epoch, coalesce(worker, 0), coalesce(incarnation, 0),
		       writer::text, coalesce(writer_incarnation, 0), coalesce(reason::text, '')
		  from execution_transition order by id offset $1`, after)
	fi.must(err)
	var c storetest.Change
	var from, to, by, reason string
	_, err = pgx.ForEachRow(rows, []any{
		&c.ID, &from, &to, &c.Epoch, &c.OldEpoch, &c.Named, &c.Worker, &c.Incarnation, &by, &c.WriterIncarnation, &reason,
	}, func() (err error) {
		c.From = execution.None
		if from != "none" {
			c.From, err = execution.ParseStatus(from)
			fi.must(err)
		}
		c.To, err = execution.ParseStatus(to)
		fi.must(err)
		c.Reason, err = execution.ParseReason(reason)
		fi.must(err)
		for c.By = execution.NoPart; c.By.String() != by; c.By++ {
		}
		changes = append(changes, c)
		return nil
	})
	fi.must(err)
	return changes
}

// runOnModel runs a body on the model of the simulated world, without its network.
func runOnModel(t *testing.T, body func(storetest.Subject)) {
	k := kernel.New(kernel.Options{Start: beginning})
	defer k.Close()
	var seen changes
	db := simstore.New(k, simnet.New(k), &seen)
	body(storetest.Subject{
		Store: db.Detached(), Advance: func(d time.Duration) { db.Clock().Step(d) },
		Kept: db.Kept, Audit: func(after int) []storetest.Change { return seen[after:] },
		LeaveSlot: rowEditor(t, db, func(tx *simstore.Tx, id execution.ID) { tx.HandleKeepingSlot(id, nil) }),
		TakeSlot:  rowEditor(t, db, (*simstore.Tx).TakeSlot), Foreign: db.WriteForeign,
	})
}

// rowEditor edits the model's database without its methods.
func rowEditor(t *testing.T, db *simstore.Database, edit func(tx *simstore.Tx, id execution.ID)) func(id execution.ID) {
	return func(id execution.ID) {
		if err := db.Detached().Step(t.Context(), func(tx *simstore.Tx) { edit(tx, id) }); err != nil {
			t.Error(err)
		}
	}
}

// changes are the changes of status in the model's history.
type changes []storetest.Change

func (c *changes) Observe(e *history.Event) {
	switch e.Kind {
	case history.Created:
		*c = append(*c, storetest.Change{ID: e.Execution, To: e.To, By: e.By, Reason: e.Reason})
	case history.Transition:
		*c = append(*c, storetest.Change{
			ID: e.Execution, From: e.From, To: e.To, Epoch: e.Epoch, OldEpoch: e.OldEpoch, Named: e.Named, Worker: e.Worker,
			Incarnation: e.Incarnation, By: e.By, WriterIncarnation: e.Writer, Reason: e.Reason,
		})
	}
}
