package discovery

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"handoff/chaos/dense"
	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// Collector collects the distinct situations of one run. It implements history.Sink, does not change events,
// and spends time only on transitions and faults.
//
// A situation is one transition of an execution, regardless of the execution and the time: the status before
// and after, the reason, the epoch after it (7 means 7 or more), the change of the epoch (0, 1, or anything
// else, which no lawful transition makes), and the kinds of the faults on the execution's path. A fault is on
// the path if it was present at any time since the execution's previous transition or its creation, and
// affected
//
//   - the process that wrote this transition or the previous one,
//   - the worker that the transition names, which is the owner before a reclaim and after any other
//     transition,
//   - or something that every execution needs: a server, a queue of the executors, a type of
//     messages.
//
// Several faults of one kind count as one. A fault that has ended counts until the next transition, because
// its consequence is often written later, for example if a lease expired while the worker was away.
type Collector struct {
	faults []startedFault
	// kinds holds the hashes of the kinds of faults so far. A kind's index is its bit in a bit set.
	kinds   []uint64
	names   map[execution.WorkerID]string
	last    dense.Table[execution.ID, previousTransition]
	seen    map[uint64]struct{}
	scratch [16]byte
}

// startedFault is a fault that has begun.
type startedFault struct {
	fault string
	kind  int
	// processes holds its targets; nil if it is on every path.
	processes   []string
	from, until time.Duration
	lasts       bool
}

// previousTransition is the latest transition of an execution that has not ended.
type previousTransition struct {
	at     time.Duration
	writer string
}

// maxKinds limits the kinds of faults that are distinguished in one run; actual runs have fewer.
const maxKinds = 64

// maxEpoch means this epoch or any larger epoch.
const maxEpoch = 7

// NewCollector returns a Collector that has observed no events.
func NewCollector() *Collector {
	return &Collector{
		names: make(map[execution.WorkerID]string), seen: make(map[uint64]struct{}),
	}
}

// Observe implements history.Sink.
func (c *Collector) Observe(e *history.Event) {
	switch e.Kind {
	case history.Transition:
		c.recordTransition(e)
	case history.Created:
		c.last.Set(e.Execution, previousTransition{at: e.At})
	case history.WorkerRegistered:
		c.names[e.Worker] = e.Process
	case history.FaultBegan:
		c.recordFault(e)
	case history.FaultEnded:
		for i := range c.faults {
			if f := &c.faults[i]; f.lasts && f.fault == e.Fault {
				f.until, f.lasts = e.At, false
			}
		}
	default:
	}
}

func (c *Collector) recordFault(e *history.Event) {
	f := startedFault{fault: e.Fault, from: e.At, lasts: true}
	if !isCommonTarget(e.Process) {
		f.processes = strings.Split(e.Process, ",")
	}
	h := xxhash.Sum64String(e.Text)
	if f.kind = slices.Index(c.kinds, h); f.kind < 0 {
		f.kind = min(len(c.kinds), maxKinds-1)
		if len(c.kinds) < maxKinds {
			c.kinds = append(c.kinds, h)
		}
	}
	c.faults = append(c.faults, f)
}

// isCommonTarget reports whether a fault with this target is on every path.
func isCommonTarget(target string) bool {
	switch target {
	case "", "broker", "database", "requested", "status_changed", "completed", "dead_letters":
		return true
	}
	return false
}

func (c *Collector) recordTransition(e *history.Event) {
	before := previousTransition{at: e.At}
	if last := c.last.At(e.Execution); last != nil {
		before = *last
	}
	var on uint64
	for i := range c.faults {
		f := &c.faults[i]
		if (f.lasts || f.until >= before.at) && (f.processes == nil || f.strikesAny(e.Process, before.writer, c.names[e.Worker])) {
			on |= 1 << f.kind
		}
	}
	c.seen[c.situationFingerprint(e, on)] = struct{}{}
	if oracle.Terminal(e.To) {
		c.last.Delete(e.Execution)
	} else {
		c.last.Set(e.Execution, previousTransition{at: e.At, writer: e.Process})
	}
}

func (s *startedFault) strikesAny(path ...string) bool {
	return slices.ContainsFunc(path, func(name string) bool { return name != "" && slices.Contains(s.processes, name) })
}

// situationFingerprint returns the number of a situation. It hashes the names of the fault kinds, because
// runs number the kinds differently.
func (c *Collector) situationFingerprint(e *history.Event, faults uint64) uint64 {
	step := uint64(2)
	if e.Epoch == e.OldEpoch || e.Epoch == e.OldEpoch+1 {
		step = uint64(e.Epoch - e.OldEpoch)
	}
	epoch := min(uint64(e.Epoch), maxEpoch)
	binary.LittleEndian.PutUint64(c.scratch[:], uint64(e.From)|uint64(e.To)<<8|uint64(e.Reason)<<16|step<<24|epoch<<32)
	var set uint64
	for ; faults != 0; faults &= faults - 1 {
		set ^= c.kinds[bits.TrailingZeros64(faults)]
	}
	binary.LittleEndian.PutUint64(c.scratch[8:], set)
	return xxhash.Sum64(c.scratch[:])
}

// Situations returns the fingerprints of the distinct situations so far, ascending. If there are more than
// Limit, it returns the smallest. The caller owns the slice.
func (c *Collector) Situations() []uint64 {
	all := make([]uint64, 0, len(c.seen))
	for f := range c.seen {
		all = append(all, f)
	}
	slices.Sort(all)
	return all[:min(len(all), Limit)]
}
