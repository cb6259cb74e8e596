package kernel

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sort"
	"time"
)

// Chooser makes every choice of a run. Choose returns a number in [0, n). n is at least 2, because a single
// alternative needs no choice.
//
// Search and shrinking may rely on the meaning of the numbers. 0 is the default (the task that has waited
// longest, the shortest delay, no fault), and n-1 the other extreme (the longest delay, the fault). A
// search that can't try all of a large n tries these two first.
type Chooser interface {
	Choose(s *Stream, n uint64) uint64
}

// Stream is a labelled sequence of choices. A chooser receives the stream, so it can treat each stream's
// choices separately.
type Stream struct {
	chooser Chooser
	label   string
	id      uint64

	// The random chooser keeps its generator here, so that it needs no map to find it.
	owner *randomChooser
	pcg   rand.PCG

	// matter is the name of the next draw, set by About; the zero value means none. Only tapes read it.
	matter drawName
}

// NewStream returns a stream outside any kernel, for testing a chooser.
func NewStream(c Chooser, label string) *Stream { return &Stream{chooser: c, label: label} }

// About names the next draw by two numbers, not both 0, that are the same in every run, such as the number
// and the epoch of an execution. It does not change the numbers that a run draws. A rerun of a [Tape] finds
// the draw by this name, even at another time or from another stream.
func (s *Stream) About(a, b uint64) *Stream {
	s.matter = drawName{a, b}
	return s
}

// Label returns the label of the stream.
func (s *Stream) Label() string { return s.label }

// ID returns the position of the stream in the order in which the run first asked for its streams.
func (s *Stream) ID() uint64 { return s.id }

// Uint64N returns a number in [0, n). It panics if n is 0, and does not draw if n is 1.
func (s *Stream) Uint64N(n uint64) uint64 {
	if n <= 1 {
		if n == 0 {
			panic("kernel: no alternatives to choose from (0) on stream " + s.label)
		}
		return 0
	}
	v := s.chooser.Choose(s, n)
	if v >= n {
		panic(fmt.Sprintf("kernel: chooser returned %d on stream %s, not a number below %d", v, s.label, n))
	}
	return v
}

// Duration returns a duration in [lo, hi], in microseconds from lo. If hi is not above lo it
// returns lo and does not draw.
func (s *Stream) Duration(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	n := uint64(hi-lo)/uint64(time.Microsecond) + 1
	return lo + time.Duration(s.Uint64N(n))*time.Microsecond
}

// logParts is the resolution of a log-uniform draw: each decade's probability is within a millionth of its
// exact value (up to 31 days), and no product of two parts overflows.
const logParts = 1 << 24

// LogDuration returns a duration in [lo, hi], a whole number of microseconds above lo, drawn
// log-uniformly: every factor is as likely as every other, so from 1 s to 100 s half of the draws
// lie under 10 s. A lo below a microsecond counts as one. If hi is not above lo it returns lo and
// does not draw.
//
// It computes with integers only, so the same draw gives the same duration on every machine. The
// duration is the longest d for which log2(d) - log2(lo) does not exceed the drawn part of log2(hi)
// - log2(lo). Logarithms are cut off after 32 binary digits, which is an error of less than one
// part in 10^9, besides the rounding to microseconds. Draws are monotonic: 0 gives lo and the last
// one hi.
func (s *Stream) LogDuration(lo, hi time.Duration) time.Duration {
	lo = max(lo, time.Microsecond)
	if hi <= lo {
		return lo
	}
	least, steps := uint64(lo/time.Microsecond), uint64(hi-lo)/uint64(time.Microsecond)
	if steps == 0 {
		return lo
	}
	from := log2(least)
	part := s.Uint64N(logParts)
	target := from + (log2(least+steps)-from)*part/(logParts-1)
	// Search finds the smallest number of steps that is too large; log2 is monotonic.
	most := uint64(sort.Search(int(steps), func(i int) bool { return log2(least+uint64(i)+1) > target }))
	return lo + time.Duration(most)*time.Microsecond
}

// log2 returns the binary logarithm of x, which must be above 0, with 32 binary digits after the
// point, truncated. It squares the mantissa once for each digit: where the square reaches 2, the
// digit is 1.
func log2(x uint64) uint64 {
	const digits = 32
	whole := uint64(bits.Len64(x) - 1)
	mantissa := x << (63 - whole) // a fixed-point number from 1 to 2, with the point after the first bit
	log := whole
	for range digits {
		log <<= 1
		hi, lo := bits.Mul64(mantissa, mantissa)
		if hi>>63 == 1 {
			log |= 1
			mantissa = hi
			continue
		}
		mantissa = hi<<1 | lo>>63
	}
	return log
}

// Chance returns true with a probability of perMillion millionths. At 0 and from 1,000,000 on it does not
// draw. A draw of 0 is false.
func (s *Stream) Chance(perMillion uint64) bool {
	const million = 1_000_000
	switch {
	case perMillion == 0:
		return false
	case perMillion >= million:
		return true
	}
	return s.Uint64N(million) >= million-perMillion
}

type randomChooser struct{ seed uint64 }

// NewRandom returns a chooser with a separate generator for each stream, seeded from seed and the stream's
// label. The same seed gives the same numbers in every process and Go version: the generator is PCG, and
// the reduction to a range is implemented here.
func NewRandom(seed uint64) Chooser { return &randomChooser{seed: seed} }

func (r *randomChooser) Choose(s *Stream, n uint64) uint64 {
	v, _ := r.drawRaw(s, n)
	return v
}

// drawRaw returns a number below n, and the 64-bit number from which it was computed.
func (r *randomChooser) drawRaw(s *Stream, n uint64) (v, raw uint64) {
	if s.owner != r {
		h := hashLabel(r.seed, s.label)
		s.pcg.Seed(h, mixBits(h+0x9e3779b97f4a7c15))
		s.owner = r
	}
	// Lemire's multiplication: it is unbiased and rarely needs a division.
	raw = s.pcg.Uint64()
	hi, lo := bits.Mul64(raw, n)
	if lo < n {
		for threshold := -n % n; lo < threshold; {
			raw = s.pcg.Uint64()
			hi, lo = bits.Mul64(raw, n)
		}
	}
	return hi, raw
}

// hashLabel returns the FNV-1a hash of the label, with the seed mixed in.
func hashLabel(seed uint64, label string) uint64 {
	h := uint64(14695981039346656037) ^ mixBits(seed)
	for i := range len(label) {
		h ^= uint64(label[i])
		h *= 1099511628211
	}
	return mixBits(h)
}

// mixBits applies the finalizer of SplitMix64.
func mixBits(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
