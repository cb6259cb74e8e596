package store

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBoundedDeadLetterFitsDatabase(t *testing.T) {
	d := DeadLetter{
		Queue: strings.Repeat("ä", 300), Outcome: "a\x00b\xff" + strings.Repeat("x", 1<<20),
		XDeath: make([]byte, 1<<20), Body: make([]byte, 1<<20),
	}.Bounded()
	if len(d.Queue) > longestQueue || len(d.Outcome) > longestOutcome || d.XDeath != nil || len(d.Body) != LongestBody || d.BodyBytes != 1<<20 {
		t.Errorf("queue %d, outcome %d, x-death %d, body %d of %d", len(d.Queue), len(d.Outcome), len(d.XDeath), len(d.Body), d.BodyBytes)
	}
	if !utf8.ValidString(d.Queue) || !utf8.ValidString(d.Outcome) || strings.Contains(d.Outcome, "\x00") || strings.Contains(d.Queue, "?") {
		t.Errorf("%q, %.20q", d.Queue, d.Outcome)
	}
	if again := d.Bounded(); again.BodyBytes != 1<<20 {
		t.Errorf("bounded twice: %d", again.BodyBytes)
	}
}
