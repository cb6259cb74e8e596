package live

import "testing"

// A client that connected before a demotion reaches the new primary after its first write was refused. A
// client that connects meanwhile can write. At the end, no session of the old primary is left.
func TestClientsAbandonDemotedDatabase(t *testing.T) {
	w := databaseWorld(t)
	before, err := w.daemonStore(t, "before")
	if err != nil {
		t.Fatal(err)
	}
	var session int
	kept, err := w.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Release()
	x, touches := injection(t)
	undo, err := w.DemoteDatabase(x)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Exec(t.Context(), "create table chaos_kept ()"); err == nil {
		t.Error("a session from before writes, want SQLSTATE 25006")
	}
	if err := kept.QueryRow(t.Context(), "select 1").Scan(&session); err != nil {
		t.Errorf("a session from before does not read: %v", err)
	}
	during, err := w.daemonStore(t, "during")
	if err != nil {
		t.Fatalf("a daemon that starts: %v", err)
	}
	if err := registerWorker(t, during, "during"); err != nil {
		t.Errorf("a write of a session that began meanwhile: %v", err)
	}
	if err := registerWorker(t, before, "before"); err != nil {
		t.Errorf("a write through a pool from before: %v", err)
	}
	if work, _ := before.Use(); work.Resets != 1 {
		t.Errorf("the pool from before was reset %d times, want once", work.Resets)
	}
	undo()
	if touched := touches(); touched != 1 {
		t.Errorf("the fault was touched %d times, want once", touched)
	}
	if err := registerWorker(t, during, "after"); err != nil {
		t.Errorf("a write after the end: %v", err)
	}
}
