package simstore

import (
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
	"handoff/sim/simnet"
)

// Standby is an asynchronous replica that has stopped following: a copy of the database as it was
// then. The copy is discarded when the replica takes over.
//
// No number is used twice: the replica skips those that the old primary has used. A sequence of PostgreSQL
// does so for up to 32 values, which it has logged ahead. Not modelled: a sequence that has used more than
// that.
type Standby struct {
	db   *Database
	at   time.Duration
	then *Database
}

// Standby returns a replica that stops following now.
func (da *Database) Standby() *Standby { return &Standby{db: da, at: da.k.Now(), then: da.Clone()} }

// Promote ends the primary with all its connections and makes the replica take over, for the fault
// of that name. Everything committed since the replica stopped following is gone.
func (s *Standby) Promote(fault string) {
	db := s.db
	db.Stop()
	db.net.Touch(simnet.Touched{Fault: fault, Process: Server})
	before := *db
	*db = *s.then
	s.then = nil
	// Keep the data of the server itself and of its observers.
	db.sink, db.event, db.made, db.onStatement, db.onEmptyCall = before.sink, before.event, before.made, before.onStatement, before.onEmptyCall
	db.readOnly, db.full, db.noConnections = before.readOnly, before.full, before.noConnections
	db.demoted, db.demotedAt, db.retired = before.demoted, before.demotedAt, before.retired
	db.writeFailures, db.readFailures, db.session = before.writeFailures, before.readFailures, before.session
	db.emit(&history.Event{Kind: history.DatabaseRewound, Process: Server, Due: s.at})
	for db.rows.n < before.rows.n {
		db.rows.addRow(execution.Execution{})
	}
	s.retireIncarnations(&before)
	s.emitCordons(&before)
	db.Start()
}

// emitCordons writes an event for each worker that is cordoned, or no longer cordoned, because an operator's
// latest command was lost.
func (s *Standby) emitCordons(before *Database) {
	for i := range s.db.workers {
		if on := s.db.workers[i].cordoned; on != before.workers[i].cordoned {
			s.db.emit(&history.Event{Kind: history.WorkerCordoned, Process: Server, Worker: execution.WorkerID(i + 1), Count: oneIf(on)})
		}
	}
}

// retireIncarnations skips the numbers of incarnations that the replica lacks, and writes an event for each
// lifecycle that the takeover has changed.
func (s *Standby) retireIncarnations(before *Database) {
	db := s.db
	for i := range before.incarnations {
		old := before.incarnations[i]
		is := execution.Lost
		if i < len(db.incarnations) {
			is = db.incarnations[i].lifecycle
		} else {
			db.incarnations = append(db.incarnations, incarnation{lifecycle: execution.Lost})
		}
		if old.worker != 0 && is != old.lifecycle {
			db.emit(&history.Event{
				Kind: history.WorkerLifecycle, Process: Server, Worker: old.worker, Incarnation: execution.Incarnation(i + 1), Lifecycle: is,
			})
		}
	}
}
