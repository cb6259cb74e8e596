package worker

import (
	"slices"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/host"
)

// registry tracks everything that one incarnation holds, from before the claim to after the end. It answers
// four questions: is this delivery a duplicate, is a run slot free, which epochs does the heartbeat report,
// and which actions must be killed.
type registry struct {
	// changed wakes tasks that wait for work to end. freed wakes tasks that wait for a run slot.
	changed host.Signal
	freed   host.Signal

	// capacity is the maximum number of held epochs.
	capacity int

	mu sync.Mutex
	// Each element repeats its entry's key, so that a lookup need not touch every entry.
	entries []heldEntry
	// refused is the number of entries whose claim was refused. Such entries do not take a slot.
	refused int
	beat    uint64
	// full reports whether all slots were ever taken at once. fullUntil is when that last ended. Whether all
	// are taken now follows from the entries.
	full      bool
	fullUntil time.Duration
	// closed is the reason why nothing may start any more; NoReason while the registry is open.
	closed execution.Reason
}

// heldEntry is an entry and its key.
type heldEntry struct {
	key execution.Key
	*entry
}

// entry is one held epoch.
type entry struct {
	key execution.Key
	// beat is the number of the latest heartbeat begun when the entry was made.
	beat uint64
	// wasFull reports whether all slots were taken at some time before the entry was made. fullUntil is when
	// that last ended.
	wasFull   bool
	fullUntil time.Duration
	// refused reports whether the claim was refused: the entry stays until its messages are settled, and
	// nothing runs in it.
	refused bool
	// granted reports whether the claim took effect. doubles are the earlier deliveries of the same epoch,
	// which are settled with the claim.
	granted bool
	doubles []delivery
	// alive reports whether an action is running or being started.
	alive bool
	run   Run
	// why is the reason for which the worker ends the run. The result will have it.
	why execution.Reason
	// grace is how long the action may take to end when the worker ends it.
	grace time.Duration
	// cancelHinted reports whether a hint announced a cancellation that the worker has not looked up in the
	// database yet.
	cancelHinted bool
	// cancelled reports whether the claim took effect, its answer was lost, and the execution was cancelled
	// before the worker knew. Only the claiming task uses it.
	cancelled bool
}

func newRegistry(h host.Host, capacity int) *registry {
	return &registry{changed: h.NewSignal(), freed: h.NewSignal(), capacity: capacity}
}

// isHeld reports whether key is held, so that another delivery of it is a duplicate.
func (r *registry) isHeld(key execution.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.findEntry(key) != nil
}

// addDouble adds a delivery of a held key to its entry if the claim has not taken effect. Then taken is true,
// and the delivery is settled with the claim. held reports whether the key is held at all, so that the
// delivery is a duplicate.
func (r *registry) addDouble(d delivery) (held, taken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.findEntry(d.Key)
	if e == nil {
		return false, false
	}
	if !e.granted {
		e.doubles = append(e.doubles, d)
	}
	return true, !e.granted
}

// findEntry returns the entry of a key, or nil if the key is not held.
func (r *registry) findEntry(key execution.Key) *entry {
	for i := range r.entries {
		if r.entries[i].key == key {
			return r.entries[i].entry
		}
	}
	return nil
}

// grantClaim records that a claim took effect, and returns the duplicates that came meanwhile.
func (r *registry) grantClaim(e *entry) []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.granted = true
	return e.takeDoubles()
}

// takeDoubles removes and returns the duplicates of an entry whose claim was refused. More may come until the
// entry is removed.
func (r *registry) takeDoubles(e *entry) []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return e.takeDoubles()
}

func (e *entry) takeDoubles() []delivery {
	doubles := e.doubles
	e.doubles = nil
	return doubles
}

// addEntry holds a key that is not held yet, if a slot is free and the registry is open. Otherwise it
// returns nil.
func (r *registry) addEntry(key execution.Key) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) >= r.capacity || r.closed != execution.NoReason {
		return nil
	}
	e := &entry{key: key, beat: r.beat, wasFull: r.full, fullUntil: r.fullUntil}
	r.entries = append(r.entries, heldEntry{key, e})
	r.full = r.full || len(r.entries) >= r.capacity
	return e
}

// lastFull returns the latest time at which all slots were taken, which may be now. ever is false if they
// never were.
func (r *registry) lastFull(now time.Duration) (at time.Duration, ever bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.takenSlots() >= r.capacity {
		return now, true
	}
	return r.fullUntil, r.full
}

// takenSlots returns the number of taken slots. An entry whose claim was refused takes no slot. Otherwise,
// with a capacity of 1, each late claim would make the worker look full, and its dispatch would never count.
func (r *registry) takenSlots() int { return len(r.entries) - r.refused }

// refuseClaim records that the claim of an entry was refused.
func (r *registry) refuseClaim(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !e.refused {
		e.refused = true
		r.refused++
	}
}

// removeEntries removes entries together, at the time now, and returns their duplicates.
func (r *registry) removeEntries(now time.Duration, gone ...*entry) (doubles []delivery) {
	r.mu.Lock()
	if r.takenSlots() >= r.capacity {
		r.fullUntil = now
	}
	for _, e := range gone {
		i := slices.IndexFunc(r.entries, func(h heldEntry) bool { return h.entry == e })
		if i < 0 {
			continue
		}
		r.entries = slices.Delete(r.entries, i, i+1)
		doubles = append(doubles, e.takeDoubles()...)
		if e.refused {
			r.refused--
		}
	}
	r.mu.Unlock()
	r.changed.Set()
	r.freed.Set()
	return doubles
}

// noteCancelHints records the cancellations that a hint announces. It reports whether one of their keys is
// held and not ended yet.
func (r *registry) noteCancelHints(changes []broker.Change) (any bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		for _, e := range r.entries {
			if e.key == c.Key && e.why == execution.NoReason {
				e.cancelHinted, any = true, true
			}
		}
	}
	return any
}

// takeHinted returns the held executions that hints have named since the last call.
func (r *registry) takeHinted() (ids []execution.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		if e.cancelHinted {
			e.cancelHinted = false
			ids = append(ids, e.key.ID)
		}
	}
	return ids
}

// countHeld returns the number of held epochs, and of actions that are alive.
func (r *registry) countHeld() (held, alive int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		if e.alive {
			alive++
		}
	}
	return len(r.entries), alive
}

// countClaimed returns the number of executions whose claim took effect.
func (r *registry) countClaimed() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.entries {
		if e.granted {
			n++
		}
	}
	return n
}

// nextBeat numbers a heartbeat and takes the snapshot that it reports, in one step: every entry in the
// snapshot has a smaller number, and every later entry has at least this number.
func (r *registry) nextBeat() (number uint64, held []execution.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beat++
	held = make([]execution.Key, len(r.entries))
	for i, e := range r.entries {
		held[i] = e.key
	}
	return r.beat, held
}

// beginAction reports whether an action may be started for e. If so, it counts the action as alive.
func (r *registry) beginAction(e *entry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.alive = e.why == execution.NoReason && r.closed == execution.NoReason
	if !e.alive && e.why == execution.NoReason {
		e.why = r.closed
	}
	return e.alive
}

// noteStarted stores the run of an entry. It reports whether the worker has decided meanwhile to end the run,
// and with what grace.
func (r *registry) noteStarted(e *entry, run Run) (ended bool, grace time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.run = run
	return e.why != execution.NoReason, e.grace
}

// noteStopped records that the action of e is no longer alive, and returns why the worker ended it: NoReason
// if the worker did not.
func (r *registry) noteStopped(e *entry) execution.Reason {
	r.mu.Lock()
	e.alive, e.run = false, nil
	why := e.why
	r.mu.Unlock()
	r.changed.Set()
	return why
}

// close ends everything and lets nothing else start.
func (r *registry) close(why execution.Reason, grace time.Duration) {
	r.mu.Lock()
	if r.closed == execution.NoReason {
		r.closed = why
	}
	r.mu.Unlock()
	r.endMatching(why, grace, func(execution.Key) bool { return true })
	r.changed.Set()
	r.freed.Set()
}

// endMatching kills the runs of the matching entries for the reason why; an earlier reason stays.
func (r *registry) endMatching(why execution.Reason, grace time.Duration, match func(execution.Key) bool) {
	r.mu.Lock()
	var runs []Run
	for _, e := range r.entries {
		if !match(e.key) {
			continue
		}
		if e.why == execution.NoReason {
			e.why, e.grace = why, grace
		}
		if e.run != nil {
			runs = append(runs, e.run)
		}
	}
	r.mu.Unlock()
	for _, run := range runs {
		run.Kill(grace)
	}
}

// extendFences gives every run a later fence.
func (r *registry) extendFences(fence time.Duration) {
	r.mu.Lock()
	runs := make([]Run, 0, len(r.entries))
	for _, e := range r.entries {
		if e.run != nil {
			runs = append(runs, e.run)
		}
	}
	r.mu.Unlock()
	for _, run := range runs {
		run.Extend(fence)
	}
}
