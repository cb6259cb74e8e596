package reports_test

import (
	"bytes"
	"fmt"
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

// fullEvent returns an event of kind k with every field set.
func fullEvent(k history.Kind) history.Event {
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
	back, err := reports.ReadHistory("history", &b)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return back, text
}

func TestHistoryRoundTrip(t *testing.T) {
	r := ttlRace()
	r.TimeScale = 0.2
	if back, text := roundTrip(t, r); back.TimeScale != r.TimeScale || !strings.Contains(text, `"time_scale":0.2}`) {
		t.Errorf("the time scale is read as %v", back.TimeScale)
	}
	r.TimeScale = 0
	back, text := roundTrip(t, r)
	if !reflect.DeepEqual(back.Events, r.Events) || !reflect.DeepEqual(back.Workers, r.Workers) || !reflect.DeepEqual(back.FaultIntervals, r.FaultIntervals) {
		t.Error("the history of the TTL race changed")
	}
	if back.Scenario != r.Scenario || back.Profile != r.Profile || back.Seed != r.Seed || back.Mutant != r.Mutant {
		t.Errorf("the header is read as %+v", back.Run)
	}
	want := `{"schema":1,"scenario":"ttl-race","profile":"documented","seed":41,"mutant":"unguarded-monitor","workers":{"1":"shell-1","2":"shell-2"}}`
	if first, _, _ := strings.Cut(text, "\n"); first != want {
		t.Errorf("the header is\n%s, want\n%s", first, want)
	}
}

func TestHistoryKeepsEveryKindAndField(t *testing.T) {
	r := &verdict.Record{Workers: map[execution.WorkerID]string{}}
	// A field that fullEvent leaves zero would not be tested.
	full := reflect.ValueOf(fullEvent(history.Created))
	for i := range full.NumField() {
		if full.Field(i).IsZero() {
			t.Errorf("field %s is zero in this test: is it new?", full.Type().Field(i).Name)
		}
	}
	for k := history.NoKind + 1; int(k) < history.Kinds; k++ {
		r.Events = append(r.Events, history.Event{Kind: k}, fullEvent(k))
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
			t.Fatalf("event %d is read as\n%+v, want\n%+v", i, back.Events[i], r.Events[i])
		}
	}
}

func TestMessageTypesMatchWireNames(t *testing.T) {
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

func TestUnendedFaultLastsUntilLastEvent(t *testing.T) {
	back, _ := roundTrip(t, &verdict.Record{Events: []history.Event{
		{Kind: history.FaultBegan, At: 1, Fault: "a"},
		{Kind: history.FaultBegan, At: 2, Fault: "b"},
		{Kind: history.FaultEnded, At: 3, Fault: "a"},
		{Kind: history.FaultEnded, At: 4, Fault: "never began"},
		{Kind: history.Quiescent, At: 9},
	}})
	want := []verdict.FaultInterval{{Fault: "a", Begin: 1, End: 3}, {Fault: "b", Begin: 2, End: 9}}
	if !reflect.DeepEqual(back.FaultIntervals, want) {
		t.Errorf("fault intervals %+v, want %+v", back.FaultIntervals, want)
	}
}

func TestReadHistoryErrorsHavePositions(t *testing.T) {
	const header = `{"schema":1,"scenario":"x","profile":"hardened","seed":1,"mutant":"","workers":{}}` + "\n"
	long := strings.Repeat("x", reports.MaxHistoryLine)
	for _, c := range []struct{ text, want string }{
		{"", "h.jsonl:1:1: the history is empty"},
		{"\n" + header, "h.jsonl:1:1: the first line is empty; it must be the header"},
		{`{"schema":2,"new":1}`, "h.jsonl:1:2: schema: the history has schema 2, this program reads schema 1"},
		{`{"schema":1,"time_scale":1.5}`, "h.jsonl:1:13: time_scale: 1.5; must be above 0 and at most 1"},
		{`{"schema":1,"kinds":["created","created"]}`, `h.jsonl:1:13: kinds: "created" is there twice`},
		{`{"schema":1,"workers":{"1":"` + long[:2000] + `"}}`, "h.jsonl:1:13: workers: a name has 2000 bytes; at most 1024"},
		{"\x1f\x8b\x08\x00", "h.jsonl:1:1: the file is compressed with gzip; unpack it first"},
		{"\x7fELF\x02\x01", `h.jsonl:1:1: a line of a history is a JSON object and begins with {, this one with "\x7fELF`},
		{"\xef\xbb\xbf" + header, "h.jsonl:1:1: a line of a history is a JSON object"},
		{header + "{\"at_ns\":1,\"kind\":\"created\"}\n{\"at_ns\":1,", "h.jsonl:3:12: the line ends in the middle of its object: the file was cut off"},
		{header + `{"at_ns":1,"kind":"creation"}`, `h.jsonl:2:12: kind: unknown name "creation"; allowed: process_started, `},
		{header + `{"at_ns":1,"kind":"acket"}`, `did you mean "acked"?`},
		{header + `{"at_ns":1}`, `h.jsonl:2:1: kind: unknown name ""`},
		{header + `{"kind":"created"}`, "h.jsonl:2:1: at_ns: is missing"},
		{header + `{"at_ns":1,"kind":"created","to":"done"}`, `h.jsonl:2:29: to: unknown name "done"; allowed: requested, `},
		{header + `{"at_ns":1,"kind":"created","by":"worker","reason":"why"}`, `h.jsonl:2:43: reason: unknown name "why"; allowed: worker_unavailable, `},
		{header + `{"at_ns":1,"kind":"created","exec":7}`, `h.jsonl:2:29: unknown field "exec"; allowed: at_ns, step, `},
		{header + `{"at_ns":1,"Kind":"created"}`, `h.jsonl:2:12: unknown field "Kind"`},
		{header + `{"at_ns":1,"kind":"created","kind":"logged"}`, `h.jsonl:2:29: duplicate field "kind"`},
		{header + `{"at_ns":"1s","kind":"created"}`, "h.jsonl:2:10: at_ns can't be a string"},
		{header + `{"at_ns":1e99,"kind":"created"}`, "at_ns can't be a number 1e99"},
		{header + `{"at_ns":1.5,"kind":"created"}`, "at_ns can't be a number 1.5"},
		{header + "{\"at_ns\":1,\"kind\":\"created\"} {}", "h.jsonl:2:30: one object a line, and here is more"},
		{header + "\n\n!", "h.jsonl:4:1: a line of a history is a JSON object"},
		{header + "null", "h.jsonl:2:1: a line of a history is a JSON object"},
		{header + "{\"at_ns\":1,\"kind\":\"logged\",\"text\":\"\x00\"}", "invalid character '\\x00' in string"},
		{header + "{\"at_ns\":1,\"kind\":\"logged\",\"text\":\"é\xff\"}", "h.jsonl:2:37: invalid UTF-8"},
		{header + `{"at_ns":1,"kind":"logged","text":"` + long + `"}`, "h.jsonl:2:1048577: the line has more than 1048576 bytes"},
		{header + strings.Repeat("[", 20_000), "h.jsonl:2:1: a line of a history is a JSON object"},
		{header + `{"at_ns":1,"kind":"logged","text":` + strings.Repeat("[", 20_000), "exceeded max depth"},
		{header + `{"at_ns":9223372036854775807,"kind":"logged"}`, "h.jsonl:2:2: at_ns: 9223372036854775807; must be from -86400000000000 (a day before the start) to 316224000000000000"},
		{header + `{"at_ns":-9223372036854775808,"kind":"logged"}`, "h.jsonl:2:2: at_ns: -9223372036854775808; must be from"},
		{header + `{"at_ns":1,"kind":"created","execution":-1}`, "h.jsonl:2:29: execution: -1; must be from 0 to 9007199254740991"},
		{header + `{"at_ns":1,"kind":"created","epoch":9007199254740992}`, "h.jsonl:2:29: epoch: 9007199254740992; must be from 0 to"},
		{header + `{"at_ns":1,"kind":"slot_taken","count":2147483648}`, "h.jsonl:2:32: count: 2147483648; must be from -2147483647 to 2147483647"},
		{header + `{"at_ns":1,"kind":"created","due_ns":-9223372036854775808}`, "h.jsonl:2:29: due_ns: "},
		{header + `{"at_ns":1,"kind":"created","run_timeout_ns":-1}`, "h.jsonl:2:29: run_timeout_ns: -1; must be from 0"},
		{header + `{"at_ns":1,"kind":"logged","process":"` + long[:1025] + `"}`, "h.jsonl:2:28: process: 1025 bytes; a name has at most 1024"},
		{header + strings.Repeat(`{"at_ns":1,"kind":"clock_stepped","due_ns":316224000000000000}`+"\n", 2), "h.jsonl:3:35: due_ns: the steps of the database's clock add up to more than 3660 days"},
		{header + numberedLines(10_001, `{"at_ns":1,"kind":"process_started","process":"p%d"}`), "h.jsonl:10002:37: process: more than 10000 different processes"},
		{header + numberedLines(10_001, `{"at_ns":1,"kind":"worker_registered","incarnation":%d}`), "h.jsonl:10002:39: incarnation: more than 10000 different incarnations"},
		{header + numberedLines(10_001, `{"at_ns":1,"kind":"created","action":"a%d"}`), "h.jsonl:10002:29: action: more than 10000 different actions"},
		{header + numberedLines(10_001, `{"at_ns":1,"kind":"created","text":"r%d"}`), "h.jsonl:10002:29: text: more than 10000 different runtimes"},
		{header + `{"at_ns":1,"kind":"fault_began","process":"` + strings.Repeat("p,", 30_000) + strings.ReplaceAll(numberedLines(1_000, "q%d"), "\n", ",") + `"}` + "\n!", "h.jsonl:3:1"},
	} {
		_, err := reports.ReadHistory("h.jsonl", strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("reading %.200q: %v, want %q", c.text, err, c.want)
		}
		if err != nil && (len(err.Error()) > 1600 || strings.ContainsAny(err.Error(), "\x00\x1b\n")) {
			t.Errorf("the error quotes too much: %q", err)
		}
	}
}

// numberedLines returns n lines, numbered from 0.
func numberedLines(n int, line string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line+"\n", i)
	}
	return b.String()
}

// Times don't have to ascend: a live history is in causal order, but its times come from several clocks.
func TestReadHistoryAcceptsUnorderedTimes(t *testing.T) {
	text := `{"schema":1,"scenario":"x","profile":"hardened","seed":1,"mutant":"","workers":{}}` +
		"\r\n" + `{"at_ns":-5,"kind":"database_down"}` + "\r\n\n" + `{"at_ns":9,"kind":"database_up"}` + "\n" + `{"kind":"quiescent","at_ns":7}`
	r, err := reports.ReadHistory("h.jsonl", strings.NewReader(text))
	if err != nil || len(r.Events) != 3 || r.Events[0].At != -5 || r.Events[2].At != 7 {
		t.Errorf("%v, %+v", err, r)
	}
}

// Characters that a terminal interprets are escaped.
func TestPrintableEscapesTerminalControls(t *testing.T) {
	for text, want := range map[string]string{
		"plain “ü” 日本": "plain “ü” 日本", "\x1b]0;x\a": `\x1b]0;x\a`, "a\u202eb": `a\u202eb`, "\u009b2J": `\u009b2J`,
		"a\nb\r": "a\nb" + `\r`, "bad \xff": `bad \xff`, "": "", "\x00\x7f": `\x00\x7f`,
	} {
		if got := reports.Printable(text, "\n"); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
