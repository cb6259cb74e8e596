package kernel

import "fmt"

// Choice is one answer of a chooser.
type Choice struct {
	Stream string // its label
	N      uint64
	Value  uint64
}

// Recorder is a chooser that records another chooser's answers.
type Recorder struct {
	inner   Chooser
	choices []Choice
}

// NewRecorder returns a recorder around inner.
func NewRecorder(inner Chooser) *Recorder { return &Recorder{inner: inner} }

// Choose calls the inner chooser and records its answer.
func (r *Recorder) Choose(s *Stream, n uint64) uint64 {
	v := r.inner.Choose(s, n)
	r.choices = append(r.choices, Choice{Stream: s.label, N: n, Value: v})
	return v
}

// Choices returns the answers so far, in order. The slice belongs to the recorder.
func (r *Recorder) Choices() []Choice { return r.choices }

// Replay is a chooser that repeats recorded answers. Once the list is exhausted, or a question differs from
// the recorded one, it always answers 0, the default.
type Replay struct {
	choices  []Choice
	next     int
	asked    int
	diverged bool
	at       int
	text     string
}

// NewReplay returns a chooser that repeats choices.
func NewReplay(choices []Choice) *Replay { return &Replay{choices: choices} }

// Choose returns the next recorded answer.
func (r *Replay) Choose(s *Stream, n uint64) uint64 {
	r.asked++
	if r.diverged || r.next >= len(r.choices) {
		return 0
	}
	c := r.choices[r.next]
	switch {
	case c.Stream != s.label:
		r.noteDivergence(fmt.Sprintf("recorded a choice of stream %q, the run asks stream %q", c.Stream, s.label))
	case c.N != n:
		r.noteDivergence(fmt.Sprintf("recorded a choice among %d of stream %q, the run asks among %d", c.N, c.Stream, n))
	case c.Value >= n:
		r.noteDivergence(fmt.Sprintf("recorded value %d is not one of %d of stream %q", c.Value, n, c.Stream))
	default:
		r.next++
		return c.Value
	}
	return 0
}

func (r *Replay) noteDivergence(text string) {
	r.diverged, r.at, r.text = true, r.next, text
}

// Diverged returns the index of the first recorded choice whose question differed, and the difference; it
// returns false if none differed. An early end of the list is not a divergence; see Used and Asked.
func (r *Replay) Diverged() (index int, description string, diverged bool) {
	return r.at, r.text, r.diverged
}

// Used returns how many recorded answers were given.
func (r *Replay) Used() int { return r.next }

// Asked returns the number of questions, whether answered from the list or not.
func (r *Replay) Asked() int { return r.asked }
