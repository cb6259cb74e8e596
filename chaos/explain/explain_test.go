package explain_test

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/core/execution"
)

// completedRun returns a run of two completed executions, modified by change unless it is nil.
func completedRun(change func(events *[]history.Event)) explain.Run {
	var events []history.Event
	add := func(e history.Event) {
		e.At, e.Step = time.Duration(len(events))*time.Second, uint64(len(events)*10)
		events = append(events, e)
	}
	add(history.Event{Kind: history.Created, Execution: 1, Chain: 1, Key: "a", To: execution.Requested})
	add(history.Event{Kind: history.Created, Execution: 2, Chain: 2, Key: "b", To: execution.Requested})
	for _, id := range []execution.ID{1, 2} {
		add(history.Event{Kind: history.Transition, Execution: id, Chain: id, Epoch: 1, From: execution.Scheduled, To: execution.Running, By: execution.Worker, Process: "shell-1"})
		add(history.Event{Kind: history.HeartbeatRenewed, Worker: 1, Process: "shell-1"})
		add(history.Event{Kind: history.Transition, Execution: id, Chain: id, Epoch: 1, From: execution.Running, To: execution.Completed, By: execution.Worker, Process: "shell-1"})
	}
	if change != nil {
		change(&events)
	}
	return explain.Run{Events: events, Workers: map[execution.WorkerID]string{1: "shell-1"}}
}

func TestEqualRunsHaveNoDifference(t *testing.T) {
	d := explain.Compare(completedRun(nil), completedRun(func(events *[]history.Event) {
		for i := range *events {
			(*events)[i].Step *= 7 // another version of the program
		}
	}), 1, 4)
	if !d.Equal() || d.Same != 8 {
		t.Errorf("%+v, want 8 equal events", d)
	}
}

func TestComparePairsFirstDifference(t *testing.T) {
	d := explain.Compare(completedRun(func(events *[]history.Event) {
		(*events)[4].To, (*events)[4].By = execution.Failed, execution.TimeoutMonitor
	}), completedRun(nil), 1, 4)
	if d.Same != 4 || d.Until != 3*time.Second {
		t.Errorf("%d events until %v are the same, want 4 until 3s", d.Same, d.Until)
	}
	if len(d.Pairs) != 1 || d.Pairs[0].About != 1 || d.Pairs[0].Here.To != execution.Failed || d.Pairs[0].There.To != execution.Completed {
		t.Errorf("%+v", d.Pairs)
	}
}

// The dead letter canary queues have random names, so runs don't differ by those names alone.
func TestCompareIgnoresDrawnQueueNames(t *testing.T) {
	run := func(queue string, last history.Kind) explain.Run {
		return completedRun(func(events *[]history.Event) {
			for _, kind := range []history.Kind{history.Enqueued, last} {
				at := (*events)[len(*events)-1].At + time.Second
				*events = append(*events, history.Event{Kind: kind, Queue: queue, At: at, Step: uint64(at / time.Second * 10)})
			}
		})
	}
	a, b := "handoff.canary.3241d95e0ab2.arrival", "handoff.canary.5df0195b6213.arrival"
	if d := explain.Compare(run(a, history.Expired), run(b, history.Expired), 0, 4); len(d.Pairs)+d.More != 0 {
		t.Errorf("same events in two queues with random names: %+v", d.Pairs)
	}
	d := explain.Compare(run(a, history.Expired), run(b, history.Rejected), 0, 4)
	if len(d.Pairs) != 1 || d.Pairs[0].Here == nil || d.Pairs[0].There == nil {
		t.Errorf("different ends in such a queue: %+v, want one pair with both sides", d.Pairs)
	}
}

func TestCompareMatchesExecutionsByKey(t *testing.T) {
	fails := func(events *[]history.Event) { (*events)[7].To = execution.Failed } // key b
	d := explain.Compare(completedRun(fails), completedRun(func(events *[]history.Event) {
		fails(events)
		for i := range *events {
			if e := &(*events)[i]; e.Execution != 0 {
				e.Execution, e.Chain = 3-e.Execution, 3-e.Chain
			}
		}
	}), 1, 4)
	if len(d.Pairs) != 0 {
		t.Errorf("executions that only have other numbers differ: %+v", d.Pairs)
	}
}

func TestCompareOnlyCountsMovedEvents(t *testing.T) {
	d := explain.Compare(completedRun(nil), completedRun(func(events *[]history.Event) {
		(*events)[4].At += time.Millisecond
		(*events)[5].Process = "shell-2"
	}), 1, 4)
	if len(d.Pairs) != 0 || d.Moved != 2 {
		t.Errorf("%d pairs and %d moved, want 0 and 2", len(d.Pairs), d.Moved)
	}
}

// Events in another order are not shown as differences if there is a real difference. An event that only one
// run has is shown without a counterpart.
func TestCompareIgnoresReorderedEvents(t *testing.T) {
	swap := func(events *[]history.Event) {
		(*events)[2], (*events)[4] = (*events)[4], (*events)[2]
	}
	fails := func(events *[]history.Event) { (*events)[7].To = execution.Failed }
	d := explain.Compare(completedRun(func(events *[]history.Event) { swap(events); fails(events) }), completedRun(nil), 0, 4)
	if len(d.Pairs) != 1 || d.Pairs[0].About != 2 || d.Moved != 1 {
		t.Errorf("alongside a real difference: %+v, %d moved", d.Pairs, d.Moved)
	}
	if d := explain.Compare(completedRun(swap), completedRun(nil), 0, 4); len(d.Pairs) != 1 || d.Pairs[0].About != 1 || d.Pairs[0].Here == nil || d.Pairs[0].There == nil {
		t.Errorf("alone: %+v", d.Pairs)
	}
	extra := func(events *[]history.Event) {
		(*events)[3] = history.Event{Kind: history.CancelRequested, Execution: 1, Chain: 1, At: 3 * time.Second}
	}
	d = explain.Compare(completedRun(extra), completedRun(nil), 1, 4)
	if len(d.Pairs) != 1 || d.Pairs[0].Here == nil || d.Pairs[0].Here.Kind != history.CancelRequested || d.Pairs[0].There != nil || d.Pairs[0].Over {
		t.Errorf("an additional event: %+v", d.Pairs)
	}
}

func TestCompareAlwaysShowsFailingExecution(t *testing.T) {
	change := func(events *[]history.Event) {
		(*events)[4].To = execution.Failed
		(*events)[7].To = execution.Failed
	}
	d := explain.Compare(completedRun(change), completedRun(nil), 2, 1)
	if len(d.Pairs) != 1 || d.Pairs[0].About != 2 || d.More != 1 {
		t.Errorf("%+v, %d more", d.Pairs, d.More)
	}
}

// Compare shows the first difference and those of the failing execution, its retries, its parent and its
// children. Later differences of other executions are mostly remote consequences, and left out.
func TestCompareShowsFamilyOfFailingExecution(t *testing.T) {
	run := func(to execution.Status) explain.Run {
		var events []history.Event
		add := func(e history.Event) {
			e.At = time.Duration(len(events)) * time.Second
			events = append(events, e)
		}
		for id := execution.ID(1); id <= 7; id++ {
			e := history.Event{Kind: history.Created, Execution: id, Chain: id, Key: string(rune('a' + id)), To: execution.Requested}
			switch id {
			case 6: // a retry
				e.Chain, e.Key, e.Count = 5, "", 1
			case 7: // a child
				e.Related = 5
			case 5: // its parent
				e.Related = 4
			}
			add(e)
		}
		for id := execution.ID(1); id <= 7; id++ {
			add(history.Event{Kind: history.Transition, Execution: id, Epoch: 1, From: execution.Running, To: to, By: execution.Worker})
		}
		return explain.Run{Events: events}
	}
	shown := func(about execution.ID, most int) (ids []execution.ID) {
		d := explain.Compare(run(execution.Failed), run(execution.Completed), about, most)
		for _, p := range d.Pairs {
			ids = append(ids, p.About)
		}
		if len(ids)+d.More != 7 {
			t.Errorf("%d shown and %d more, want 7 together", len(ids), d.More)
		}
		return ids
	}
	for _, c := range []struct {
		about execution.ID
		most  int
		want  []execution.ID
	}{
		{5, 5, []execution.ID{1, 4, 5, 6, 7}},
		{5, 2, []execution.ID{1, 5}},
		{6, 4, []execution.ID{1, 4, 5, 6}},
		{7, 4, []execution.ID{1, 5, 6, 7}},
		{3, 4, []execution.ID{1, 3}},
		{0, 3, []execution.ID{1, 2, 3}},
		{9, 3, []execution.ID{1}}, // this execution does not differ
		{5, 7, []execution.ID{1, 2, 3, 4, 5, 6, 7}},
	} {
		if got := shown(c.about, c.most); !slices.Equal(got, c.want) {
			t.Errorf("about execution %d, at most %d: %d are shown, want %d", c.about, c.most, got, c.want)
		}
	}
}

// If the states of executions, workers, faults and servers are equal, messages and heartbeats are compared.
func TestCompareFallsBackToHeartbeats(t *testing.T) {
	d := explain.Compare(completedRun(func(events *[]history.Event) { (*events)[6].Kind = history.HealthReported }), completedRun(nil), 1, 4)
	if len(d.Pairs) != 1 || d.Pairs[0].There.Kind != history.HeartbeatRenewed {
		t.Errorf("%+v", d.Pairs)
	}
}

// If all differences are later than the failure, they don't explain it. Compare then shows earlier
// differences of messages and heartbeats, if there are any.
func TestCompareIgnoresDifferencesAfterFailure(t *testing.T) {
	later := func(events *[]history.Event) { (*events)[7].To = execution.Failed }
	both := func(events *[]history.Event) { later(events); (*events)[3].Kind = history.HealthReported }
	for name, c := range map[string]struct {
		change func(*[]history.Event)
		failed time.Duration
		want   history.Kind
	}{
		"a failure in between":           {both, 5 * time.Second, history.HealthReported},
		"a failure behind all":           {both, 7 * time.Second, history.Transition},
		"no failure":                     {both, 0, history.Transition},
		"nothing differs before it":      {later, 5 * time.Second, history.Transition},
		"a failure before anything else": {both, 1, history.Transition},
	} {
		here := completedRun(c.change)
		here.Failed = c.failed
		if d := explain.Compare(here, completedRun(nil), 0, 4); len(d.Pairs) == 0 || d.Pairs[0].Here == nil || d.Pairs[0].Here.Kind != c.want {
			t.Errorf("%s: %+v, want first a difference of kind %v", name, d.Pairs, c.want)
		}
	}
}

// Compare reports a mutant's first act, and its first act on the failed execution.
func TestCompareReportsActOnExecution(t *testing.T) {
	acts := func(ids ...execution.ID) explain.Run {
		return completedRun(func(events *[]history.Event) {
			for i, id := range ids {
				*events = append(*events, history.Event{At: time.Minute, Step: uint64(1000 + i), Kind: history.MutantActed, Execution: id, Process: "shell-1"})
			}
		})
	}
	for _, c := range []struct {
		acts      []execution.ID
		about     execution.ID
		first, on uint64
	}{
		{[]execution.ID{1, 2, 2}, 2, 1000, 1001},
		{[]execution.ID{2, 1, 2}, 2, 1000, 0},
		{[]execution.ID{1, 0}, 2, 1000, 0},
		{[]execution.ID{1, 2}, 0, 1000, 0},
	} {
		for there, d := range map[bool]*explain.Difference{
			false: explain.Compare(acts(c.acts...), completedRun(nil), c.about, 4), true: explain.Compare(completedRun(nil), acts(c.acts...), c.about, 4),
		} {
			var on uint64
			if d.ActOn != nil {
				on = d.ActOn.Step
			}
			if d.Act == nil || d.Act.Step != c.first || on != c.on || d.There != there {
				t.Errorf("acts on %d, about %d: first %+v, on it %d (there %v), want steps %d and %d", c.acts, c.about, d.Act, on, d.There, c.first, c.on)
			}
		}
	}
	if d := explain.Compare(completedRun(nil), completedRun(nil), 1, 4); d.Act != nil || d.There {
		t.Errorf("without a mutant: %+v", d)
	}
}
