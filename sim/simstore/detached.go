package simstore

import (
	"maps"
	"slices"

	"handoff/chaos/history"
)

// Detached returns a client whose steps are applied at once, past the network and outside of every
// process, for those who hold the model against the real database.
func (db *Database) Detached() *Client { return &Client{db: db} }

// Clone returns a copy of the database as it is, on the same clock, that writes no history.
func (db *Database) Clone() *Database {
	c := *db
	c.sink = history.Tee{}
	c.rows = slices.Clone(db.rows)
	c.byKey, c.actions, c.retries = maps.Clone(db.byKey), maps.Clone(db.actions), maps.Clone(db.retries)
	c.workers, c.byName = slices.Clone(db.workers), maps.Clone(db.byName)
	c.incarnations = slices.Clone(db.incarnations)
	c.letters = slices.Clone(db.letters)
	c.runtimes = slices.Clone(db.runtimes)
	c.requests = make(map[string]*requests, len(db.requests))
	for _, runtime := range db.runtimes {
		copied := slices.Clone(*db.requests[runtime])
		c.requests[runtime] = &copied
	}
	return &c
}

// Kept is how many dead letters and refused results were stored.
func (db *Database) Kept() (deadLetters, refusedResults int) { return db.stored, db.refused }
