package kernel

import (
	"math/bits"
	"time"
)

// Tape is the chooser of a run, and records the run's draws. A rerun ([Tape.Rerun]) is another run that
// differs in something, such as a fault. It draws the same numbers wherever it still behaves the same.
//
// NewRandom can't do that, because it returns the numbers of a stream in order. One more draw would shift
// all later draws, so the two runs would differ completely from there on. A tape finds a draw by its
// position instead: by the stream and the virtual time, or by its name ([Stream.About]). If the recorded
// run drew nothing at a position, the number depends only on the seed and the position.
type Tape struct {
	base *randomChooser
	// inOrder reports whether a rerun reads a stream in order, not by virtual time.
	inOrder func(label string) bool
	k       *Kernel
	tracks  map[string]*track
	about   map[drawName][]uint64
}

// track holds the draws from one stream, with their ascending times.
type track struct {
	at  []time.Duration
	raw []uint64
}

// drawName is the name that Stream.About gives a draw.
type drawName struct{ a, b uint64 }

// NewTape returns the chooser of a run, which draws the same numbers as NewRandom(seed). inOrder reports
// whether a rerun reads a stream in order (its n-th draw is the recorded run's n-th draw) and not by virtual
// time; nil means no stream. Streams that are drawn from once, at the start of a run, need that.
func NewTape(seed uint64, inOrder func(label string) bool) *Tape {
	if inOrder == nil {
		inOrder = func(string) bool { return false }
	}
	return &Tape{base: &randomChooser{seed: seed}, inOrder: inOrder, tracks: make(map[string]*track), about: make(map[drawName][]uint64)}
}

// kernelBinder is a chooser that needs the kernel, for its time and its steps.
type kernelBinder interface{ bindKernel(k *Kernel) }

func (t *Tape) bindKernel(k *Kernel) { t.k = k }

// Choose implements Chooser.
func (t *Tape) Choose(s *Stream, n uint64) uint64 {
	v, raw := t.base.drawRaw(s, n)
	if m := s.matter; m != (drawName{}) {
		s.matter = drawName{}
		t.about[m] = append(t.about[m], raw)
		return v
	}
	to := t.tracks[s.label]
	if to == nil {
		to = &track{}
		t.tracks[s.label] = to
	}
	to.at, to.raw = append(to.at, t.k.Now()), append(to.raw, raw)
	return v
}

// Rerun returns the chooser of one rerun. The recorded run must be over. Reruns only read the tape, so they
// may run concurrently.
func (t *Tape) Rerun() Chooser { return &rerunChooser{tape: t, about: make(map[drawName]int)} }

// rerunChooser is the chooser of a rerun.
type rerunChooser struct {
	tape  *Tape
	k     *Kernel
	heads []*streamHead // by Stream.id
	about map[drawName]int
}

// streamHead is the position of the rerun on one stream.
type streamHead struct {
	track   *track
	next    int
	hash    uint64
	inOrder bool
	// at is the time of the latest draw, and nth the number of earlier draws at that time.
	at  time.Duration
	nth uint64
}

func (r *rerunChooser) bindKernel(k *Kernel) { r.k = k }

// Choose implements Chooser.
func (r *rerunChooser) Choose(s *Stream, n uint64) uint64 {
	h := r.headOf(s)
	m := s.matter
	s.matter = drawName{}
	switch {
	case m != (drawName{}):
		return scaleDraw(r.rawAbout(m), n)
	case h.inOrder:
		// Only this code advances the generator of this stream.
		return r.tape.base.Choose(s, n)
	}
	return scaleDraw(h.nextRaw(r.k.Now()), n)
}

func (r *rerunChooser) headOf(s *Stream) *streamHead {
	for uint64(len(r.heads)) <= s.id {
		r.heads = append(r.heads, nil)
	}
	h := r.heads[s.id]
	if h == nil {
		h = &streamHead{track: r.tape.tracks[s.label], hash: hashLabel(r.tape.base.seed, s.label), inOrder: r.tape.inOrder(s.label), at: -1}
		if h.track == nil {
			h.track = &track{}
		}
		r.heads[s.id] = h
	}
	return h
}

// nextRaw returns the stream's next number at the current time.
func (s *streamHead) nextRaw(now time.Duration) uint64 {
	if now != s.at {
		s.at, s.nth = now, 0
		for s.next < len(s.track.at) && s.track.at[s.next] < now {
			s.next++
		}
	}
	s.nth++
	if s.next < len(s.track.at) && s.track.at[s.next] == now {
		s.next++
		return s.track.raw[s.next-1]
	}
	return mixBits(s.hash ^ mixBits(uint64(now)+s.nth*0x9e3779b97f4a7c15))
}

func (r *rerunChooser) rawAbout(m drawName) uint64 {
	i := r.about[m]
	r.about[m] = i + 1
	if known := r.tape.about[m]; i < len(known) {
		return known[i]
	}
	return mixBits(mixBits(r.tape.base.seed^mixBits(m.a)) ^ mixBits(m.b+uint64(i)*0x9e3779b97f4a7c15))
}

// scaleDraw turns a 64-bit number into a number below n. A recorded number gives the recorded run's choice
// if that run also chose among n alternatives.
func scaleDraw(raw, n uint64) uint64 {
	v, _ := bits.Mul64(raw, n)
	return v
}
