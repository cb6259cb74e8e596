package simstore

import (
	"errors"
	"maps"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
	"handoff/core/store"
)

// A standby that takes over has the rows as they were when it stopped following, and does not reuse any
// number.
func TestStandbyTakesOverWithoutLatestWrites(t *testing.T) {
	within(t, func(b *fixture) {
		w := b.worker("w")
		key := b.scheduled(w)
		b.sleep(time.Millisecond)
		standby := b.db.Standby()
		if _, err := b.c.Claim(b.ctx, w, []store.Claim{{Key: key, Beat: 1}}); err != nil {
			t.Fatal(err)
		}
		lost := b.scheduled(w)
		anew := b.worker("w")
		b.sleep(time.Millisecond)
		standby.Promote("rewound")
		if r, _ := b.db.Execution(key.ID); r.Status != execution.Scheduled {
			t.Errorf("an execution claimed since is %v, want scheduled", r.Status)
		}
		if _, known := b.db.Execution(lost.ID); known {
			t.Error("an execution created since still exists")
		}
		if _, err := b.c.Heartbeat(b.ctx, store.Beat{WorkerKey: anew, Number: 1, Lease: lease}); !errors.Is(err, store.ErrLost) {
			t.Errorf("a heartbeat of a worker registered since gives %v, want ErrLost", err)
		}
		if next := b.scheduled(w); next.ID != lost.ID+1 {
			t.Errorf("the next execution is %d, want %d: no number is used twice", next.ID, lost.ID+1)
		}
		if next := b.worker("w"); next.Incarnation != anew.Incarnation+1 {
			t.Errorf("the next incarnation is %d, want %d", next.Incarnation, anew.Incarnation+1)
		}
	})
}

// A standby that takes over reports which cordons, and which liftings of cordons, were lost.
func TestStandbyReportsLostCordons(t *testing.T) {
	within(t, func(b *fixture) {
		kept, since, lifted := b.worker("kept"), b.worker("since"), b.worker("lifted")
		b.db.Operate(store.Cordon{Worker: kept.ID, On: true})
		b.db.Operate(store.Cordon{Worker: lifted.ID, On: true})
		b.sleep(time.Millisecond)
		standby := b.db.Standby()
		b.db.Operate(store.Cordon{Worker: since.ID, On: true})
		b.db.Operate(store.Cordon{Worker: lifted.ID})
		reported := make(map[execution.WorkerID]int64)
		b.seen = append(b.seen, sinkFunc(func(e *history.Event) {
			if e.Kind == history.WorkerCordoned {
				reported[e.Worker] = e.Count
			}
		}))
		b.sleep(time.Millisecond)
		standby.Promote("rewound")
		if want := map[execution.WorkerID]int64{since.ID: 0, lifted.ID: 1}; !maps.Equal(reported, want) {
			t.Errorf("reported %v, want %v", reported, want)
		}
	})
}
