package promise

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
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
	// One of two workers is free when the attempt of a dies; the other one is busy throughout.
	const twoWorkers = "0 process_started - - w1\n0 process_started - - w2\n0 submitted a\n0 submitted b\n1 started a 1 w1\n1 started b 1 w2\n2 ended a 1 w1 died\n"
	const otherEnds = "\n40 ended b 1 w2 ok\n40 settled b - - done"
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
			"0 submitted a\n1 started a 1 w1\n9 started a 2 w2\n9.3 ended a 1 w1 failed\n11 ended a 2 w2 ok\n12 settled a - - done", "ran twice at the same time",
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
			"0 process_started - - w1\n0 submitted a\n0 submitted b\n1 started a 1 w1\n2 ended a 1 w1 died\n16 started b 1 w1\n30 ended b 1 w1 ok\n30 settled b - - done\n31 started a 2 w1\n32 ended a 2 w1 ok\n32 settled a - - done", "not recovered in time",
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
		{
			"P1", "every allowed attempt died", everything,
			"0 submitted a\n1 started a 1 w\n2 ended a 1 w died\n3 started a 2 w\n4 ended a 2 w died\n5 started a 3 w\n6 ended a 3 w died\n7 settled a - - failed",
			"0 submitted a\n1 started a 1 w\n2 ended a 1 w died\n3 started a 2 w\n4 ended a 2 w died\n7 settled a - - failed", "2 died",
		},
		{
			"P1", "a cancelled job needs no run", everything,
			run + "3 submitted b\n4 settled b - - cancelled", run + "3 submitted b\n4 settled b - - done", "no attempt of 0 ended ok",
		},
		{
			"P2", "nobody knows whether it was accepted", "{}", run + "3 unsure b\n90 end", run + "3 submitted b\n90 end", "never started",
		},
		{
			"P2", "a job that failed waits for a retry", "{}",
			run + "3 submitted b\n4 started b 1 w1\n5 ended b 1 w1 failed\n90 end", run + "3 submitted b\n4 started b 1 w1\n5 ended b 1 w1 died\n90 end", "its attempt died",
		},
		{
			"P2", "a job is due later", "{}", run + "3 submitted b not_before=100\n105 end", run + "3 submitted b not_before=10\n105 end", "never started",
		},
		{
			"P2", "an attempt ends with its process", everything,
			run + "3 submitted b\n4 started b 1 w2\n5 process_ended - - w2 failed\n10 end", run + "3 submitted b\n4 started b 1 w2\n5 process_ended - - w2 failed\n60 end", "its attempt died",
		},
		{
			"P4", "a death is seen a little late", everything,
			"0 submitted a\n1 started a 1 w1\n3 started a 2 w2\n3.2 ended a 1 w1 died\n5 ended a 2 w2 ok\n6 settled a - - done",
			"0 submitted a\n1 started a 1 w1\n3 started a 2 w2\n3.3 ended a 1 w1 died\n5 ended a 2 w2 ok\n6 settled a - - done", "attempt 2 started on w2",
		},
		{
			"P4", "its owner gave it up", everything,
			"0 submitted a\n1 started a 1 w1\n2 released a 1\n3 started a 2 w2\n4 ended a 1 w1 failed\n5 ended a 2 w2 ok\n6 settled a - - done",
			"0 submitted a\n1 started a 1 w1\n3 started a 2 w2\n4 ended a 1 w1 failed\n5 ended a 2 w2 ok\n6 settled a - - done", "started again too soon",
		},
		{
			"P4", "a lease is extended", everything,
			"0 submitted a\n1 started a 1 w1\n8 renewed a 1\n16 started a 2 w2\n17 ended a 1 w1 failed\n18 ended a 2 w2 ok\n18 settled a - - done",
			"0 submitted a\n1 started a 1 w1\n8 renewed a 1\n12 started a 2 w2\n17 ended a 1 w1 failed\n18 ended a 2 w2 ok\n18 settled a - - done", "had run for 4s",
		},
		{
			"P4", "a worker that renews was never silent", `{lease: {after: 8s, renewed: true}}`,
			"0 submitted a\n1 started a 1 w1\n20 process_cut - - w1\n20 process_cut - - w1\n21 process_healed - - w1\n28.5 started a 2 w2\n30 ended a 1 w1 ok\n31 ended a 2 w2 ok",
			"0 submitted a\n1 started a 1 w1\n20 process_cut - - w1\n20 process_cut - - w1\n21 process_healed - - w1\n21 process_healed - - w1\n28.5 started a 2 w2\n30 ended a 1 w1 ok\n31 ended a 2 w2 ok",
			"started again too soon",
		},
		{
			"P5", "a process dies while it is kept still", everything,
			"0 submitted a\n1 started a 1 w1\n2 process_paused - - w1\n9 started a 2 w2\n11 ended a 2 w2 ok\n12 ended a 1 w1 died\n13 settled a - - done",
			"0 submitted a\n1 started a 1 w1\n2 process_paused - - w1\n3 process_ended - - w1 killed\n4 process_started - - w1\n5 started a 2 w1\n14 started a 3 w2\n16 ended a 3 w2 ok\n17 ended a 2 w1 failed\n17 settled a - - done",
			"for 2s",
		},
		{
			"P5", "both are kept still at the same time", "{overlap: {most: 2s}}",
			"0 submitted a\n1 started a 1 w1\n2 process_paused - - w1\n9 started a 2 w2\n10 process_paused - - w2\n11 process_resumed - - w1\n12 process_resumed - - w2\n14 ended a 1 w1 ok\n14 ended a 2 w2 ok",
			"0 submitted a\n1 started a 1 w1\n2 process_paused - - w1\n9 started a 2 w2\n10 process_paused - - w2\n11 process_resumed - - w1\n12 process_resumed - - w2\n15 ended a 1 w1 ok\n15 ended a 2 w2 ok", "for 3s",
		},
		{
			"P6", "the free worker was kept still", everything, twoWorkers + "2 process_paused - - w1\n20 process_resumed - - w1\n29 started a 2 w1\n30 ended a 2 w1 ok\n30 settled a - - done" + otherEnds,
			twoWorkers + "29 started a 2 w1\n30 ended a 2 w1 ok\n30 settled a - - done" + otherEnds, "not recovered in time",
		},
		{
			"P6", "the free worker was stopping", everything, twoWorkers + "2 process_stopping - - w1\n19 process_ended - - w1 ok\n20 process_started - - w1\n29 started a 2 w1\n30 ended a 2 w1 ok\n30 settled a - - done" + otherEnds,
			twoWorkers + "29 started a 2 w1\n30 ended a 2 w1 ok\n30 settled a - - done" + otherEnds, "not recovered in time",
		},
		{
			"P6", "the free worker was gone", everything, twoWorkers + "2 process_ended - - w1 killed\n20 process_started - - w1\n29 started a 2 w1\n30 ended a 2 w1 ok\n30 settled a - - done" + otherEnds,
			twoWorkers + "29 started a 2 w1\n30 ended a 2 w1 ok\n30 settled a - - done" + otherEnds, "not recovered in time",
		},
		{
			"P6", "a worker that is back continues", everything,
			"0 submitted a\n1 started a 1 w1\n2 process_paused - - w1\n5 process_resumed - - w1\n30 ended a 1 w1 ok\n30 settled a - - done\n31 submitted b\n31 started b 1 w1\n32 ended b 1 w1 died\n33 started b 2 w1\n34 ended b 2 w1 ok\n34 settled b - - done",
			"0 submitted a\n1 started a 1 w1\n2 process_paused - - w1\n30 started a 2 w2\n31 ended a 2 w2 ok\n31 settled a - - done", "on a worker that fell silent",
		},
		{
			"P6", "silence and death have bounds of their own", "{recovery: {killed: 5s, silent: 20s}}",
			"0 submitted a\n1 started a 1 w1\n2 process_paused - - w1\n20 started a 2 w2\n21 ended a 2 w2 ok", "0 submitted a\n1 started a 1 w1\n2 process_paused - - w1\n24 started a 2 w2\n25 ended a 2 w2 ok", "allowed are 21s",
		},
		{
			"P6", "settled instead of started", everything,
			"0 submitted a\n1 started a 1 w\n2 ended a 1 w died\n10 settled a - - failed", "0 submitted a\n1 started a 1 w\n2 ended a 1 w died\n30 settled a - - failed", "it took 28s",
		},
		{
			"P6", "never taken up again", everything,
			"0 submitted a\n1 started a 1 w\n2 ended a 1 w died\n12 end", "0 submitted a\n1 started a 1 w\n2 ended a 1 w died\n30 end", "it took 28s",
		},
		{
			"P6", "a loss ends when the job is settled", everything,
			"0 submitted a\n1 started a 1 w\n2 ended a 1 w died\n3 settled a - - failed\n40 started a 2 w\n41 ended a 2 w died\n60 started a 3 w\n61 ended a 3 w ok",
			"0 submitted a\n1 started a 1 w\n2 ended a 1 w died\n40 started a 2 w\n41 ended a 2 w ok", "it took 38s",
		},
		{
			"P6", "another attempt of the job runs", everything,
			"0 submitted a\n1 started a 1 w1\n9.5 started a 2 w2\n10 ended a 1 w1 died\n40 ended a 2 w2 ok\n40 settled a - - done\n40 submitted b\n41 started b 1 w2\n42 ended b 1 w2 died\n43 started b 2 w2\n44 ended b 2 w2 ok\n44 settled b - - done",
			"0 submitted a\n1 started a 1 w1\n10 ended a 1 w1 died\n40 started a 2 w2\n41 ended a 2 w2 ok\n41 settled a - - done", "it took 30s",
		},
		{
			"P9", "a failure's text is no result", everything,
			"0 submitted a\n1 started a 1 w\n2 ended a 1 w failed\n2 settled a - - failed boom\n3 reopened a\n3 started a 2 w\n4 ended a 2 w ok r1\n4 settled a - - done r1",
			"0 submitted a\n1 started a 1 w\n2 ended a 1 w ok r1\n2 settled a - - done r1\n3 settled a - - done r2", "when it was done",
		},
		{
			"P10", "the observer killed it meanwhile", everything,
			run + "3 process_stopping - - w1\n20 process_ended - - w1 killed", run + "3 process_stopping - - w1\n20 process_ended - - w1 ok", "ended after 17s",
		},
		{
			"P12", "a server was down when it was due", everything,
			"0 submitted a not_before=10\n5 server_down - - db\n30 server_up - - db\n31 started a 1 w\n32 ended a 1 w failed\n80 started a 2 w\n81 ended a 2 w ok\n81 settled a - - done",
			"0 submitted a not_before=10\n31 started a 1 w\n32 ended a 1 w ok\n32 settled a - - done", "started 21s later",
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
	for _, want := range []string{"{two attempts at the same time once, 2s at the longest}", "{jobs that ran well more than once 1}", "{results overwritten 1}"} {
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
	many := ""
	for i := range 2 * mostViolations {
		many += strings.ReplaceAll(story, " a", fmt.Sprint(" j", i)) + "\n"
	}
	lines := strings.Split(strings.TrimSpace(many), "\n")
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(a[:1], b[:1]) })
	if got := result(t, judge(t, everything, strings.Join(lines, "\n")+"\n8 stalled until=9"), "P4"); got.Verdict != Inconclusive || got.Count != 2*mostViolations {
		t.Errorf("more violations than are kept: %s, %d", got.Verdict, got.Count)
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

// A process that starts again does not work before its time to start is over, unless it does.
func TestStartingProcessIsNotFree(t *testing.T) {
	lines := func(until time.Duration) []jobhistory.Line {
		at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
		return []jobhistory.Line{
			{At: 0, Kind: jobhistory.ProcessStarted, Actor: "w1"},
			{At: 0, Kind: jobhistory.Submitted, Job: "a"},
			{At: at(1), Kind: jobhistory.Started, Job: "a", Attempt: "1", Actor: "w1"},
			{At: at(2), Kind: jobhistory.ProcessEnded, Actor: "w1", Outcome: jobhistory.Failed},
			{At: at(3), Kind: jobhistory.ProcessStarted, Actor: "w1"},
			{At: until, Kind: jobhistory.Started, Job: "a", Attempt: "2", Actor: "w1"},
			{At: until + time.Second, Kind: jobhistory.Ended, Job: "a", Attempt: "2", Actor: "w1", Outcome: jobhistory.OK},
		}
	}
	for until, want := range map[time.Duration]Verdict{27 * time.Second: Holds, 29 * time.Second: Broken, -27 * time.Second: Broken} {
		early := until < 0
		until = until.Abs()
		b := New(Promises{Recovery: Recovery{Killed: 4 * time.Second, Silent: 4 * time.Second}}, Options{Starts: 20 * time.Second})
		for i, l := range lines(until) {
			if early && i == 5 {
				b.Observe(&jobhistory.Line{At: 5 * time.Second, Kind: jobhistory.Started, Job: "b", Attempt: "1", Actor: "w1"})
				b.Observe(&jobhistory.Line{At: 6 * time.Second, Kind: jobhistory.Ended, Job: "b", Attempt: "1", Actor: "w1", Outcome: jobhistory.OK})
			}
			b.Observe(&l)
		}
		if got := result(t, b.End(), "P6"); got.Verdict != want {
			t.Errorf("again after %s: %s %v", until, got.Verdict, got.Violations)
		}
	}
}

// What a line costs a book does not depend on how many there are, and what it keeps is bounded for each job.
func TestBookAllocatesLittleForEachLine(t *testing.T) {
	p, err := Parse("promises.yaml", []byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	for _, jobs := range []int{10_000, 20_000} {
		names := make([]string, jobs)
		for i := range names {
			names[i] = fmt.Sprint("job-", i)
		}
		b := New(p, Options{})
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i, name := range names {
			at := time.Duration(i) * time.Second
			for _, l := range []jobhistory.Line{
				{At: at, Kind: jobhistory.Submitted, Job: name},
				{At: at, Kind: jobhistory.Started, Job: name, Attempt: "1", Actor: "w"},
				{At: at, Kind: jobhistory.Ended, Job: name, Attempt: "1", Actor: "w", Outcome: jobhistory.OK, Result: "r"},
				{At: at, Kind: jobhistory.Settled, Job: name, Outcome: jobhistory.Done, Result: "r"},
			} {
				b.Observe(&l)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		lines := float64(4 * jobs)
		bytes, allocations := float64(after.TotalAlloc-before.TotalAlloc)/lines, float64(after.Mallocs-before.Mallocs)/lines
		kept := float64(after.HeapAlloc-min(before.HeapAlloc, after.HeapAlloc)) / float64(jobs)
		t.Logf("%d jobs: %.0f bytes and %.1f allocations for each line, %.0f bytes kept for each job", jobs, bytes, allocations, kept)
		if bytes > 500 || allocations > 5 || kept > 1000 {
			t.Errorf("%d jobs: %.0f bytes and %.1f allocations for each line, %.0f bytes kept for each job", jobs, bytes, allocations, kept)
		}
		runtime.KeepAlive(b)
	}
}
