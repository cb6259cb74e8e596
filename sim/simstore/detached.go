package simstore

import (
	"maps"
	"slices"

	"handoff/chaos/history"
)

// Detached returns a client whose steps are applied at once, without the network and outside every
// process, for comparing the model with the real database.
func (da *Database) Detached() *Client { return &Client{db: da, made: new(uint64)} }

// Clone returns a copy of the current database, on the same clock, that writes no history.
func (da *Database) Clone() *Database {
	c := *da
	c.sink = history.Tee{}
	c.rows = da.rows.clone()
	c.byKey, c.actions, c.retries = maps.Clone(da.byKey), maps.Clone(da.actions), maps.Clone(da.retries)
	c.progeny = maps.Clone(da.progeny)
	c.workers, c.byName = slices.Clone(da.workers), maps.Clone(da.byName)
	c.incarnations = slices.Clone(da.incarnations)
	c.left = slices.Clone(da.left)
	c.refusals = slices.Clone(da.refusals)
	c.letters, c.observations = slices.Clone(da.letters), slices.Clone(da.observations)
	c.claiming, c.spare, c.foreign = claimScratch{}, nil, maps.Clone(da.foreign)
	c.requests, c.lanes = make(map[lane]*queue, len(da.lanes)), nil
	for _, q := range da.lanes {
		copied := &queue{lane: q.lane, unlimited: slices.Clone(q.unlimited)}
		for _, l := range q.limited {
			copied.limited = append(copied.limited, &limitedRequests{l.action, slices.Clone(l.requests)})
		}
		c.requests[q.lane], c.lanes = copied, append(c.lanes, copied)
	}
	c.settling = slices.Clone(da.settling)
	c.keyed, c.limits = slices.Clone(da.keyed), slices.Clone(da.limits)
	c.slots = make(map[string]*slots, len(da.slots))
	for _, ref := range da.limits {
		c.slots[ref] = &slots{limit: da.slots[ref].limit, holders: slices.Clone(da.slots[ref].holders)}
	}
	c.children = maps.Clone(da.children)
	for parent, waiting := range c.children { //detlint:ok each list is copied by itself
		c.children[parent] = slices.Clone(waiting)
	}
	return &c
}

// Kept returns how many dead letters were ever stored, and how many refused results still exist.
func (da *Database) Kept() (deadLetters, refusedResults int) { return da.stored, len(da.refusals) }
