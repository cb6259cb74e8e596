package reports_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/reports"
)

// everything is an event of one kind with every field set.
func everything(k history.Kind) history.Event {
	return history.Event{
		At: 12402 * time.Millisecond, Step: 811, Kind: k, Execution: 7, Chain: 5, Related: 9, Epoch: 2, OldEpoch: 1, Named: 1,
		From: execution.Scheduled, To: execution.Running, By: execution.Reconciler, Reason: execution.WorkerLost,
		Worker: 1, Incarnation: 3, Writer: 4, Lifecycle: execution.Draining, Message: 1 << 60, Type: 2, Count: 4, Limit: 3, Due: time.Second, RunTimeout: time.Minute, DispatchTimeout: time.Hour,
		Process: "shell-1", Action: "core.echo", Key: "core.echo 1", Queue: "worker.1.executions", Fault: "pause “x” <&>", Text: "two\nlines \x00",
	}
}

func roundTrip(t *testing.T, r *verdict.Record) (*verdict.Record, string) {
	t.Helper()
	var b bytes.Buffer
	if err := reports.WriteHistory(&b, r); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	back, err := reports.ReadHistory(&b)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return back, text
}

func TestHistoryRoundTrip(t *testing.T) {
	r := ttlRace()
	r.TimeScale = 0.2
	if back, text := roundTrip(t, r); back.TimeScale != r.TimeScale || !strings.Contains(text, `"time_scale":0.2}`) {
		t.Errorf("the time scale came back as %v", back.TimeScale)
	}
	r.TimeScale = 0
	back, text := roundTrip(t, r)
	if !reflect.DeepEqual(back.Events, r.Events) || !reflect.DeepEqual(back.Workers, r.Workers) || !reflect.DeepEqual(back.Bands, r.Bands) {
		t.Error("the story of the TTL race came back changed")
	}
	if back.Scenario != r.Scenario || back.Profile != r.Profile || back.Seed != r.Seed || back.Flaw != r.Flaw {
		t.Errorf("the header came back as %+v", back.Run)
	}
	want := `{"schema":1,"scenario":"ttl-race","profile":"documented","seed":41,"flaw":"unguarded-monitor","workers":{"1":"shell-1","2":"shell-2"}}`
	if first, _, _ := strings.Cut(text, "\n"); first != want {
		t.Errorf("the header is\n%s, want\n%s", first, want)
	}
}

func TestHistoryKeepsEveryKindAndField(t *testing.T) {
	r := &verdict.Record{Workers: map[execution.WorkerID]string{}}
	// A field that everything leaves zero would not be tested.
	full := reflect.ValueOf(everything(history.Created))
	for i := range full.NumField() {
		if full.Field(i).IsZero() {
			t.Errorf("field %s is zero in this test: is it new?", full.Type().Field(i).Name)
		}
	}
	for k := history.NoKind + 1; int(k) < history.Kinds; k++ {
		r.Events = append(r.Events, history.Event{Kind: k}, everything(k))
		for i := range full.NumField() {
			one := history.Event{Kind: k}
			reflect.ValueOf(&one).Elem().Field(i).Set(full.Field(i))
			one.Kind = k
			r.Events = append(r.Events, one)
		}
	}
	for s := execution.None; int(s) < execution.Statuses; s++ {
		r.Events = append(r.Events, history.Event{Kind: history.Transition, From: s, To: s})
	}
	for p := execution.NoPart; int(p) < execution.Parts; p++ {
		r.Events = append(r.Events, history.Event{Kind: history.Transition, By: p})
	}
	for i := range execution.Reasons() {
		r.Events = append(r.Events, history.Event{Kind: history.Transition, Reason: execution.Reason(i + 1)})
	}
	for l := execution.NoLifecycle; l <= execution.Lost; l++ {
		r.Events = append(r.Events, history.Event{Kind: history.WorkerLifecycle, Lifecycle: l})
	}
	for m := range broker.Types {
		r.Events = append(r.Events, history.Event{Kind: history.Published, Type: uint8(m)})
	}
	back, _ := roundTrip(t, r)
	for i := range r.Events {
		if back.Events[i] != r.Events[i] {
			t.Fatalf("event %d came back as\n%+v, want\n%+v", i, back.Events[i], r.Events[i])
		}
	}
}

func TestMessageTypesAreNamedAsOnTheWire(t *testing.T) {
	for m := 1; m < broker.Types; m++ {
		e := history.Event{Kind: history.Published, Type: uint8(m)}
		if got, want := reports.Describe(&e, nil), broker.Type(m).String()+" #0"; !strings.Contains(got, want) {
			t.Errorf("type %d is described as %q, want %q in it", m, got, want)
		}
	}
}

func TestOnlyNonZeroFieldsAreWritten(t *testing.T) {
	_, text := roundTrip(t, &verdict.Record{Events: []history.Event{{Kind: history.Quiescent}}})
	if _, line, _ := strings.Cut(text, "\n"); line != `{"at_ns":0,"kind":"quiescent"}`+"\n" {
		t.Errorf("an event without fields is written as %s", line)
	}
}

func TestFaultThatNeverEndedLastsUntilTheEnd(t *testing.T) {
	back, _ := roundTrip(t, &verdict.Record{Events: []history.Event{
		{Kind: history.FaultBegan, At: 1, Fault: "a"},
		{Kind: history.FaultBegan, At: 2, Fault: "b"},
		{Kind: history.FaultEnded, At: 3, Fault: "a"},
		{Kind: history.FaultEnded, At: 4, Fault: "never began"},
		{Kind: history.Quiescent, At: 9},
	}})
	want := []verdict.Band{{Fault: "a", Begin: 1, End: 3}, {Fault: "b", Begin: 2, End: 9}}
	if !reflect.DeepEqual(back.Bands, want) {
		t.Errorf("bands %+v, want %+v", back.Bands, want)
	}
}

func TestReadHistorySaysWhereItFails(t *testing.T) {
	const header = `{"schema":1,"scenario":"x","profile":"hardened","seed":1,"flaw":"","workers":{}}` + "\n"
	for _, c := range []struct{ text, want string }{
		{"", "line 1: the history is empty"},
		{`{"schema":2}`, "line 1: the history has schema 2, this program reads schema 1"},
		{header + "{\"at_ns\":1,\"kind\":\"created\"}\n{\"at_ns\":1,", "line 3"},
		{header + `{"at_ns":1,"kind":"creation"}`, `line 2: kind: unknown kind of event "creation"`},
		{header + `{"at_ns":1}`, `line 2: kind: unknown kind of event ""`},
		{header + `{"at_ns":1,"kind":"created","to":"done"}`, `line 2: to: unknown execution status "done"`},
		{header + `{"at_ns":1,"kind":"created","by":"me","reason":"why"}`, `unknown failure reason "why"`},
		{header + `{"at_ns":1,"kind":"created","exec":7}`, `line 2: json: unknown field "exec"`},
		{header + `{"at_ns":"1s","kind":"created"}`, "line 2, column 13: at_ns can't be a string"},
		{header + "{\"at_ns\":1,\"kind\":\"created\"} {}", "line 2, column 29: one object a line"},
		{header + "\n\n!", "line 4, column 1"},
	} {
		_, err := reports.ReadHistory(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("reading %q: %v, want %q", c.text, err, c.want)
		}
	}
}
