package kernel

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// taped draws from several streams at some times and returns the draws, by name. With extra, it draws more
// at one time, which shifts a generator but must not shift a tape.
func taped(c Chooser, extra bool) map[string][]uint64 {
	k := New(Options{Chooser: c})
	defer k.Close()
	drawn := make(map[string][]uint64)
	draw := func(s *Stream, name string) { drawn[name] = append(drawn[name], s.Uint64N(1000)) }
	for i := range 5 {
		k.After(time.Duration(i)*time.Second, func() {
			draw(k.Stream("link"), "link")
			if extra && i == 1 {
				k.Stream("link").Uint64N(1000)
				k.Stream("once/1").Uint64N(1000)
			}
			draw(k.Stream("once/1"), "once")
		})
		// With extra, the draws that have a name (About) are made a second later and from another stream.
		late, on := time.Duration(i)*time.Second, "machine/1"
		if extra {
			late, on = late+time.Second, "machine/2"
		}
		k.After(late, func() { draw(k.Stream(on).About(7, uint64(i)), "about") })
	}
	k.Run(nil, time.Minute)
	return drawn
}

func TestRerunOfTapeDrawsTheSame(t *testing.T) {
	plain := taped(NewRandom(3), false)
	tape := NewTape(3, func(label string) bool { return strings.HasPrefix(label, "once/") })
	recorded := taped(tape, false)
	again := taped(tape.Rerun(), false)
	for _, name := range []string{"link", "once", "about"} {
		if !slices.Equal(plain[name], recorded[name]) {
			t.Errorf("%s: recording changes the draws: %d, want %d", name, recorded[name], plain[name])
		}
		if !slices.Equal(plain[name], again[name]) {
			t.Errorf("%s: drawn again: %d, want %d", name, again[name], plain[name])
		}
	}
}

func TestExtraDrawLeavesOtherTapeDrawsUnchanged(t *testing.T) {
	tape := NewTape(3, func(label string) bool { return strings.HasPrefix(label, "once/") })
	first := taped(tape, false)
	other := taped(tape.Rerun(), true)
	for _, name := range []string{"link", "about"} {
		if !slices.Equal(first[name], other[name]) {
			t.Errorf("%s: %d, want %d", name, other[name], first[name])
		}
	}
	if slices.Equal(first["once"], other["once"]) || !slices.Equal(first["once"][:1], other["once"][:1]) {
		t.Errorf("a stream in order: %d beside %d, want it shifted from the second draw on", other["once"], first["once"])
	}
	if random := taped(NewRandom(3), true); slices.Equal(first["link"], random["link"]) {
		t.Error("without a tape one draw more shifts nothing, so this test shows nothing")
	}
}
