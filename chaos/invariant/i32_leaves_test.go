package invariant

import (
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
)

// keptRun collects the events of chains under a retention of one hour.
type keptRun struct{ events []history.Event }

func (k *keptRun) addCreated(at time.Duration, id, chain, parent execution.ID, key string) {
	k.events = append(k.events, history.Event{
		At: at, Kind: history.Created, Execution: id, Chain: chain, Related: parent, Key: key, To: execution.Requested, By: execution.API, Action: "a", Text: "shell",
	})
}

func (k *keptRun) addEnd(at time.Duration, id, chain execution.ID) {
	k.events = append(k.events,
		history.Event{At: at, Kind: history.Transition, Execution: id, Chain: chain, From: execution.Requested, To: execution.Cancelled, By: execution.API},
		history.Event{At: at, Kind: history.Orchestrated, Execution: id, Chain: chain, From: execution.Cancelled})
}

func (k *keptRun) addPurge(at time.Duration, chain execution.ID, rows int64) {
	k.events = append(k.events, history.Event{At: at, Kind: history.Purged, Execution: chain, Count: rows})
}

func TestRetentionDeletesChainsOnTime(t *testing.T) {
	const ended = 10 * time.Second
	for name, x := range map[string]struct {
		story func(r *keptRun)
		says  string
	}{
		"at its age": {func(r *keptRun) {
			r.addCreated(0, 1, 1, 0, "")
			r.addEnd(ended, 1, 1)
			r.addPurge(ended+time.Hour, 1, 1)
		}, ""},
		"too early": {func(r *keptRun) {
			r.addCreated(0, 1, 1, 0, "")
			r.addEnd(ended, 1, 1)
			r.addPurge(ended+time.Hour-time.Second, 1, 1)
		}, "too early"},
		"too late":               {func(r *keptRun) { r.addCreated(0, 1, 1, 0, ""); r.addEnd(ended, 1, 1); r.addPurge(3*time.Hour, 1, 1) }, "still there"},
		"never":                  {func(r *keptRun) { r.addCreated(0, 1, 1, 0, ""); r.addEnd(ended, 1, 1) }, "still there"},
		"while it is unfinished": {func(r *keptRun) { r.addCreated(0, 1, 1, 0, ""); r.addPurge(2*time.Hour, 1, 1) }, "has not ended"},
		"half of a chain": {func(r *keptRun) {
			r.addCreated(0, 1, 1, 0, "")
			r.addEnd(ended, 1, 1)
			r.addCreated(ended, 2, 1, 0, "")
			r.addEnd(ended, 2, 1)
			r.addPurge(ended+time.Hour, 1, 1)
		}, "1 of the 2 rows"},
		"while a key leads to it": {func(r *keptRun) { r.addCreated(0, 1, 1, 0, "k"); r.addEnd(ended, 1, 1); r.addPurge(2*time.Hour, 1, 1) }, "idempotency key"},
		"when its key is free": {func(r *keptRun) {
			r.addCreated(0, 1, 1, 0, "k")
			r.addEnd(ended, 1, 1)
			r.addPurge(oracle.KeyLifetime, 1, 1)
		}, ""},
		"a child of an unfinished parent": {func(r *keptRun) {
			r.addCreated(0, 1, 1, 0, "")
			r.addCreated(0, 2, 2, 1, "")
			r.addEnd(ended, 2, 2)
			r.addPurge(ended+time.Hour, 2, 1)
		}, "the chain of its parent has not ended"},
		"a parent of children": {func(r *keptRun) {
			r.addCreated(0, 1, 1, 0, "")
			r.addCreated(0, 2, 2, 1, "")
			r.addEnd(ended, 1, 1)
			r.addEnd(ended, 2, 2)
			r.addPurge(ended+time.Hour, 1, 1)
		}, "children"},
		"a child, and then its parent": {func(r *keptRun) {
			r.addCreated(0, 1, 1, 0, "")
			r.addCreated(0, 2, 2, 1, "")
			r.addEnd(ended, 1, 1)
			r.addEnd(ended, 2, 2)
			r.addPurge(ended+time.Hour, 2, 1)
			r.addPurge(ended+time.Hour+time.Second, 1, 1)
		}, ""},
		"one that was deleted before": {func(r *keptRun) {
			r.addCreated(0, 1, 1, 0, "")
			r.addEnd(ended, 1, 1)
			r.addPurge(ended+time.Hour, 1, 1)
			r.addPurge(ended+time.Hour, 1, 1)
		}, "deleted before"},
	} {
		t.Run(name, func(t *testing.T) {
			c := config.Default(config.Hardened)
			c.Retention.Executions = time.Hour
			s, r := New(c, []int{32}), new(keptRun)
			x.story(r)
			slices.SortStableFunc(r.events, func(a, b history.Event) int { return int(a.At - b.At) })
			for i := range r.events {
				s.Observe(&r.events[i])
			}
			s.Observe(&history.Event{At: max(4*time.Hour, r.events[len(r.events)-1].At), Kind: history.Quiescent})
			found := s.End(true)
			switch {
			case x.says == "" && len(found) > 0:
				t.Errorf("found %+v", found)
			case x.says != "" && (len(found) != 1 || !strings.Contains(found[0].Message, x.says)):
				t.Errorf("found %+v, want something about %q", found, x.says)
			}
		})
	}
}

func TestRetentionDeletesOnlyGoneIncarnations(t *testing.T) {
	const lease = 30 * time.Second
	registered := func(at time.Duration, n execution.Incarnation) history.Event {
		return history.Event{At: at, Kind: history.WorkerRegistered, Worker: 1, Incarnation: n, Process: "w", Due: at + lease, Limit: 1, Text: "shell"}
	}
	lost := history.Event{At: time.Minute, Kind: history.WorkerLifecycle, Worker: 1, Incarnation: 1, Lifecycle: execution.Lost, Process: "executor-1"}
	left := func(at time.Duration, latest int64) history.Event {
		return history.Event{At: at, Kind: history.WorkerPurged, Worker: 1, Incarnation: 1, Count: latest}
	}
	for name, x := range map[string]struct {
		story []history.Event
		says  string
	}{
		"at its age":                  {[]history.Event{registered(0, 1), lost, registered(2*time.Minute, 2), left(lease+time.Hour, 0)}, ""},
		"too early":                   {[]history.Event{registered(0, 1), lost, registered(2*time.Minute, 2), left(lease+time.Hour-time.Second, 0)}, "too early"},
		"alone, and it is the latest": {[]history.Event{registered(0, 1), lost, left(2*time.Hour, 0)}, "it is the latest of worker 1"},
		"with its worker":             {[]history.Event{registered(0, 1), lost, left(4*time.Hour, 1)}, ""},
		"with its worker, although it has a successor": {
			[]history.Event{registered(0, 1), lost, registered(2*time.Minute, 2), left(4*time.Hour, 1)}, "but a later one has registered",
		},
		"while it is up": {[]history.Event{registered(0, 1), left(4*time.Hour, 1)}, "is starting"},
	} {
		t.Run(name, func(t *testing.T) {
			c := config.Default(config.Hardened)
			c.Retention.Incarnations, c.Retention.Workers = time.Hour, 3*time.Hour
			s := New(c, []int{32})
			for i := range x.story {
				s.Observe(&x.story[i])
			}
			found := s.End(true)
			if x.says == "" && len(found) > 0 || x.says != "" && (len(found) != 1 || !strings.Contains(found[0].Message, x.says)) {
				t.Errorf("found %+v, want something about %q", found, x.says)
			}
		})
	}
}
