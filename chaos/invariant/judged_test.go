package invariant

import (
	"strings"
	"testing"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

func TestInvariantsAreOrderedByNumber(t *testing.T) {
	number := 0
	for _, i := range newInvariants() {
		if number++; number == 31 { // unused
			number++
		}
		if i.Number != number {
			t.Errorf("invariant %d (%s) is at place %d of the list", i.Number, i.Name, number)
		}
	}
	if number != Last {
		t.Errorf("Last is %d, and the last invariant is number %d", Last, number)
	}
}

// Each evaluated condition counts as one occasion. An invariant that isn't in the suite has no occasions.
func TestSuiteCountsJudgedOccasions(t *testing.T) {
	s := New(config.Default(config.Hardened), []int{1, 5})
	for _, e := range []history.Event{
		created(second),
		move(2*second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0),
		move(3*second, execution.Scheduling, execution.Failed, execution.Scheduler, 0, 0),
	} {
		s.Observe(&e)
	}
	s.End(true)
	for n, has := range s.Judged() {
		want := map[int]uint64{1: 3, 5: 1}[n+1]
		if has != want {
			t.Errorf("invariant %d judged %d times, want %d", n+1, has, want)
		}
	}
}

// A statement may be read at three in the morning, so it has a few short sentences, each with one idea.
func TestStatementsHaveShortSentences(t *testing.T) {
	const most = 32
	for _, i := range All() {
		if !strings.HasSuffix(i.Statement, ".") {
			t.Errorf("invariant %d: %q does not end with a full stop", i.Number, i.Statement)
		}
		for sentence := range strings.SplitSeq(i.Statement, ". ") {
			if n := len(strings.Fields(sentence)); n > most {
				t.Errorf("invariant %d: %d words, want at most %d: %q", i.Number, n, most, sentence)
			}
			if strings.ContainsAny(sentence, ";()") {
				t.Errorf("invariant %d: more than one idea in a sentence: %q", i.Number, sentence)
			}
		}
	}
}
