package promise

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"handoff/chaos/jobhistory"
)

// everything promises all there is.
const everything = `{delivery: at-least-once, overlap: never, lease: 8s, recovery: 10s, attempts: 3,
  stop: {within: 4s, jobs: hand back}, result: stable, unique: true, punctual: 2s}`

// judge reads a history of lines of the form "SECONDS kind job attempt actor outcome result"; "-" leaves a field out.
// Fields of the form name=value follow: key, not_before, until.
func judge(t *testing.T, promises, history string) Report {
	t.Helper()
	p, err := Parse("promises.yaml", []byte(promises))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	base := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	at := func(s string) string {
		d, err := time.ParseDuration(s + "s")
		if err != nil {
			t.Fatal(err)
		}
		return base.Add(d).Format(time.RFC3339Nano)
	}
	for _, line := range strings.Split(strings.TrimSpace(history), "\n") {
		f := strings.Fields(line)
		fmt.Fprintf(&text, `{"at": %q, "kind": %q`, at(f[0]), f[1])
		names := []string{"job", "attempt", "actor", "outcome", "result"}
		for i, v := range f[2:] {
			if name, value, ok := strings.Cut(v, "="); ok {
				if name != "key" {
					value = at(value)
				}
				fmt.Fprintf(&text, `, %q: %q`, name, value)
			} else if v != "-" {
				fmt.Fprintf(&text, `, %q: %q`, names[i], v)
			}
		}
		text.WriteString("}\n")
	}
	r, err := jobhistory.NewReader("history.jsonl", strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	b := New(p, Options{})
	var l jobhistory.Line
	for {
		if err := r.Next(&l); errors.Is(err, io.EOF) {
			return b.End()
		} else if err != nil {
			t.Fatal(err)
		}
		b.Observe(&l)
	}
}

func result(t *testing.T, r Report, name string) Result {
	t.Helper()
	for _, one := range r.Results {
		if one.Rule.Name == name {
			return one
		}
	}
	t.Fatalf("no rule %s", name)
	return Result{}
}

// Each rule holds in a lawful history that comes as near to its bound as it may, and is broken by a history that goes
// beyond it; no other rule that needs the same lines may be broken by the lawful one.
func TestRules(t *testing.T) {
	const run = "0 submitted a\n0.1 started a 1 w1\n2 ended a 1 w1 ok r1\n2.1 settled a - - done r1\n"
	for _, c := range []struct {
		rule, about, promises string
		lawful, broken        string
		want                  string
	}{
		{
			"P1", "a job whose only attempt died is called failed", everything,
			run, "0 submitted a\n0.1 started a 1 w1\n2 ended a 1 w1 died\n2.1 settled a - - failed", "a is lost: the system says failed",
		},
		{
			"P1", "a job is forgotten", everything,
			run + "3 gone a", "0 submitted a\n0.1 started a 1 w1\n2 ended a 1 w1 died\n3 submitted b\n4 gone a", "does not know it any more",
		},
		{
			"P2", "a job never starts again", everything,
			run + "0 submitted b\n1 started b 1 w1\n2 ended b 1 w1 died\n14.8 end", // recovery, longest run, slack
			run + "0 submitted b\n1 started b 1 w1\n2 ended b 1 w1 died\n15.2 end", "b is stuck: its attempt died at",
		},
		{
			"P2", "a server that is down is no time to work in", "{}",
			"0 submitted a\n1 started a 1 w\n2 ended a 1 w ok\n2 settled a - - done\n3 server_down - - db\n3 submitted b\n70 server_up - - db\n80 end",
			"0 submitted a\n1 started a 1 w\n2 ended a 1 w ok\n2 settled a - - done\n3 submitted b\n80 end", "never started",
		},
		{"P3", "done before its end", everything, run, "0 submitted a\n0.1 started a 1 w1\n1 settled a - - done\n2 ended a 1 w1 ok", "none of its 1 attempts had ended ok"},
		{"P3", "failed although it ran well", everything, run, "0 submitted a\n0.1 started a 1 w1\n1 ended a 1 w1 ok\n2 settled a - - failed", "it had run well"},
		{
			"P4", "a second start beside a living attempt", everything,
			"0 submitted a\n1 started a 1 w1\n9 started a 2 w2\n10 ended a 1 w1 ok\n11 ended a 2 w2 ok\n12 settled a - - done",
			"0 submitted a\n1 started a 1 w1\n8 started a 2 w2\n10 ended a 1 w1 ok\n11 ended a 2 w2 ok\n12 settled a - - done", "started again too soon",
		},
		{
			"P4", "the first attempt died before, which is known late", everything,
			"0 submitted a\n1 started a 1 w1\n3 ended a 1 w1 died\n3 started a 2 w2\n5 ended a 2 w2 ok\n6 settled a - - done",
			"0 submitted a\n1 started a 1 w1\n3 started a 2 w2\n4 ended a 1 w1 died\n5 ended a 2 w2 ok\n6 settled a - - done", "attempt 2 started on w2",
		},
		{
			"P4", "a renewed lease ends after silence", `{lease: {after: 8s, renewed: true}}`,
			"0 submitted a\n1 started a 1 w1\n20 process_paused - - w1\n28 started a 2 w2\n29 process_resumed - - w1\n30 ended a 1 w1 ok\n31 ended a 2 w2 ok",
			"0 submitted a\n1 started a 1 w1\n20 process_paused - - w1\n26 started a 2 w2\n29 process_resumed - - w1\n30 ended a 1 w1 ok\n31 ended a 2 w2 ok", "whose worker had been silent for 6s",
		},
		{
			"P5", "two attempts at a time", everything,
			"0 submitted a\n1 started a 1 w1\n9 started a 2 w2\n9.2 ended a 1 w1 failed\n11 ended a 2 w2 ok\n12 settled a - - done",
			"0 submitted a\n1 started a 1 w1\n9 started a 2 w2\n9.3 ended a 1 w1 failed\n11 ended a 2 w2 ok\n12 settled a - - done", "ran twice at a time",
		},
		{
			"P5", "frozen time is no overlap", everything,
			"0 submitted a\n1 started a 1 w1\n2 process_paused - - w1\n9 started a 2 w2\n11 ended a 2 w2 ok\n12 process_resumed - - w1\n13 ended a 1 w1 failed\n13 settled a - - done",
			"0 submitted a\n1 started a 1 w1\n2 process_paused - - w1\n9 started a 2 w2\n10 process_resumed - - w1\n11 ended a 2 w2 ok\n13 ended a 1 w1 failed\n13 settled a - - done", "for 1s",
		},
		{
			"P6", "taken up late", everything,
			run + "3 submitted b\n4 started b 1 w1\n5 ended b 1 w1 died\n15.9 started b 2 w2\n16 ended b 2 w2 ok\n16 settled b - - done",
			run + "3 submitted b\n4 started b 1 w1\n5 ended b 1 w1 died\n16.1 started b 2 w2\n17 ended b 2 w2 ok\n17 settled b - - done", "attempt 1 died",
		},
		{
			"P6", "no worker had a free slot", everything,
			"0 process_started - - w1\n0 submitted a\n0 submitted b\n1 started a 1 w1\n2 ended a 1 w1 died\n3 started b 1 w1\n30 ended b 1 w1 ok\n30 settled b - - done\n31 started a 2 w1\n32 ended a 2 w1 ok\n32 settled a - - done",
			"0 process_started - - w1\n0 submitted a\n0 submitted b\n1 started a 1 w1\n2 ended a 1 w1 died\n16 started b 1 w1\n30 ended b 1 w1 ok\n30 settled b - - done\n31 started a 2 w1\n32 ended a 2 w1 ok\n32 settled a - - done", "not taken up again in time",
		},
		{
			"P7", "a fourth start", everything,
			"0 submitted a\n1 started a 1 w\n2 ended a 1 w failed\n3 started a 2 w\n4 ended a 2 w failed\n5 started a 3 w\n6 ended a 3 w failed\n7 settled a - - failed",
			"0 submitted a\n1 started a 1 w\n2 ended a 1 w failed\n3 started a 2 w\n4 ended a 2 w failed\n5 started a 3 w\n6 ended a 3 w failed\n7 started a 4 w\n8 ended a 4 w ok\n8 settled a - - done", "for the 4. time",
		},
		{"P7", "at most once", "{delivery: at-most-once}", run, run + "3 started a 2 w2\n4 ended a 2 w2 ok", "allowed are 1"},
		{"P8", "a finished job opens", "{}", run + "3 gone a", run + "3 reopened a", "is open again"},
		{"P8", "done becomes failed", "{}", run + "3 settled a - - done r1", run + "3 settled a - - failed", "it had said done"},
		{"P9", "a result is overwritten", everything, run + "3 settled a - - done r1", run + "3 settled a - - done r2", `and is "r2"`},
		{"P9", "a result that no attempt returned", everything, run, "0 submitted a\n0.1 started a 1 w1\n2 ended a 1 w1 ok r1\n2.1 settled a - - done r0", `is "r0"`},
		{
			"P10", "too slow", everything,
			run + "3 process_stopping - - w1\n7.9 process_ended - - w1 ok", run + "3 process_stopping - - w1\n8.1 process_ended - - w1 ok", "ended after 5.1s",
		},
		{
			"P10", "an attempt dies with its process", everything,
			"0 submitted a\n1 started a 1 w1\n3 process_stopping - - w1\n4 ended a 1 w1 cancelled\n5 process_ended - - w1 ok\n6 started a 2 w2\n7 ended a 2 w2 ok\n7 settled a - - done",
			"0 submitted a\n1 started a 1 w1\n3 process_stopping - - w1\n5 process_ended - - w1 ok\n6 started a 2 w2\n7 ended a 2 w2 ok\n7 settled a - - done", "died with it",
		},
		{
			"P10", "cancelled where it was to be finished", "{stop: {within: 4s, jobs: finish}}",
			"0 submitted a\n1 started a 1 w1\n3 process_stopping - - w1\n4 ended a 1 w1 ok\n5 process_ended - - w1 ok",
			"0 submitted a\n1 started a 1 w1\n3 process_stopping - - w1\n4 ended a 1 w1 cancelled\n5 process_ended - - w1 ok", "did not finish attempt 1",
		},
		{
			"P10", "starts after it was asked to stop", everything,
			"0 submitted a\n3 process_stopping - - w1\n3.9 started a 1 w1\n5 ended a 1 w1 ok\n5 settled a - - done\n5 process_ended - - w1 ok",
			"0 submitted a\n3 process_stopping - - w1\n4.1 started a 1 w1\n5 ended a 1 w1 ok\n5 settled a - - done\n5 process_ended - - w1 ok", "after it was asked to stop",
		},
		{
			"P10", "never ends", everything, run + "3 process_stopping - - w1\n7 end", run + "3 process_stopping - - w1\n9 end", "still runs",
		},
		{
			"P11", "two jobs of one key", everything,
			"0 submitted a key=k\n0 submitted b key=k\n1 started a 1 w\n2 ended a 1 w ok\n2 settled a - - done\n3 gone b",
			"0 submitted a key=k\n0 submitted b key=k\n1 started a 1 w\n2 ended a 1 w ok\n2 started b 1 w\n3 ended b 1 w ok", "and both ran",
		},
		{
			"P12", "too early", "{}",
			"0 submitted a not_before=10\n9.8 started a 1 w\n11 ended a 1 w ok", "0 submitted a not_before=10\n9.7 started a 1 w\n11 ended a 1 w ok", "before its earliest start",
		},
		{
			"P12", "too late", everything,
			"0 submitted a not_before=10\n12.9 started a 1 w\n14 ended a 1 w ok\n14 settled a - - done", "0 submitted a not_before=10\n13.1 started a 1 w\n14 ended a 1 w ok\n14 settled a - - done", "started 3.1s later",
		},
	} {
		t.Run(c.rule+" "+c.about, func(t *testing.T) {
			lawful := judge(t, c.promises, c.lawful)
			if got := result(t, lawful, c.rule); got.Verdict != Holds {
				t.Errorf("lawful: %s %s %v", got.Verdict, got.Why, got.Violations)
			}
			got := result(t, judge(t, c.promises, c.broken), c.rule)
			if got.Verdict != Broken || !strings.Contains(got.Violations[0].Text, c.want) {
				t.Errorf("broken: %s %s %v; want %q", got.Verdict, got.Why, got.Violations, c.want)
			}
		})
	}
}

func TestRulesWithoutPromiseMeasure(t *testing.T) {
	r := judge(t, "{}", "0 submitted a\n1 started a 1 w1\n8 started a 2 w2\n10 ended a 1 w1 ok x\n11 ended a 2 w2 ok y\n12 settled a - - done x\n13 settled a - - done y")
	for _, name := range []string{"P1", "P3", "P4", "P5", "P6", "P7", "P9"} {
		if got := result(t, r, name); got.Verdict != Measured {
			t.Errorf("%s: %s", name, got.Verdict)
		}
	}
	if broken := r.Broken(); broken != nil {
		t.Errorf("broken without a promise: %v", broken)
	}
	text := fmt.Sprint(r.Figures)
	for _, want := range []string{"{two attempts at a time 1 times, 2s at the longest}", "{jobs that ran well more than once 1}", "{results overwritten 1}"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

func TestRulesNameMissingLines(t *testing.T) {
	r := judge(t, everything, "0 submitted a\n1 settled a - - done")
	for rule, want := range map[string]string{
		"P1": "no line of the kind ended", "P4": "no line of the kind started, and none of ended", "P10": "process_stopping", "P12": "started",
	} {
		if got := result(t, r, rule); got.Verdict != NotJudged || !strings.Contains(got.Why, want) {
			t.Errorf("%s: %s, %q; want %q", rule, got.Verdict, got.Why, want)
		}
	}
	if got := result(t, judge(t, everything, "0 submitted a\n1 started a 1 w\n2 ended a 1 w ok"), "P12"); got.Verdict != NotJudged || got.Why != "nothing happened that the rule judges" {
		t.Errorf("P12: %s, %q", got.Verdict, got.Why)
	}
}

func TestStallMakesTimeInconclusive(t *testing.T) {
	const story = "0 submitted a\n1 started a 1 w1\n4 started a 2 w2\n6 ended a 1 w1 ok x\n7 ended a 2 w2 ok y\n8 settled a - - done z"
	r := judge(t, everything, story+"\n8 stalled until=9")
	if got := result(t, r, "P4"); got.Verdict != Inconclusive {
		t.Errorf("a rule about time beside a stall: %s", got.Verdict)
	}
	if got := result(t, r, "P9"); got.Verdict != Broken {
		t.Errorf("a rule about facts beside a stall: %s", got.Verdict)
	}
	for name, stall := range map[string]string{"short": "8 stalled until=8.4", "far": "40 stalled until=50"} {
		if got := result(t, judge(t, everything, story+"\n"+stall), "P4"); got.Verdict != Broken {
			t.Errorf("%s stall: %s", name, got.Verdict)
		}
	}
}

func TestPromisesRefuseMistakesWithPosition(t *testing.T) {
	for text, want := range map[string]string{
		"{delivery: twice}":              "at-least-once",
		"{overlap: sometimes}":           "never",
		"{lease: soon}":                  "lease",
		"{recovery: {killed: 10s}}":      "silent",
		"{stop: {within: 4s}}":           "jobs",
		"{atempts: 3}":                   "attempts",
		"{lease: {after: 8s, renew: 1}}": "renewed",
	} {
		if _, err := Parse("system.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "system.yaml:1:") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}
