package executor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// All rows of a message have the same incarnation and dispatch timeout. Their number and length are limited.
func TestPackGroupsRowsByIncarnationAndTimeout(t *testing.T) {
	row := func(id execution.ID, to execution.Incarnation, timeout time.Duration, length int) execution.Execution {
		return execution.Execution{
			ID: id, Epoch: 2, Incarnation: to, Worker: execution.WorkerID(to), Action: execution.Action{DispatchTimeout: timeout},
			Parameters: []byte(strings.Repeat(" ", length)),
		}
	}
	named := func(row execution.Execution) execution.Execution {
		row.Action.Ref, row.Action.Runtime, row.Action.Entrypoint = "a", "b", "c"
		return row
	}
	reads := func(n execution.Incarnation) bool { return n != 3 }
	large := broker.MaxBlock / 2
	for _, c := range []struct {
		name   string
		most   int
		blocks func(execution.Incarnation) bool
		rows   []execution.Execution
		want   string
	}{
		{"nobody reads blocks", 9, nil, []execution.Execution{row(1, 1, 0, 0), row(2, 1, 0, 0)}, "[[0] [1]]"},
		{"one a message", 1, reads, []execution.Execution{row(1, 1, 0, 0), row(2, 1, 0, 0)}, "[[0] [1]]"},
		{"by incarnation", 9, reads, []execution.Execution{row(1, 1, 0, 0), row(2, 2, 0, 0), row(3, 1, 0, 0), row(4, 3, 0, 0), row(5, 3, 0, 0), row(6, 2, 0, 0)}, "[[0 2] [1 5] [3] [4]]"},
		{"by timeout", 9, reads, []execution.Execution{row(1, 1, 0, 0), row(2, 1, time.Minute, 0), row(3, 1, 0, 0), row(4, 1, time.Minute, 0)}, "[[0 2] [1 3]]"},
		{"full", 2, reads, []execution.Execution{row(1, 1, 0, 0), row(2, 1, 0, 0), row(3, 1, 0, 0), row(4, 1, 0, 0), row(5, 1, 0, 0)}, "[[0 1] [2 3] [4]]"},
		{"long", 9, reads, []execution.Execution{row(1, 1, 0, large), row(2, 1, 0, large), row(3, 1, 0, 0), row(4, 1, 0, 4*large), row(5, 1, 0, 0)}, "[[0] [1 2] [3] [4]]"},
		{"just full", 9, reads, []execution.Execution{row(1, 1, 0, large), row(2, 1, 0, large-2*256), row(3, 1, 0, 0)}, "[[0 1] [2]]"},
		{"a byte too long", 9, reads, []execution.Execution{row(1, 1, 0, large), row(2, 1, 0, large-2*256+1), row(3, 1, 0, 0)}, "[[0] [1 2]]"},
		{"names count twice", 9, reads, []execution.Execution{row(1, 1, 0, large), named(row(2, 1, 0, large-2*256-2*3))}, "[[0 1]]"},
		{"names too long", 9, reads, []execution.Execution{row(1, 1, 0, large), named(row(2, 1, 0, large-2*256-2*3+1))}, "[[0] [1]]"},
		{"none", 9, reads, nil, "[]"},
	} {
		var got [][]int
		for _, b := range packBlocks(c.rows, c.most, c.blocks) {
			got = append(got, b.rows)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// A message of one dispatch has the old version, so that an old worker can read it. A block has the new
// version.
func TestOnlyBlocksUseNewWireVersion(t *testing.T) {
	s := &Service{host: &timedHost{day: time.Unix(2e9, 0)}}
	rows := []execution.Execution{{ID: 7, Epoch: 3, Worker: 4, Incarnation: 5}, {ID: 8, Epoch: 1, Worker: 4, Incarnation: 5}}
	one, both := s.dispatchMessage(rows, []int{1}), s.dispatchMessage(rows, []int{0, 1})
	for _, m := range []broker.Message{one, both} {
		if _, err := broker.Encode(&m.Envelope); err != nil {
			t.Errorf("%s can't be written: %v", m.Envelope.MessageID, err)
		}
	}
	if e := one.Envelope; e.MessageID != "8.1" || e.CorrelationID != "8" || e.Version != broker.WireVersion || len(e.Dispatches) != 1 {
		t.Errorf("alone: %+v", e)
	}
	if e := both.Envelope; e.MessageID != "7.3+1" || e.CorrelationID != "" || e.Version != broker.VersionBlock || len(e.Dispatches) != 2 || both.RoutingKey != broker.DispatchKey(4) {
		t.Errorf("together: %+v", e)
	}
}

// Under load, each worker gets several consecutive rows: as many as fit into a message, and no more than half
// of its capacity. Otherwise the rows are dealt out one by one.
func TestWorkersGetBlocksUnderLoad(t *testing.T) {
	given := func(load bool, most int, rows []execution.Execution, workers ...store.WorkerRow) string {
		f := rosterOf(workers...)
		f.most, f.ahead = most, 0
		f.draw = func(uint64) uint64 { return 0 } // the first worker wins a tie
		var at []int
		for _, p := range f.placeRows(rows, load) {
			at = append(at, p.worker)
		}
		return fmt.Sprint(at)
	}
	shell := execution.Execution{Action: execution.Action{Runtime: "shell"}}
	rows := func(n int) (all []execution.Execution) {
		for range n {
			all = append(all, shell)
		}
		return all
	}
	room := func(id execution.WorkerID, capacity, load int) store.WorkerRow {
		return fit(id, func(w *store.WorkerRow) { w.Capacity, w.Load = capacity, load })
	}
	avoiding := rows(4)
	avoiding[1].Avoid = 1
	for _, c := range []struct {
		name string
		got  string
		want string
	}{
		{"no load", given(false, 9, rows(4), room(1, 8, 0), room(2, 8, 0)), "[0 1 0 1]"},
		{"one a message", given(true, 1, rows(4), room(1, 8, 0), room(2, 8, 0)), "[0 1 0 1]"},
		{"half of the capacity", given(true, 9, rows(9), room(1, 8, 0), room(2, 8, 0)), "[0 0 0 0 1 1 1 1 0]"},
		{"as many as share a message", given(true, 3, rows(7), room(1, 8, 0), room(2, 8, 0)), "[0 0 0 1 1 1 0]"},
		{"no more than there is room", given(true, 9, rows(5), room(1, 8, 6), room(2, 8, 7)), "[0 0 1 -1 -1]"},
		{"the least loaded first", given(true, 9, rows(4), room(1, 8, 3), room(2, 8, 1)), "[1 1 1 1]"},
		{"not where it is avoided", given(true, 9, avoiding, room(1, 8, 0), room(2, 8, 0)), "[0 1 0 0]"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.name, c.got, c.want)
		}
	}
}

// A worker of an older release gets no blocks, because it can't read them.
func TestOldWorkersGetNoBlocks(t *testing.T) {
	f := &roster{workers: []store.WorkerRow{
		{WorkerKey: store.WorkerKey{ID: 1, Incarnation: 10}, Messages: broker.WireVersion},
		{WorkerKey: store.WorkerKey{ID: 2, Incarnation: 20}, Messages: broker.VersionBlock},
	}}
	for incarnation, want := range map[execution.Incarnation]bool{10: false, 20: true, 30: false} {
		if got := f.readsBlocks(incarnation); got != want {
			t.Errorf("incarnation %d reads blocks: %v, want %v", incarnation, got, want)
		}
	}
}
