package postgres

import (
	"slices"
	"testing"
	"time"
)

func TestFullWalksTakeFivePercentOfTime(t *testing.T) {
	var f fullWalkSchedule
	began := time.Now()
	if !f.isDue(began) {
		t.Error("the first walk does not begin at the head")
	}
	for took, wait := range map[time.Duration]time.Duration{time.Millisecond: 10 * time.Second, 3 * time.Second: time.Minute} {
		ended := began.Add(took)
		f.scheduleNext(began, ended)
		if f.isDue(ended.Add(wait-1)) || !f.isDue(ended.Add(wait)) {
			t.Errorf("after a walk of %v the next one is due at %v, want %v later", took, f.next.Sub(ended), wait)
		}
	}
}

func TestOldRowsOf(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	latest := at(100)
	rows := func(seconds ...int) (all []heldRow) {
		for _, s := range seconds {
			all = append(all, heldRow{int64(s), at(s)})
		}
		return all
	}
	for _, c := range []struct {
		name  string
		rows  []heldRow
		more  bool
		since time.Time
		ids   []int64
	}{
		{"none", nil, false, latest, nil},
		{"few", rows(3, 1, 2), false, latest, []int64{1, 2, 3}},
		{"too many", rows(1, 2, 3, 4, 5), false, at(4), []int64{1, 2, 3}},
		{"more in the database", rows(1, 2), true, at(2), []int64{1}},
		{"alike", rows(1, 7, 7, 7, 7), false, at(7), []int64{1}},
		{"all alike", rows(7, 7, 7, 7), false, at(7), nil},
	} {
		if old := oldRowsOf(c.rows, 3, c.more, latest); !old.since.Equal(c.since) || !slices.Equal(old.ids, c.ids) {
			t.Errorf("%s: %v are known, the count begins at %v; want %v and %v", c.name, old.ids, old.since.Unix(), c.ids, c.since.Unix())
		}
	}
}

func TestQueueBoundsRecordLook(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	a, b := queueKey{0, "a", 0}, queueKey{1, "b", 2}
	var l queueBounds
	since := func(key queueKey) time.Time {
		return l.arguments.since[slices.Index(l.arguments.runtimes, key.runtime)]
	}
	l.recordLook(map[queueKey]time.Time{a: at(10), b: at(100)}, at(100), at(0))
	if got := since(a); !got.Equal(at(10)) {
		t.Errorf("the walk of an occupied lane begins at %v, want its oldest row", got)
	}
	if got := since(b); !got.Equal(at(99)) {
		t.Errorf("the walk of a lane whose oldest row is young begins at %v, want the margin", got)
	}
	l.recordLook(map[queueKey]time.Time{b: at(150)}, at(200), at(1))
	if got := since(a); !got.Equal(at(199)) || !l.arguments.others.Equal(at(199)) {
		t.Errorf("the walks of an empty lane and of unknown ones begin at %v and %v, want the margin", got, *l.arguments.others)
	}
	many := make(map[queueKey]time.Time)
	for i := range mostQueues + 5 {
		many[queueKey{0, "a", int64(i)}] = at(i)
	}
	l.recordLook(many, at(5000), at(2))
	if _, known := l.known[queueKey{0, "a", 4}]; known || !l.arguments.others.Equal(at(0)) || len(l.known) != mostQueues+1 {
		t.Errorf("of %d lanes %d are known; others begin at %v, want the oldest row", len(many), len(l.known), *l.arguments.others)
	}
}

// Bounds are used only if walks from the head are slow.
func TestWalksBeginAtHeadWhileQuick(t *testing.T) {
	var b queueBounds
	if got := b.currentArgs(); got != nil {
		t.Errorf("quick walks begin at %v", got)
	}
	b.slow = true
	if got := b.currentArgs(); len(got) != len(b.arguments.statementArgs()) {
		t.Errorf("where walks are slow, they have %d arguments", len(got))
	}
}

// A walk through many lanes takes long even if no old entries precede their first rows.
func TestSlowWalkGrowsWithLanes(t *testing.T) {
	for found, want := range map[int]time.Duration{0: 3 * time.Millisecond, 10: 3150 * time.Microsecond, 5000: 78 * time.Millisecond} {
		if got := slowWalk(3*time.Millisecond, found); got != want {
			t.Errorf("a walk through %d lanes is slow from %v on, want %v", found, got, want)
		}
	}
}

func TestCountsBeginAtHeadWhileQuick(t *testing.T) {
	latest := time.Unix(100, 0)
	b := heldBounds{all: heldArguments{latest: &latest}, old: map[int64]oldHeldRows{7: {since: latest, ids: []int64{1}}}}
	for _, slow := range []bool{false, true} {
		b.slow = slow
		got := b.argsFor(7, 8)
		if incarnations, since := got[0].([]int64), got[3].(*time.Time); len(got) != 5 || (len(incarnations) == 1) != slow || (since != nil) != slow {
			t.Errorf("slow %v: counts begin at %v", slow, got)
		}
	}
}
