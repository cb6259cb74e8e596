package kernel

import (
	"math/bits"
	"time"
)

// Tape is the chooser of a run, and records what the run draws. A rerun ([Tape.Rerun]) is another
// run that differs somewhere, for example by a fault. It draws the same numbers wherever it still
// does the same.
//
// NewRandom does not give that: it hands out the numbers of a stream in order. One more draw would
// shift all later ones, and two runs would differ in everything from there on. A tape finds a draw
// by its position instead: by the stream and the virtual time, or by its name ([Stream.About]). If
// the recorded run drew nothing at a position, the number depends only on the seed and the position.
type Tape struct {
	base *random
	// inOrder says which streams are read in order instead, whatever the virtual time.
	inOrder func(label string) bool
	k       *Kernel
	tracks  map[string]*track
	about   map[matter][]uint64
}

// track is what was drawn from one stream, with the times, which ascend.
type track struct {
	at  []time.Duration
	raw []uint64
}

// matter is the name that Stream.About gives a draw.
type matter struct{ a, b uint64 }

// NewTape returns the chooser of a run, which draws what NewRandom(seed) draws. inOrder says which
// streams a rerun reads in order (the n-th draw of one run is the n-th of the other) and not by
// virtual time; nil for none. Streams that are drawn from once, at the start of a run, need that.
func NewTape(seed uint64, inOrder func(label string) bool) *Tape {
	if inOrder == nil {
		inOrder = func(string) bool { return false }
	}
	return &Tape{base: &random{seed: seed}, inOrder: inOrder, tracks: make(map[string]*track), about: make(map[matter][]uint64)}
}

// bound is a chooser that needs the kernel, for its time and its steps.
type bound interface{ bind(k *Kernel) }

func (t *Tape) bind(k *Kernel) { t.k = k }

// Choose implements Chooser.
func (t *Tape) Choose(s *Stream, n uint64) uint64 {
	v, raw := t.base.draw(s, n)
	if m := s.matter; m != (matter{}) {
		s.matter = matter{}
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

// Rerun returns the chooser of one rerun. The recorded run must be over. Reruns only read the tape,
// so any number may run at a time.
func (t *Tape) Rerun() Chooser { return &rerun{tape: t, about: make(map[matter]int)} }

// rerun is the chooser of a rerun.
type rerun struct {
	tape  *Tape
	k     *Kernel
	heads []*head // by Stream.id
	about map[matter]int
}

// head is the position of the rerun on one stream.
type head struct {
	track   *track
	next    int
	hash    uint64
	inOrder bool
	// at is the time of the latest draw, and nth the number of draws at this time before it.
	at  time.Duration
	nth uint64
}

func (r *rerun) bind(k *Kernel) { r.k = k }

// Choose implements Chooser.
func (r *rerun) Choose(s *Stream, n uint64) uint64 {
	h := r.head(s)
	m := s.matter
	s.matter = matter{}
	switch {
	case m != (matter{}):
		return scaled(r.rawAbout(m), n)
	case h.inOrder:
		// Nothing else moves the generator of this stream.
		return r.tape.base.Choose(s, n)
	}
	return scaled(h.raw(r.k.Now()), n)
}

func (r *rerun) head(s *Stream) *head {
	for uint64(len(r.heads)) <= s.id {
		r.heads = append(r.heads, nil)
	}
	h := r.heads[s.id]
	if h == nil {
		h = &head{track: r.tape.tracks[s.label], hash: hashLabel(r.tape.base.seed, s.label), inOrder: r.tape.inOrder(s.label), at: -1}
		if h.track == nil {
			h.track = &track{}
		}
		r.heads[s.id] = h
	}
	return h
}

// raw returns the next number of the stream at this time.
func (h *head) raw(now time.Duration) uint64 {
	if now != h.at {
		h.at, h.nth = now, 0
		for h.next < len(h.track.at) && h.track.at[h.next] < now {
			h.next++
		}
	}
	h.nth++
	if h.next < len(h.track.at) && h.track.at[h.next] == now {
		h.next++
		return h.track.raw[h.next-1]
	}
	return mix(h.hash ^ mix(uint64(now)+h.nth*0x9e3779b97f4a7c15))
}

func (r *rerun) rawAbout(m matter) uint64 {
	i := r.about[m]
	r.about[m] = i + 1
	if known := r.tape.about[m]; i < len(known) {
		return known[i]
	}
	return mix(mix(r.tape.base.seed^mix(m.a)) ^ mix(m.b+uint64(i)*0x9e3779b97f4a7c15))
}

// scaled turns a 64-bit number into a number below n. For a recorded number it gives what the
// recorded run drew, if that run chose among n alternatives, too.
func scaled(raw, n uint64) uint64 {
	v, _ := bits.Mul64(raw, n)
	return v
}
