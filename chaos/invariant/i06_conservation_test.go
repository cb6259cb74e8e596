package invariant

import (
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
)

// A delivery may be settled late only if its consumer, or its queue, had trouble meanwhile. The history
// doesn't record which process rejects a message, so the rule uses the process that got it.
func TestOnlyTroubledConsumerMaySettleLate(t *testing.T) {
	const queue, delivered, settled = "worker.1.executions", 10 * time.Second, 10*time.Second + consumerTimeout
	for _, x := range []struct {
		name         string
		settles      history.Kind
		of           string
		began, ended time.Duration
		broken       bool
	}{
		{"rejected late", history.Rejected, "", 0, 0, true},
		{"acknowledged late", history.Acked, "", 0, 0, true},
		{"rejected late, and its queue had hung", history.Rejected, "w", delivered + time.Second, settled, false},
		{"acknowledged late, and its queue had hung", history.Acked, "w", delivered + time.Second, settled, false},
		{"rejected late, and its queue hung before that", history.Rejected, "w", delivered - 2*time.Second, delivered - time.Second, true},
		{"rejected late, and another queue hung", history.Rejected, "v", delivered + time.Second, settled, true},
	} {
		at := func(when time.Duration, kind history.Kind, process string) history.Event {
			e := message(when, kind, queue, 1)
			e.Process = process
			return e
		}
		settles := at(settled, x.settles, "")
		if x.settles == history.Acked {
			settles.Process = "w"
		}
		story := []history.Event{at(0, history.Published, ""), at(0, history.Enqueued, ""), at(delivered, history.Delivered, "w"), settles}
		if x.of != "" {
			hangs := history.Event{At: x.began, Kind: history.FaultBegan, Fault: "f", Text: "stuck_queue", Process: x.of, Count: 1}
			over := hangs
			over.At, over.Kind = x.ended, history.FaultEnded
			story = append([]history.Event{hangs, over}, story...)
			slices.SortStableFunc(story, func(a, b history.Event) int { return int(a.At - b.At) })
		}
		s := New(config.Default(config.Hardened), []int{6})
		for i := range story {
			s.Observe(&story[i])
		}
		found := slices.ContainsFunc(s.Findings(), func(f Finding) bool { return strings.Contains(f.Message, "stayed unacknowledged") })
		if found && !strings.Contains(s.Findings()[0].Message, "at w for") || found != x.broken {
			t.Errorf("%s: broken %v, want %v: %v", x.name, found, x.broken, s.Findings())
		}
	}
}
