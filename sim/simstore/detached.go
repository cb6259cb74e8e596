package simstore

import (
	"maps"
	"slices"

	"handoff/chaos/history"
)

// Detached returns a client whose steps are applied at once, without the network and outside every
// process, for comparing the model with the real database.
func (db *Database) Detached() *Client { return &Client{db: db, made: new(uint64)} }

// Clone returns a copy of the current database, on the same clock, that writes no history.
func (db *Database) Clone() *Database {
	c := *db
	c.sink = history.Tee{}
	c.rows = db.rows.clone()
	c.byKey, c.actions, c.retries = maps.Clone(db.byKey), maps.Clone(db.actions), maps.Clone(db.retries)
	c.progeny = maps.Clone(db.progeny)
	c.workers, c.byName = slices.Clone(db.workers), maps.Clone(db.byName)
	c.incarnations = slices.Clone(db.incarnations)
	c.left = slices.Clone(db.left)
	c.refusals = slices.Clone(db.refusals)
	c.letters, c.observations = slices.Clone(db.letters), slices.Clone(db.observations)
	c.claiming, c.spare, c.foreign = claiming{}, nil, maps.Clone(db.foreign)
	c.requests, c.lanes = make(map[lane]*queue, len(db.lanes)), nil
	for _, q := range db.lanes {
		copied := &queue{lane: q.lane, unlimited: slices.Clone(q.unlimited)}
		for _, l := range q.limited {
			copied.limited = append(copied.limited, &limited{l.action, slices.Clone(l.requests)})
		}
		c.requests[q.lane], c.lanes = copied, append(c.lanes, copied)
	}
	c.settling = slices.Clone(db.settling)
	c.keyed, c.limits = slices.Clone(db.keyed), slices.Clone(db.limits)
	c.slots = make(map[string]*slots, len(db.slots))
	for _, ref := range db.limits {
		c.slots[ref] = &slots{limit: db.slots[ref].limit, holders: slices.Clone(db.slots[ref].holders)}
	}
	c.children = maps.Clone(db.children)
	for parent, waiting := range c.children { //detlint:ok each list is copied by itself
		c.children[parent] = slices.Clone(waiting)
	}
	return &c
}

// Kept is how many dead letters were stored, and how many refused results are there.
func (db *Database) Kept() (deadLetters, refusedResults int) { return db.stored, len(db.refusals) }
