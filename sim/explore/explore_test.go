package explore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"handoff/chaos/explain"
	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/core/store"
	"handoff/reports"
	"handoff/scenarios"
)

// find returns the targets of one library scenario.
func find(t *testing.T, name string) []Target {
	t.Helper()
	s, err := scenarios.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return Targets([]*scenario.Scenario{s})
}

// deaf returns a mutant that the first seed kills: no process detects a lost worker in time.
func deaf() *mutant.Mutant {
	return &mutant.Mutant{
		Name: "deaf", Expected: 12, Scenario: "worker-stops-mid-execution",
		Config: func(c *config.Config) { c.Executor.ReapGrace = time.Hour },
	}
}

func TestSweepResultIsIndependentOfProcessors(t *testing.T) {
	targets := append(find(t, "ttl-race"), find(t, "worker-stops-mid-execution")...)
	seeds := 6
	if testing.Short() {
		seeds = 2 // fewer runs under the race detector, which makes every run ten times slower
	}
	result := func(processors int) string {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		out, err := Sweep(t.Context(), targets, Options{First: 1, Seeds: seeds, Mutant: deaf()})
		if err != nil {
			t.Fatal(err)
		}
		if out.Sweep.Verdict != verdict.Fail || len(out.Records) == 0 {
			t.Fatalf("%v with %d records: the comparison needs violations", out.Sweep.Verdict, len(out.Records))
		}
		var b bytes.Buffer
		if err := reports.WriteJSON(&b, out.Sweep); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	one, two := result(1), result(2)
	if one != two {
		t.Errorf("one processor:\n%s\ntwo:\n%s", one, two)
	}
}

func TestSweepRecordsFirstFailure(t *testing.T) {
	targets := find(t, "worker-stops-mid-execution")[:1]
	out, err := Sweep(t.Context(), targets, Options{First: 1, Seeds: 3, Mutant: deaf()})
	if err != nil {
		t.Fatal(err)
	}
	sc := out.Sweep.Scenarios[0]
	if len(out.Records) != 1 || len(sc.Violations) == 0 {
		t.Fatalf("%d records, %d violations", len(out.Records), len(sc.Violations))
	}
	rec, v := out.Records[0], sc.Violations[0]
	if rec.Seed != sc.FirstFailing || len(rec.Events) == 0 || len(rec.Workers) == 0 || len(rec.FaultIntervals) == 0 {
		t.Errorf("record of seed %d: %d events, workers %v, %d fault intervals", rec.Seed, len(rec.Events), rec.Workers, len(rec.FaultIntervals))
	}
	logged := false
	for i := range rec.Events {
		logged = logged || rec.Events[i].Kind == history.Logged
	}
	if !logged {
		t.Error("the record lacks the core's own log")
	}
	if want := "bin/chaos replay worker-stops-mid-execution --profile hardened --seed 1 --mutant deaf"; v.Reproduce != want {
		t.Errorf("reproduce by %q, want %q", v.Reproduce, want)
	}
	if len(v.Causes) == 0 || len(v.Causes) > explain.MostCauses {
		t.Fatalf("%d causes", len(v.Causes))
	}
	for i, e := range v.Causes {
		if e.Step > v.Step || i > 0 && e.Step < v.Causes[i-1].Step {
			t.Errorf("cause %d is of step %d, the violation of step %d", i, e.Step, v.Step)
		}
	}
}

func TestReproduceNamesFilesByPath(t *testing.T) {
	data, err := os.ReadFile("../../scenarios/order/ttl-race.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "my scenario.yaml")
	if err := os.WriteFile(path, append(data, "# changed\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := scenario.LoadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := Targets([]*scenario.Scenario{s})[1].Reproduce(5, nil)
	if want := "bin/chaos replay '" + path + "' --profile documented --seed 5"; got != want {
		t.Errorf("reproduce by %q, want %q", got, want)
	}
}

func TestQuote(t *testing.T) {
	for path, want := range map[string]string{
		"a/b-1.yaml": "a/b-1.yaml", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "-x": "'-x'", "": "''", "ü": "'ü'",
	} {
		if got := shellQuote(path); got != want {
			t.Errorf("quote(%q) = %s, want %s", path, got, want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, err := Sweep(ctx, find(t, "ttl-race"), Options{First: 1, Seeds: 10_000, Progress: func(p Progress) {
		if p.Done == 5 {
			cancel()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	seeds := out.Sweep.Scenarios[0].Seeds + out.Sweep.Scenarios[1].Seeds
	if !out.Sweep.Interrupted || seeds < 5 || seeds > 5+runtime.GOMAXPROCS(0) {
		t.Errorf("interrupted %v after %d runs", out.Sweep.Interrupted, seeds)
	}
	if out.Sweep.Verdict != verdict.Inconclusive {
		t.Errorf("verdict %v", out.Sweep.Verdict)
	}
}

func TestProgressCountsRunsAndFailures(t *testing.T) {
	var last Progress
	failed := 0
	_, err := Sweep(t.Context(), find(t, "worker-stops-mid-execution"), Options{First: 7, Seeds: 4, Mutant: deaf(), Progress: func(p Progress) {
		if p.Done != last.Done+1 || p.Virtual < last.Virtual {
			t.Errorf("%+v after %+v", p, last)
		}
		if p.Failed != nil {
			failed++
		}
		last = p
	}})
	if err != nil || last.Done != 8 || last.Total != 8 || last.Failing == 0 || failed != 2 || last.Rate() <= 0 || last.Left() != 0 {
		t.Errorf("%v, %+v, %d targets reported as failed", err, last, failed)
	}
}

func TestSweepNamesHungRun(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	stuck := &mutant.Mutant{Name: "stuck", Store: func(p mutant.Process, c store.Store) store.Store {
		if !p.Client { // skip the client's store, which is made before the run begins
			<-release
		}
		return c
	}}
	out, err := Sweep(t.Context(), find(t, "ttl-race")[:1], Options{First: 3, Seeds: 1, Mutant: stuck, Patience: 100 * time.Millisecond})
	var hung *Hung
	if !errors.As(err, &hung) {
		t.Fatalf("error %v", err)
	}
	if hung.Seed != 3 || !bytes.Contains(hung.Stacks, []byte("TestSweepNamesHungRun")) ||
		!strings.Contains(err.Error(), "bin/chaos replay ttl-race --profile hardened --seed 3 --mutant stuck") {
		t.Errorf("%v", err)
	}
	if !out.Sweep.Interrupted {
		t.Error("what was done is not marked as a part")
	}
}

// tooMany is a store whose answer is longer than the request, which makes the core panic.
type tooMany struct{ store.Store }

func (t tooMany) Dispatch(ctx context.Context, executor string, ds []store.Dispatch) ([]store.DispatchResult, error) {
	results, err := t.Store.Dispatch(ctx, executor, ds)
	return append(results, store.DispatchResult{WorkerUnfit: true}), err
}

func TestProductPanicFails(t *testing.T) {
	broken := &mutant.Mutant{Name: "broken", Store: func(_ mutant.Process, c store.Store) store.Store { return tooMany{c} }}
	out, err := Sweep(t.Context(), find(t, "ttl-race")[:1], Options{First: 1, Seeds: 1, Mutant: broken})
	if err != nil {
		t.Fatal(err)
	}
	sc := out.Sweep.Scenarios[0]
	if sc.Verdict != verdict.Fail || sc.Panics != 1 || len(sc.Violations) != 1 || sc.Violations[0].Reproduce == "" {
		t.Errorf("%v, %d panics, because of %q", sc.Verdict, sc.Panics, sc.Why)
	}
}

func TestHarnessPanicIsInconclusive(t *testing.T) {
	for name, f := range map[string]*mutant.Mutant{
		"in a task":           {Name: "x", Store: func(mutant.Process, store.Store) store.Store { panic("harness") }},
		"outside of the task": {Name: "x", Config: func(*config.Config) { panic("harness") }},
	} {
		out, err := Sweep(t.Context(), find(t, "ttl-race")[:1], Options{First: 1, Seeds: 1, Mutant: f})
		if err != nil {
			t.Fatal(err)
		}
		if sc := out.Sweep.Scenarios[0]; sc.Verdict != verdict.Inconclusive || sc.GaveUp != 1 || sc.Panics != 0 {
			t.Errorf("%s: %v, gave up %d, panics %d, because of %q", name, sc.Verdict, sc.GaveUp, sc.Panics, sc.Why)
		}
	}
}

// drifting returns a mutant that makes every run differ from the previous run.
func drifting() *mutant.Mutant {
	var n atomic.Int64
	return &mutant.Mutant{Name: "drifting", Config: func(c *config.Config) {
		c.Worker.HeartbeatInterval += time.Duration(n.Add(1)) * time.Millisecond
	}}
}

func TestDouble(t *testing.T) {
	target := find(t, "worker-stops-gracefully")[0]
	if m := Double(target, 1, nil); m != nil {
		t.Errorf("a seed has two histories: %+v", m.Hashes)
	}
	m := Double(target, 1, drifting())
	if m == nil || m.Index < 0 || m.Events[0] == nil || m.Events[1] == nil {
		t.Fatalf("a difference was not found: %+v", m)
	}
	a, b := m.Records[0].Events[:m.Index], m.Records[1].Events[:m.Index]
	if at := firstDifference(a, b); at >= 0 {
		t.Errorf("event %d was not the first: event %d differs", m.Index, at)
	}
}

func TestDoubledSweepFailsOnDifference(t *testing.T) {
	out, err := Sweep(t.Context(), find(t, "worker-stops-gracefully")[:1], Options{
		First: 1, Seeds: 3, Double: 1, Workers: 1, Mutant: drifting(), Describe: reports.Describe,
	})
	if err != nil {
		t.Fatal(err)
	}
	sc := out.Sweep.Scenarios[0]
	var found *verdict.Violation
	for i := range sc.Violations {
		if sc.Violations[i].Name == "determinism" {
			found = &sc.Violations[i]
		}
	}
	if sc.Verdict != verdict.Fail || found == nil || found.Seed != 1 || !strings.Contains(found.Message, "run 2: step ") {
		t.Errorf("%v because of %q", sc.Verdict, sc.Why)
	}
	clean, err := Sweep(t.Context(), find(t, "worker-stops-gracefully"), Options{First: 1, Seeds: 3, Double: 2})
	if err != nil || clean.Sweep.Verdict == verdict.Fail {
		t.Errorf("without a difference: %v, %v", clean.Sweep.Verdict, err)
	}
}
