package discovery

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Limit is the number of distinct situations that Counts distinguishes. Almost every scenario of
// the library shows fewer than 300; everything-at-once, in which faults overlap in ever new sets,
// shows 8,000 in 200 runs and continues to grow.
const Limit = 16384

// Counts counts, for every situation, the runs in which it was seen. Runs and counts may be added
// in any order, and in parts that are merged later; the result is the same. The zero value is
// empty.
//
// Beyond Limit, only the situations with the smallest fingerprints count. Once there are Limit
// smaller ones, a situation can't count again, so every situation that counts has been counted from
// the first run on. Capped says that there were more.
type Counts struct {
	runs int
	// seen holds up to twice as many entries as count, so that it seldom has to be cut.
	seen   map[uint64]sighting
	capped bool
}

// sighting is the number of runs in which a situation was seen, and the smallest seed of these.
type sighting struct {
	runs  int
	first uint64
}

// Runs is the number of runs added.
func (c *Counts) Runs() int { return c.runs }

// Capped says that more than Limit distinct situations were seen, so that every figure is a lower
// bound.
func (c *Counts) Capped() bool { return c.capped || len(c.seen) > Limit }

// kept returns the situations that count, ascending.
func (c *Counts) kept() []uint64 {
	all := slices.Sorted(maps.Keys(c.seen))
	return all[:min(len(all), Limit)]
}

// Add adds a run with its situations, each listed once.
func (c *Counts) Add(seed uint64, situations []uint64) {
	c.runs++
	for _, f := range situations {
		c.add(f, sighting{1, seed})
	}
	c.cut()
}

// Merge adds the counts of other runs.
func (c *Counts) Merge(o *Counts) {
	c.runs += o.runs
	c.capped = c.capped || o.capped
	for f, s := range o.seen {
		c.add(f, s)
	}
	c.cut()
}

func (c *Counts) add(f uint64, s sighting) {
	known, ok := c.seen[f]
	if c.seen == nil {
		c.seen = make(map[uint64]sighting)
	}
	if ok {
		s = sighting{known.runs + s.runs, min(known.first, s.first)}
	}
	c.seen[f] = s
}

func (c *Counts) cut() {
	if len(c.seen) <= 2*Limit {
		return
	}
	c.capped = true
	for _, f := range slices.Sorted(maps.Keys(c.seen))[Limit:] {
		delete(c.seen, f)
	}
}

// countsJSON is the form of Counts in files: for each situation, in the order of the fingerprints,
// eight bytes of fingerprint, then its runs and its first seed as varints. A situation takes about
// 14 bytes of text, so Limit situations take 230 KB.
type countsJSON struct {
	Runs   int    `json:"runs"`
	Capped bool   `json:"capped,omitempty"`
	Seen   string `json:"seen,omitempty"`
}

// MarshalJSON implements json.Marshaler. Equal counts have equal texts.
func (c Counts) MarshalJSON() ([]byte, error) {
	var b []byte
	for _, f := range c.kept() {
		b = binary.BigEndian.AppendUint64(b, f)
		b = binary.AppendUvarint(b, uint64(c.seen[f].runs))
		b = binary.AppendUvarint(b, c.seen[f].first)
	}
	return json.Marshal(countsJSON{c.runs, c.Capped(), base64.RawStdEncoding.EncodeToString(b)})
}

var errCounts = errors.New("counts of situations: the text is cut short or was changed; write the file again")

// UnmarshalJSON implements json.Unmarshaler. It refuses any text that MarshalJSON would not write.
func (c *Counts) UnmarshalJSON(text []byte) error {
	var in countsJSON
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("counts of situations: %w", err)
	}
	b, err := base64.RawStdEncoding.DecodeString(in.Seen)
	if err != nil || in.Runs < 0 {
		return errCounts
	}
	read := Counts{runs: in.Runs, capped: in.Capped}
	var before uint64
	for len(b) > 0 {
		if len(b) < 8 {
			return errCounts
		}
		f := binary.BigEndian.Uint64(b)
		runs, n := binary.Uvarint(b[8:])
		first, m := binary.Uvarint(b[8+max(n, 0):])
		if n <= 0 || m <= 0 || runs == 0 || runs > uint64(in.Runs) || read.seen != nil && f <= before || len(read.seen) == Limit {
			return errCounts
		}
		read.add(f, sighting{int(runs), first})
		before, b = f, b[8+n+m:]
	}
	*c = read
	return nil
}
