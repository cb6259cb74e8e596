package metered

import (
	"context"
	"fmt"
	"testing"

	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// fixedAPI answers the API's calls.
type fixedAPI struct{ store.API }

func (fixedAPI) Create(context.Context, []store.NewExecution) ([]store.Created, error) {
	return []store.Created{{ID: 1}, {ID: 2, Existed: true}, {UnknownAction: true}, {ID: 3, Skipped: true}}, nil
}

func (fixedAPI) Cancel(context.Context, []execution.ID, string) ([]store.Cancellation, error) {
	of := func(applied bool, from, to execution.Status) store.Cancellation {
		return store.Cancellation{Outcome: store.Outcome{Applied: applied, From: from, Row: execution.Execution{ID: 1, Status: to}}}
	}
	return []store.Cancellation{
		of(true, execution.Running, execution.Canceling), of(true, execution.Canceling, execution.Canceling),
		of(false, execution.Completed, execution.Completed), of(true, execution.Failed, execution.Failed),
	}, nil
}

func (fixedAPI) Reclaim(context.Context, []store.Reclaim) ([]store.Outcome, error) {
	return []store.Outcome{
		{Applied: true, From: execution.Scheduled, Row: execution.Execution{ID: 1, Status: execution.Requested}},
		{From: execution.Running, Row: execution.Execution{ID: 2, Status: execution.Running}},
	}, nil
}

type counts struct {
	telemetry.Discard
	of map[string]int64
}

func (*counts) Listens() bool { return true }

func (c *counts) Add(f telemetry.Figure, n int64, l telemetry.Labels) {
	if f == telemetry.Transitions {
		c.of[fmt.Sprint(l)] += n
	}
}

func TestAPIChangesAreCounted(t *testing.T) {
	c := &counts{of: make(map[string]int64)}
	s := API(fixedAPI{}, c)
	_, _ = s.Create(t.Context(), nil)
	_, _ = s.Cancel(t.Context(), nil, "")
	_, _ = s.Reclaim(t.Context(), []store.Reclaim{{By: execution.DeadLetterHandler, Reason: execution.QueueTimeout}, {}})
	want := map[string]int64{
		"[none requested api ]": 2, "[requested cancelled execution_manager parent_failed]": 1, "[running canceling api cancelled]": 1,
		"[scheduled requested dead_letter_handler queue_timeout]": 1,
	}
	if fmt.Sprint(c.of) != fmt.Sprint(want) {
		t.Errorf("counted %v, not %v", c.of, want)
	}
}
