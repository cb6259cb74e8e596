package discovery

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// Limit is the number of distinct situations that Counts distinguishes. Almost every scenario of the library
// shows fewer than 300. In everything-at-once, faults overlap in ever new combinations: 200 runs show 8,000
// situations, and the number keeps growing.
const Limit = 16384

// Counts counts, for every situation, the runs in which it was seen. Runs and counts may be added in any
// order, and in parts that are merged later; the result is the same. The zero value is empty.
//
// Beyond Limit, only the situations with the smallest fingerprints are counted. Once there are Limit smaller
// fingerprints than a situation's, it is never counted again, so each situation in the result was counted
// from the first run on.
type Counts struct {
	runs int
	// seen may grow to 2*Limit entries, so that it rarely has to be cut.
	seen map[uint64]int
	// capped reports whether entries were cut.
	capped bool
}

// Add adds a run. situations lists each of the run's situations once.
func (c *Counts) Add(situations []uint64) {
	if c.seen == nil {
		c.seen = make(map[uint64]int)
	}
	c.runs++
	for _, f := range situations {
		c.seen[f]++
	}
	if len(c.seen) > 2*Limit {
		c.cutToLimit()
	}
}

// Merge adds the counts of other runs.
func (c *Counts) Merge(o *Counts) {
	if c.seen == nil {
		c.seen = make(map[uint64]int)
	}
	c.runs += o.runs
	c.capped = c.capped || o.capped
	for f, runs := range o.seen {
		c.seen[f] += runs
	}
	if len(c.seen) > 2*Limit {
		c.cutToLimit()
	}
}

// cutToLimit removes all but the Limit smallest fingerprints.
func (c *Counts) cutToLimit() {
	if len(c.seen) <= Limit {
		return
	}
	c.capped = true
	for _, f := range slices.Sorted(maps.Keys(c.seen))[Limit:] {
		delete(c.seen, f)
	}
}

// storedCounts is the form in which Counts are stored in files.
type storedCounts struct {
	Runs   int            `json:"runs"`
	Seen   map[uint64]int `json:"seen"`
	Capped bool           `json:"capped"`
}

// MarshalJSON implements json.Marshaler. Equal counts give equal JSON.
func (c Counts) MarshalJSON() ([]byte, error) {
	c.seen = maps.Clone(c.seen)
	c.cutToLimit()
	return json.Marshal(storedCounts{c.runs, c.seen, c.capped})
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Counts) UnmarshalJSON(text []byte) error {
	var in storedCounts
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	for _, runs := range in.Seen {
		if runs < 1 || runs > in.Runs || len(in.Seen) > Limit {
			return errors.New("counts of situations: no runs can have these counts; write the file again")
		}
	}
	*c = Counts{in.Runs, in.Seen, in.Capped}
	return nil
}
