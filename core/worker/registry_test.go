package worker

import (
	"context"
	"testing"
	"time"

	"handoff/core/execution"
)

func TestLateClaimDoesNotMakeWorkerFull(t *testing.T) {
	r := &registry{changed: idleSignal{}, freed: idleSignal{}, capacity: 1}
	late := r.addEntry(execution.Key{ID: 1, Epoch: 1})
	r.refuseClaim(late)
	if at, ever := r.lastFull(5 * time.Second); ever && at > 0 {
		t.Errorf("its only slot is taken by a claim that was refused, and it was full at %v", at)
	}
	if e := r.addEntry(execution.Key{ID: 2, Epoch: 1}); e != nil {
		t.Error("two entries hold one slot")
	}
	r.removeEntries(6*time.Second, late)
	if at, _ := r.lastFull(7 * time.Second); at > 0 {
		t.Errorf("nothing ever ran in its only slot, and it was full until %v", at)
	}
	e := r.addEntry(execution.Key{ID: 2, Epoch: 1})
	r.removeEntries(8*time.Second, e)
	if at, ever := r.lastFull(9 * time.Second); !ever || at != 8*time.Second {
		t.Errorf("a run held its only slot until 8s, and it was full until %v (%v)", at, ever)
	}
}

func TestClosedRegistryStartsNothing(t *testing.T) {
	r := &registry{changed: idleSignal{}, freed: idleSignal{}, capacity: 1}
	e := r.addEntry(execution.Key{ID: 1, Epoch: 1})
	r.closed = execution.WorkerLost
	if r.beginAction(e) || e.why != execution.WorkerLost {
		t.Errorf("it began, or ended for another reason: %v", e.why)
	}
}

func TestEntryIsRemovedOnce(t *testing.T) {
	r := &registry{changed: idleSignal{}, freed: idleSignal{}, capacity: 2}
	gone, stays := r.addEntry(execution.Key{ID: 1, Epoch: 1}), r.addEntry(execution.Key{ID: 2, Epoch: 1})
	r.refuseClaim(gone)
	r.removeEntries(time.Second, gone)
	r.removeEntries(time.Second, gone)
	if len(r.entries) != 1 || !r.isHeld(stays.key) || r.takenSlots() != 1 {
		t.Errorf("%d entries are left and %d slots are taken, want one of each", len(r.entries), r.takenSlots())
	}
}

// idleSignal is a signal without waiters.
type idleSignal struct{}

func (idleSignal) Set() {}

// Wait is never called.
func (idleSignal) Wait(context.Context, time.Duration) (bool, error) { return true, nil }

func TestCountClaimedIgnoresPendingClaims(t *testing.T) {
	r := &registry{changed: idleSignal{}, freed: idleSignal{}, capacity: 3}
	_, refused, granted := r.addEntry(execution.Key{ID: 1, Epoch: 1}), r.addEntry(execution.Key{ID: 2, Epoch: 1}), r.addEntry(execution.Key{ID: 3, Epoch: 1})
	r.refuseClaim(refused)
	r.takeDoubles(refused)
	r.grantClaim(granted)
	if n := r.countClaimed(); n != 1 {
		t.Errorf("%d executions are claimed, want one: of the other claims one is under way, and one was refused", n)
	}
}
