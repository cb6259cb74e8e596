package postgrestest_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
	"handoff/core/testenv"
)

// openDemotable is a store all of whose connections refuse writes. promote makes new connections accept
// them.
func (fi *fixture) openDemotable(o postgres.Options) (s *postgres.Store, promote func()) {
	setting := fmt.Sprintf("alter database %s set default_transaction_read_only = ", pgx.Identifier{fi.conn.Config().Database}.Sanitize())
	fi.execSQL(setting + "on")
	s = fi.openStore(o)
	fi.openConnections(s, 16)
	return s, func() { fi.execSQL(setting + "off") }
}

// While new connections are as read-only as those of the pool, the pool keeps its connections, which can
// still read. As soon as new ones can write, the first write of each pool detects this, closes all old
// connections and is made over a new one.
func TestPoolDropsConnectionsToDemotedServer(t *testing.T) {
	b := newFixture(t)
	w := b.activeWorker("w")
	key := b.runningExecution(w)
	s, promote := b.openDemotable(postgres.Options{HeartbeatConns: 1})
	kept := func(when string, want int64) {
		t.Helper()
		if work, beats := s.Use(); work.Resets != want || beats.Resets != want {
			t.Errorf("%s: the connections were thrown away %d times and those of heartbeats %d times, want %d", when, work.Resets, beats.Resets, want)
		}
	}
	beat := func() error {
		_, err := s.Heartbeat(b.ctx, store.Beat{WorkerKey: w, Number: 9, Lease: time.Minute, Held: []execution.Key{key}})
		return err
	}
	create := func() error {
		_, err := s.Create(b.ctx, []store.NewExecution{{ActionRef: "a"}})
		return err
	}
	cordon := func() error {
		_, err := s.SetCordon(b.ctx, store.Cordon{Worker: w.ID, On: true})
		return err
	}
	for what, write := range map[string]func() error{"a heartbeat": beat, "a statement": create, "a transaction": cordon} {
		b.expectUnavailable(what+" on a read-only database", write(), "25006")
	}
	kept("a database that takes no writes", 0)

	promote()
	deadline := time.Now().Add(testenv.Patience())
	for create() != nil { // a pool checks once a second
		if time.Now().After(deadline) {
			t.Fatal("long after the promotion the pool still leads to the old server")
		}
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := cordon(); err != nil {
				t.Errorf("a transaction: %v", err)
			}
		})
	}
	all.Wait()
	for beat() != nil {
		if time.Now().After(deadline) {
			t.Fatal("long after the promotion the heartbeats' pool still leads to the old server")
		}
	}
	kept("a database with a new primary", 1)
}
