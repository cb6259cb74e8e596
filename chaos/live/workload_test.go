package live

import (
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/live/evidence"
	"handoff/core/execution"
)

func TestKnownExecutionAgeComesFromRow(t *testing.T) {
	created := time.Unix(1000, 0)
	own := []evidence.Item{
		{Wall: created.Add(time.Minute), Event: history.Event{Kind: history.KeyKnown, Execution: 7, Key: "k"}},
		{Wall: created.Add(time.Minute), Event: history.Event{Kind: history.KeyKnown, Execution: 8, Key: "gone"}},
		{Wall: created.Add(time.Minute), Event: history.Event{Kind: history.Logged, Execution: 7}},
	}
	got := fillKnownAges(own, []execution.Execution{{ID: 7, Original: 5, Created: created}})
	if e := got[0].Event; e.Due != time.Minute || e.Chain != 5 {
		t.Errorf("%+v", e)
	}
	for _, i := range []int{1, 2} {
		if got[i] != own[i] {
			t.Errorf("%+v became %+v", own[i], got[i])
		}
	}
	if own[0].Event.Due != 0 {
		t.Error("the world's own record was changed")
	}
}
