package evidence

import (
	"cmp"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// Lag is the maximum delay of a message's event, because the trace travels through the broker and a connection.
// A consequence in the database that is seen up to Lag before its message is placed after the message.
const Lag = 2 * time.Second

// Sources holds all evidence of a run.
type Sources struct {
	// Own holds what the harness itself has done and observed.
	Own      []Item
	Database []Item
	Messages []Item
	Gaps     []Gap
	Witness  []Item
	// DaemonLog holds the daemons' log lines, which invariants ignore.
	DaemonLog []Item
	// Depths counts the messages in each queue at the end; nil if that failed.
	Depths map[string]int
	// Failure returns the reason why an action failed with an exit code. The int is the code if it states the
	// reason, and 0 if the action printed the reason.
	Failure func(id execution.ID, code int) (execution.Reason, int)
}

// placedItem is an event with its position: by time, then source, then index in the source.
type placedItem struct {
	Item
	source, index int
}

// Order merges all sources into one numbered history, sorted by time, with causes before consequences.
// Adjacent events of one transaction have the same number.
func Order(s Sources) []history.Event {
	claims := make(map[execution.Key]history.Event)
	collectClaims(s.Database, claims)
	return orderWithClaims(s, claims)
}

// orderWithClaims does what Order does, but starts with known claims: owners maps claimed epochs to them.
func orderWithClaims(s Sources, owners map[execution.Key]history.Event) []history.Event {
	messages := addDepartures(s.Messages, s.Gaps, s.Own, s.Depths)
	moveCausesFirst(messages, s.Database)
	var all []placedItem
	for source, list := range [][]Item{s.Own, messages, successorsLast(fillCancelRequests(fillRetries(groupTransactions(s.Database)))), s.Witness, s.DaemonLog} {
		for i := range list {
			all = append(all, placedItem{list[i], source, i})
		}
	}
	slices.SortStableFunc(all, func(a, b placedItem) int {
		return cmp.Or(a.Wall.Compare(b.Wall), cmp.Compare(a.source, b.source), cmp.Compare(a.index, b.index))
	})
	events := make([]history.Event, len(all))
	step := uint64(0)
	for i := range all {
		e := all[i].Event
		if i == 0 || all[i].Transaction == 0 || all[i].Transaction != all[i-1].Transaction {
			step++
		}
		e.Step = step
		switch e.Kind {
		case history.ActionStarted, history.ActionEnded:
			o := owners[execution.Key{ID: e.Execution, Epoch: e.Epoch}]
			e.Worker, e.Incarnation, e.Chain = o.Worker, o.Incarnation, o.Chain
			if e.To == execution.Failed && e.Reason == execution.NoReason && s.Failure != nil {
				reason, code := s.Failure(e.Execution, int(e.Count))
				e.Reason, e.Count = reason, int64(code)
			}
		case history.Orchestrated:
			e.Count = 0
		default:
		}
		events[i] = e
	}
	return events
}

// collectClaims adds the evidence's claims to owners: which incarnation may run which epoch.
func collectClaims(database []Item, claims map[execution.Key]history.Event) {
	for i := range database {
		if e := &database[i].Event; e.Kind == history.Transition && e.To == execution.Running {
			claims[execution.Key{ID: e.Execution, Epoch: e.Epoch}] = *e
		}
	}
}

// groupTransactions dates everything that one transaction wrote by its last trigger, because nothing was
// visible before. Its handlings come last, because the triggers of one statement fire in no particular order.
// Later transactions start or skip the children that wait for a handling.
func groupTransactions(database []Item) []Item {
	type handling struct {
		transaction int64
		chain       execution.ID
	}
	last := make(map[int64]time.Time)
	place := make(map[handling]int)
	for i := range database {
		item := &database[i]
		if item.Wall.After(last[item.Transaction]) {
			last[item.Transaction] = item.Wall
		}
		if e := &item.Event; e.Kind == history.Orchestrated {
			place[handling{item.Transaction, e.Chain}] = i + 1
		}
	}
	// of returns the place of a handling; 0 for any other event.
	of := func(item *Item) int {
		if item.Event.Kind != history.Orchestrated {
			return 0
		}
		return place[handling{item.Transaction, item.Event.Chain}]
	}
	out := slices.Clone(database)
	for i := range out {
		if out[i].Transaction != 0 {
			out[i].Wall = last[out[i].Transaction]
		}
	}
	slices.SortStableFunc(out, func(a, b Item) int {
		return cmp.Or(a.Wall.Compare(b.Wall), cmp.Compare(a.Transaction, b.Transaction), cmp.Compare(of(&a), of(&b)))
	})
	return out
}

// fillRetries sets the retry that each handling created, because one statement writes both.
func fillRetries(database []Item) []Item {
	type attempt struct {
		chain execution.ID
		count int64
	}
	created := make(map[attempt]execution.ID)
	for i := range database {
		if e := &database[i].Event; e.Kind == history.Created && e.Count > 0 {
			created[attempt{e.Chain, e.Count}] = e.Execution
		}
	}
	for i := range database {
		if e := &database[i].Event; e.Kind == history.Orchestrated && e.From != execution.Completed && e.From != execution.Cancelled {
			e.Related = created[attempt{e.Chain, e.Count + 1}]
		}
	}
	return database
}

// fillCancelRequests sets, in each cancellation request, the chain's last row and its status. The request
// itself is stored in the first row.
func fillCancelRequests(database []Item) []Item {
	last := make(map[execution.ID]execution.ID)
	status := make(map[execution.ID]execution.Status)
	for i := range database {
		switch e := &database[i].Event; e.Kind {
		case history.Created:
			last[e.Chain], status[e.Execution] = e.Execution, e.To
		case history.Transition:
			status[e.Execution] = e.To
			if e.To == execution.Canceling || e.To == execution.Cancelled {
				// The same statement may have written the request, and its triggers fire row by row.
				status[-e.Execution] = e.From
			}
		case history.CancelRequested:
			e.Execution = last[e.Chain]
			e.From = status[e.Execution]
			if before, changed := status[-e.Execution]; changed && i > 0 && database[i-1].Transaction == database[i].Transaction {
				e.From = before
			}
		default:
		}
	}
	return database
}

// successorsLast puts a registration directly after the end of the incarnation that it supersedes. One
// statement writes both.
func successorsLast(database []Item) []Item {
	type registration struct {
		transaction int64
		worker      execution.WorkerID
	}
	lost := make(map[registration]int)
	for i := range database {
		if e := &database[i].Event; e.Kind == history.WorkerLifecycle && e.Lifecycle == execution.Lost {
			lost[registration{database[i].Transaction, e.Worker}] = i
		}
	}
	for i := range database {
		e := &database[i].Event
		j, supersedes := lost[registration{database[i].Transaction, e.Worker}]
		if e.Kind != history.WorkerRegistered || !supersedes {
			continue
		}
		database[j].Wall, database[j].Event.At = database[i].Wall, e.At
		if j > i {
			database[i], database[j] = database[j], database[i]
		}
	}
	return database
}

// moveCausesFirst moves a message's events before the change of status that they caused, if the database's
// event has the earlier time.
func moveCausesFirst(messages, database []Item) {
	left := make(map[execution.Key]time.Time)
	for i := range database {
		if e := &database[i].Event; e.Kind == history.Transition && e.From == execution.Scheduled {
			left[execution.Key{ID: e.Execution, Epoch: e.OldEpoch}] = database[i].Wall
		}
	}
	for i := range messages {
		m := &messages[i]
		at, has := left[execution.Key{ID: m.Event.Execution, Epoch: m.Event.Epoch}]
		if m.Event.Execution == 0 || !has || !m.Wall.After(at) || m.Wall.Sub(at) > Lag {
			continue
		}
		switch m.Event.Kind {
		case history.Acked, history.Requeued:
		default:
			early := m.Wall.Sub(at) + time.Microsecond
			m.Wall = m.Wall.Add(-early)
			m.Event.At -= early
		}
	}
}
