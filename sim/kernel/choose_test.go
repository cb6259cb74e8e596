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

func TestSameLabelReturnsSameStream(t *testing.T) {
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
	// With n just above half of the range, a biased draw would return some values twice as often as others.
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

func TestDrawsAtEdgesOfRange(t *testing.T) {
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

func TestChanceMatchesRate(t *testing.T) {
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

// A log-uniform draw over four decades gives each decade a quarter of the draws, whatever its width.
func TestLogDrawsGiveEachDecadeItsShare(t *testing.T) {
	s := NewStream(NewRandom(7), "takes")
	const draws = 40_000
	var share [4]int
	for range draws {
		d := s.LogDuration(10*time.Millisecond, 100*time.Second)
		switch {
		case d < 10*time.Millisecond || d > 100*time.Second:
			t.Fatalf("%v is not from 10ms to 100s", d)
		case d < 100*time.Millisecond:
			share[0]++
		case d < time.Second:
			share[1]++
		case d < 10*time.Second:
			share[2]++
		default:
			share[3]++
		}
	}
	for i, n := range share {
		if n < draws/4*97/100 || n > draws/4*103/100 {
			t.Errorf("decade %d got %d of %d draws", i, n, draws)
		}
	}
}

// fixed is a chooser that always chooses the same part of the range, in thousandths.
type fixed uint64

func (f fixed) Choose(_ *Stream, n uint64) uint64 { return (n - 1) / 1000 * uint64(f) }

// This test pins known quantiles of a log-uniform draw, so that a platform that computes them differently
// fails.
func TestLogDrawsReturnKnownQuantiles(t *testing.T) {
	for part, want := range map[fixed]time.Duration{
		0: time.Second, 250: 7_744_000 * time.Microsecond, 500: 59_976_000 * time.Microsecond, 750: 464_512_000 * time.Microsecond,
	} {
		got := NewStream(part, "x").LogDuration(time.Second, time.Hour)
		if diff := got - want; diff < -want/1000 || diff > want/1000 {
			t.Errorf("%d thousandths of 1s to 1h are %v, want about %v", part, got, want)
		}
	}
	s := NewStream(NewRandom(42), "takes")
	var got [4]time.Duration
	for i := range got {
		got[i] = s.LogDuration(10*time.Millisecond, 2*time.Hour)
	}
	if want := [4]time.Duration{4_850_392_000, 559_242_000, 453_518_566_000, 7_593_339_000}; got != want {
		t.Errorf("seed 42 draws %v, want %v", got, want)
	}
}

// last is a chooser that always chooses the last value.
type last struct{}

func (last) Choose(_ *Stream, n uint64) uint64 { return n - 1 }

func TestLogDrawsStayWithinBothBounds(t *testing.T) {
	for _, span := range [][2]time.Duration{
		{time.Microsecond, 2 * time.Microsecond}, {time.Millisecond, 31 * 24 * time.Hour}, {time.Second, 3 * time.Second}, {7 * time.Millisecond, 7001 * time.Microsecond},
	} {
		if got := NewStream(fixed(0), "x").LogDuration(span[0], span[1]); got != span[0] {
			t.Errorf("the first draw from %v to %v is %v", span[0], span[1], got)
		}
		if got := NewStream(last{}, "x").LogDuration(span[0], span[1]); got != span[1] {
			t.Errorf("the last draw from %v to %v is %v", span[0], span[1], got)
		}
	}
	if got := NewStream(last{}, "x").LogDuration(time.Second, time.Second); got != time.Second {
		t.Errorf("from 1s to 1s is %v", got)
	}
}
