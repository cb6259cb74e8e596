package evidence

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func itemAt(ms int, e history.Event) Item {
	e.At = time.Duration(ms) * time.Millisecond
	return Item{Wall: start.Add(e.At), Event: e}
}

func messageItem(ms int, kind history.Kind, queue string, count int64) Item {
	return itemAt(ms, history.Event{Kind: kind, Message: 1, Queue: queue, Count: count, Execution: 1, Epoch: 1})
}

func kindNames(events []history.Event) (names []string) {
	for _, e := range events {
		names = append(names, e.Kind.String())
	}
	return names
}

// The trace doesn't show how a copy left its queue, so Order infers it. Other evidence implies it.
func TestOrderInfersHowCopiesLeaveQueues(t *testing.T) {
	sent := []Item{messageItem(0, history.Published, "", 1), messageItem(0, history.Enqueued, "q", 0)}
	delivered := append(slices.Clone(sent), messageItem(5, history.Delivered, "q", 0))
	corrupt := slices.Clone(delivered)
	corrupt[2].Unreadable = "corrupt x"
	died := append(slices.Clone(sent), messageItem(9, history.Expired, "q", 0), messageItem(9, history.DeadLettered, "q", 1), messageItem(9, history.Enqueued, "dead", 0))
	for _, c := range []struct {
		name   string
		trace  []Item
		gaps   []Gap
		depths map[string]int
		want   []string
		fault  string
	}{
		{"delivered and gone", delivered, nil, nil, []string{"published", "enqueued", "delivered", "acked"}, ""},
		{"delivered unread and gone", corrupt, nil, nil, []string{"published", "enqueued", "delivered", "acked"}, "corrupt x"},
		{"delivered unread, and its queue was deleted", corrupt, []Gap{{To: start.Add(time.Second), Fault: "x", Queue: "q"}}, nil, []string{"published", "enqueued", "delivered", "acked"}, ""},
		{"delivered and there", delivered, nil, map[string]int{"q": 1}, []string{"published", "enqueued", "delivered"}, ""},
		{"never delivered and gone", sent, nil, nil, []string{"published", "enqueued", "dropped"}, ""},
		{"gone while nobody listened", sent, []Gap{{To: start.Add(time.Second), Fault: "kill broker"}}, nil, []string{"published", "enqueued", "dropped"}, "kill broker"},
		{"gone before nobody listened in another queue", sent, []Gap{{To: start.Add(time.Second), Fault: "x", Queue: "other"}}, nil, []string{"published", "enqueued", "dropped"}, ""},
		{"dead, and the letter is there", died, nil, map[string]int{"dead": 1}, []string{"published", "enqueued", "expired", "dead_lettered", "enqueued"}, ""},
		{"delivered without having been published", delivered[2:], nil, nil, []string{"published", "enqueued", "delivered", "acked"}, ""},
	} {
		events := Order(Sources{Messages: c.trace, Gaps: c.gaps, Depths: c.depths})
		if got := kindNames(events); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
			continue
		}
		if last := events[len(events)-1]; last.Fault != c.fault {
			t.Errorf("%s: fault %q, want %q", c.name, last.Fault, c.fault)
		}
	}
}

// A message may be lost if its publisher is killed before the broker's confirm.
func TestKilledPublishersMessageMayBeLost(t *testing.T) {
	sent := []Item{messageItem(1000, history.Published, "", 1), messageItem(1000, history.Enqueued, "q", 0)}
	killed := func(ms int) []Item {
		return []Item{itemAt(ms, history.Event{Kind: history.ProcessCrashed, Process: "executor-1"})}
	}
	for _, c := range []struct {
		name  string
		own   []Item
		fault string
	}{
		{"a kill just before it was seen", killed(925), "kill of executor-1"},
		{"a kill just after", killed(1100), "kill of executor-1"},
		{"a kill long before", killed(1000 - int(Lag/time.Millisecond)), ""},
		{"a kill long after", killed(1000 + int(Lag/time.Millisecond)), ""},
		{"a stop", []Item{itemAt(1000, history.Event{Kind: history.ProcessStopped, Process: "executor-1"})}, ""},
	} {
		events := Order(Sources{Messages: sent, Own: c.own})
		i := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.Dropped })
		if i < 0 || events[i].Fault != c.fault {
			t.Errorf("%s: %v; want it dropped because of %q", c.name, events, c.fault)
		}
	}
	delivered := append(slices.Clone(sent), messageItem(1010, history.Delivered, "q", 0))
	if got := kindNames(Order(Sources{Messages: delivered, Own: killed(1000)})); slices.Contains(got, "dropped") {
		t.Errorf("delivered: %v; want no loss", got)
	}
}

// A message that was seen slightly after its consequence is placed before the consequence. A message seen
// long after was not the cause, so it stays.
func TestOrderPutsCausesFirst(t *testing.T) {
	taken := itemAt(100, history.Event{
		Kind: history.Transition, Execution: 1, From: execution.Scheduled, To: execution.Requested, OldEpoch: 1, Epoch: 2, By: execution.DeadLetterHandler,
	})
	for _, c := range []struct {
		late int
		want string
	}{{20, "expired"}, {int(Lag/time.Millisecond) + 50, "transition"}} {
		events := Order(Sources{Database: []Item{taken}, Messages: []Item{
			messageItem(0, history.Published, "", 1), messageItem(0, history.Enqueued, "q", 0), messageItem(100+c.late, history.Expired, "q", 0),
		}})
		first := slices.IndexFunc(events, func(e history.Event) bool { return e.Kind == history.Expired || e.Kind == history.Transition })
		if got := events[first].Kind.String(); got != c.want {
			t.Errorf("seen %d ms late: %s comes first, want %s", c.late, got, c.want)
		}
	}
}

// Events of one statement are put in the order of the model's history.
func TestOrderWithinStatementFollowsModel(t *testing.T) {
	in := func(tx int64, i Item) Item { i.Transaction = tx; return i }
	database := []Item{
		in(1, itemAt(10, history.Event{Kind: history.Orchestrated, Execution: 1, Chain: 1, From: execution.Failed})),
		in(1, itemAt(10, history.Event{Kind: history.Created, Execution: 2, Chain: 1, Count: 1})),
		in(3, itemAt(12, history.Event{Kind: history.PublishedMarked, Execution: 9})),
		in(1, itemAt(15, history.Event{Kind: history.SlotFreed, Execution: 1})),
		in(2, itemAt(20, history.Event{Kind: history.WorkerRegistered, Worker: 1, Incarnation: 2})),
		in(2, itemAt(20, history.Event{Kind: history.WorkerLifecycle, Worker: 1, Incarnation: 1, Lifecycle: execution.Lost})),
	}
	events := Order(Sources{Database: database})
	if got := kindNames(events); !slices.Equal(got, []string{"published_marked", "created", "slot_freed", "orchestrated", "worker_lifecycle", "worker_registered"}) {
		t.Errorf("%v", got)
	}
	if events[3].Related != 2 {
		t.Errorf("the handling names retry %d, want 2", events[3].Related)
	}
	if events[0].Step == events[1].Step || events[1].Step != events[3].Step || events[3].Step == events[4].Step {
		t.Errorf("steps %d %d %d %d: one transaction is one step", events[0].Step, events[1].Step, events[3].Step, events[4].Step)
	}
}

// Several handlings in one transaction keep their order. Later transactions start or skip their children.
func TestOrderPutsChildrenAfterHandling(t *testing.T) {
	in := func(i Item) Item { i.Transaction = 7; return i }
	settled := func(i Item) Item { i.Transaction = 8; return i }
	created := func(id, parent execution.ID) Item {
		return itemAt(1, history.Event{Kind: history.Created, Execution: id, Chain: id, Related: parent})
	}
	handled := func(id execution.ID) Item {
		return in(itemAt(10, history.Event{Kind: history.Orchestrated, Execution: id, Chain: id, From: execution.Completed}))
	}
	events := Order(Sources{Database: []Item{
		created(3, 1), created(4, 2), handled(1), handled(2),
		settled(itemAt(11, history.Event{Kind: history.Transition, Execution: 4, To: execution.Cancelled, By: execution.ExecutionManager})),
		settled(itemAt(11, history.Event{Kind: history.ChildStarted, Execution: 3, Related: 1})),
	}})
	var order []execution.ID
	for _, e := range events {
		order = append(order, e.Execution)
	}
	if want := []execution.ID{3, 4, 1, 2, 4, 3}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}
