package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/verdict"
	"handoff/core/testenv"
	"handoff/reports"
)

// traceContent is the content of a trace, by track name.
type traceContent struct {
	processes map[string]int
	slices    map[string][]string
	instants  map[string][]string
	// flows counts the events of each flow, and ended holds the flows that have an end.
	flows map[string]int
	ended map[string]bool
}

// readTrace reads a trace, and fails the test for everything that Perfetto would not show: unknown fields,
// events on unnamed tracks, overlapping slices of a track, and flows with events out of order.
func readTrace(t *testing.T, data []byte) *traceContent {
	t.Helper()
	var trace struct {
		DisplayTimeUnit string `json:"displayTimeUnit"`
		TraceEvents     []struct {
			Name, Cat, Ph, S string
			TS, Dur          float64
			PID, TID         int
			Flow             string `json:"bind_id"`
			In               bool   `json:"flow_in"`
			Out              bool   `json:"flow_out"`
			Args             map[string]any
		} `json:"traceEvents"`
	}
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	if err := in.Decode(&trace); err != nil {
		t.Fatal(err)
	}
	d := &traceContent{processes: map[string]int{}, slices: map[string][]string{}, instants: map[string][]string{}, flows: map[string]int{}, ended: map[string]bool{}}
	names, processOf, open, last := map[int]string{}, map[int]int{}, map[int][]float64{}, map[int]float64{}
	for i, e := range trace.TraceEvents {
		if e.Ph == "M" {
			if name, _ := e.Args["name"].(string); e.Name == "process_name" {
				d.processes[name] = e.PID
			} else if e.Name == "thread_name" {
				if name == "" || names[e.TID] != "" {
					t.Fatalf("event %d names track %d %q, after %q", i, e.TID, name, names[e.TID])
				}
				names[e.TID], processOf[e.TID] = name, e.PID
			}
			continue
		}
		on := names[e.TID]
		if on == "" || processOf[e.TID] != e.PID || e.TS < last[e.TID] {
			t.Fatalf("event %d at %v is on track %d of process %d, which is %q of %d and has come to %v", i, e.TS, e.TID, e.PID, on, processOf[e.TID], last[e.TID])
		}
		last[e.TID] = e.TS
		for n := len(open[e.TID]); n > 0 && open[e.TID][n-1] <= e.TS; n-- {
			open[e.TID] = open[e.TID][:n-1]
		}
		if within := open[e.TID]; len(within) > 0 && e.TS+e.Dur > within[len(within)-1] {
			t.Fatalf("event %d, %q, ends on %q after the slice in which it began", i, e.Name, on)
		}
		if e.Flow != "" {
			if e.In != (d.flows[e.Flow] > 0) || d.ended[e.Flow] || e.Ph != "X" {
				t.Fatalf("event %d, %q, is in disorder with flow %s", i, e.Name, e.Flow)
			}
			d.flows[e.Flow]++
			d.ended[e.Flow] = !e.Out
		}
		switch {
		case e.Ph == "X" && (e.Dur > 0 || slices.Contains([]string{"action", "fault", "queued", "state", "status"}, e.Cat)):
			open[e.TID] = append(open[e.TID], e.TS+e.Dur)
			d.slices[on] = append(d.slices[on], e.Name)
		case e.Ph == "X", e.Ph == "i" && e.S == "t":
			d.instants[on] = append(d.instants[on], e.Name)
		default:
			t.Fatalf("event %d has phase %q", i, e.Ph)
		}
	}
	return d
}

func TestTraceShowsTheRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "demo.json")
	runChaos(t, append(demoArgs("export"), "--perfetto", file)...).expectOutput(t, 0, file, "network-partition, hardened, seed 4", " MB; open it in https://ui.perfetto.dev")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := readTrace(t, data)
	for _, process := range []string{"executor-1", "executor-2", "shell-1", "shell-2", "shell-3", "broker", "database"} {
		if d.processes[process] == 0 {
			t.Errorf("no process %s in %v", process, d.processes)
		}
	}
	if got := strings.Join(d.slices["execution 11"], " "); !strings.HasPrefix(got, "requested scheduling scheduled ") || !strings.HasSuffix(got, " running") {
		t.Errorf("execution 11 has the slices %s", got)
	}
	if n := len(d.slices["actions"]); n < 40 {
		t.Errorf("%d actions, want at least 40", n)
	}
	violations := 0
	for _, name := range append(d.instants["run"], d.instants["execution 11"]...) {
		if strings.HasPrefix(name, "violation of invariant 4 ") {
			violations++
		}
	}
	if violations < 2 {
		t.Errorf("%d marks of the violation, want one on the run and one on its execution", violations)
	}
	faults := 0
	for track, slices := range d.slices {
		if strings.HasPrefix(track, "partition ") {
			faults += len(slices)
		}
	}
	if faults != 8 {
		t.Errorf("%d slices of faults, the scenario has 8", faults)
	}
	joined := 0
	for flow, n := range d.flows {
		if n > 2 && d.ended[flow] {
			joined++
		}
	}
	if joined < 100 {
		t.Errorf("%d of %d flows join more than two events and end", joined, len(d.flows))
	}
}

// The trace of a recording equals the trace of its run, apart from data that a history lacks.
func TestRecordingIsExportedLikeItsRun(t *testing.T) {
	folder := failingFolder(t, demoArgs("")[1:]...)
	for _, path := range []string{folder, filepath.Join(folder, reports.HistoryFile)} {
		s := runChaos(t, "export", path, "--perfetto", "-")
		if s.code != 0 || s.err != "" {
			t.Fatalf("exit %d: %s", s.code, s.err)
		}
		d := readTrace(t, []byte(s.out))
		if len(d.slices["execution 11"]) < 4 || !strings.Contains(strings.Join(d.instants["execution 11"], "\n"), "violation of invariant 4 ") {
			t.Errorf("%s: execution 11 has the slices %v and the instants %v", path, d.slices["execution 11"], d.instants["execution 11"])
		}
	}
}

func TestExportRefuses(t *testing.T) {
	runChaos(t, "export", "ttl-race", "--seed", "1").expectOutput(t, 2, "export needs --perfetto FILE")
	runChaos(t, "export", "ttl-race", "--perfetto", "x").expectOutput(t, 2, "export needs --seed")
	runChaos(t, "export", "nothing.jsonl", "--perfetto", "x").expectOutput(t, 2, "nothing.jsonl")
	runChaos(t, "export", "nothing.jsonl", "--seed", "1", "--perfetto", "x").expectOutput(t, 2, "--seed is for a scenario")
	runChaos(t, "export", "a", "b").expectOutput(t, 2, "one scenario or recording, and got 2")
	runChaos(t, "export", "ttl-race", "--seed", "1", "--perfetto", t.TempDir()).expectOutput(t, 2, "this is a folder; name a file")
}

// The trace of a long history shows only the part around the violation, and stays small enough for the
// viewer, however long the texts are.
func TestTraceIsBounded(t *testing.T) {
	skipInMakeCheck(t)
	r := &verdict.Record{}
	r.Scenario, r.Virtual = "long", time.Hour
	long := strings.Repeat("ö\x00\xff", 1000)
	events, every := reports.PerfettoEvents+1000, 100 // one of this many events has a long text
	if testenv.All() {
		events, every = 3*reports.PerfettoEvents, 1
	}
	for i := range events {
		text := "short"
		if i%every == 0 {
			text = long
		}
		r.Events = append(r.Events, history.Event{
			Kind: history.Logged, At: time.Duration(i) * time.Millisecond, Step: uint64(i), Process: fmt.Sprintf("executor-%d", i%3), Text: text,
		})
	}
	r.Violations = []verdict.Violation{{Invariant: 4, Name: "x", At: r.Events[events/2].At, Message: long}}
	var out strings.Builder
	if err := reports.WritePerfetto(&out, r); err != nil {
		t.Fatal(err)
	}
	if out.Len() > 2000*reports.PerfettoEvents {
		t.Errorf("%d bytes", out.Len())
	}
	d := readTrace(t, []byte(out.String()))
	shown := len(d.instants["executor-0"]) + len(d.instants["executor-1"]) + len(d.instants["executor-2"])
	if shown != reports.PerfettoEvents {
		t.Errorf("%d events are shown, want %d", shown, reports.PerfettoEvents)
	}
	if got := d.instants["run"]; len(got) != 2 || got[0] != fmt.Sprint(events-reports.PerfettoEvents, " events not shown") || !strings.HasPrefix(got[1], "violation") {
		t.Errorf("the run has %q", got)
	}
}
