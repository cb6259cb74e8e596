package kernel

import (
	"testing"
	"time"
)

func TestStreamsDoNotShiftEachOther(t *testing.T) {
	draw := func(disturb bool) (values [20]uint64) {
		c := NewRandom(5)
		s, other := NewStream(c, "workload"), NewStream(c, "fault")
		for i := range values {
			values[i] = s.Uint64N(1 << 40)
			if disturb {
				other.Uint64N(1 << 40)
			}
		}
		return values
	}
	if draw(false) != draw(true) {
		t.Error("draws of one stream depend on another")
	}
	c := NewRandom(5)
	a, b := NewStream(c, "a"), NewStream(c, "b")
	same := 0
	for range 100 {
		if a.Uint64N(1<<40) == b.Uint64N(1<<40) {
			same++
		}
	}
	if same > 0 {
		t.Errorf("%d of 100 draws are the same on two streams", same)
	}
}

func TestSameLabelSameStream(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	if first, again := k.Stream("x"), k.Stream("x"); first != again || k.Stream("x") == k.Stream("y") {
		t.Error("a label must name one stream")
	}
	if k.Stream("x").ID() == k.Stream("y").ID() {
		t.Error("two streams have one id")
	}
}

func TestDrawsAreUniform(t *testing.T) {
	s := NewStream(NewRandom(1), "die")
	const n, draws = 6, 60_000
	var count [n]int
	for range draws {
		count[s.Uint64N(n)]++
	}
	for v, c := range count {
		if c < draws/n*95/100 || c > draws/n*105/100 {
			t.Errorf("%d came %d times of %d", v, c, draws)
		}
	}
	// Where n is just above half of the range a biased draw would favour some values twofold.
	const half = 1<<63 + 1
	low := 0
	for range draws {
		if s.Uint64N(half) < half/2 {
			low++
		}
	}
	if low < draws*49/100 || low > draws*51/100 {
		t.Errorf("%d of %d draws in the lower half", low, draws)
	}
}

func TestDrawEdges(t *testing.T) {
	var asked []uint64
	c := &spy{choose: func(_ *Stream, n uint64) uint64 {
		asked = append(asked, n)
		return n - 1
	}}
	s := NewStream(c, "edges")
	if s.Uint64N(1) != 0 || s.Chance(0) || !s.Chance(1_000_000) || s.Duration(5, 5) != 5 || s.Duration(7, 5) != 7 {
		t.Error("wrong answer where there is no choice")
	}
	if len(asked) != 0 {
		t.Errorf("asked %v where there is no choice", asked)
	}
	if got := s.Duration(time.Millisecond, 2*time.Millisecond); got != 2*time.Millisecond {
		t.Errorf("the longest Duration is %v, want the upper bound", got)
	}
	if !s.Chance(1) {
		t.Error("the extreme draw must be true")
	}
	c.choose = func(*Stream, uint64) uint64 { return 0 }
	if s.Chance(999_999) || s.Duration(3, time.Second) != 3 {
		t.Error("a draw of 0 must be the plain way")
	}
	for name, f := range map[string]func(){
		"n of 0":       func() { s.Uint64N(0) },
		"out of range": func() { c.choose = func(_ *Stream, n uint64) uint64 { return n }; s.Uint64N(2) },
	} {
		if recovered(f) == nil {
			t.Errorf("%s: no panic", name)
		}
	}
}

func TestChanceHasItsRate(t *testing.T) {
	s := NewStream(NewRandom(9), "coin")
	hits := 0
	for range 100_000 {
		if s.Chance(250_000) {
			hits++
		}
	}
	if hits < 24_000 || hits > 26_000 {
		t.Errorf("%d hits of 100000 at a quarter", hits)
	}
}

func recovered(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
