package explore

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"handoff/chaos/invariant"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/scenarios"
	"handoff/sim"
)

var update = flag.Bool("update", false, "write testdata/histories.txt anew")

// historySeeds is the number of seeds of each scenario and profile that are run and compared; the first is
// 0.
const historySeeds = 2

// histories is the file with the histories of the library's runs, one a line.
const histories = "testdata/histories.txt"

// mostFall bounds the loss of judgements: an invariant is reported if its number of judgements in a scenario
// falls by more than 1/mostFall.
const mostFall = 20

// historyRun is one run of the library, in the form that the tests compare.
type historyRun struct {
	target Target
	seed   uint64
	hash   uint64
	events uint64
	judged []uint64
	// failed is the reason why the run can't be compared, or "" if it can.
	failed string
	// violations are the violations of the run.
	violations []verdict.Violation
}

// libraryRuns runs every scenario under every profile and seed once, for all tests that examine the
// runs.
var libraryRuns = sync.OnceValues(func() ([]historyRun, error) { //nolint:gochecknoglobals // what is run once is shared
	all, err := scenarios.Library()
	if err != nil {
		return nil, err
	}
	var runs []historyRun
	for _, target := range Targets(all) {
		for seed := range seedsToRun() {
			if isRun(string(target.Profile), seed) {
				runs = append(runs, historyRun{target: target, seed: seed})
			}
		}
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for n := int(next.Add(1)) - 1; n < len(runs); n = int(next.Add(1)) - 1 {
				runs[n].run()
			}
		})
	}
	workers.Wait()
	return runs, nil
})

// seedsToRun returns 1 under -short, as in the race detector's pass, where every run takes ten times
// longer. The file is always written with all seeds.
func seedsToRun() uint64 {
	if testing.Short() && !*update {
		return 1
	}
	return historySeeds
}

// isRun reports whether runs of a profile and seed take part; under the race detector, only those of one
// profile.
func isRun(profile string, seed uint64) bool {
	return seed < seedsToRun() && (!raceEnabled || *update || profile == string(config.Hardened))
}

func (h *historyRun) run() {
	r := runOnce(h.target, sim.Options{Seed: h.seed})
	h.hash, h.events, h.judged, h.violations = r.Hash, r.Events, r.Judged, r.Violations
	if h.failed = r.Panic; h.failed == "" {
		h.failed = r.GaveUp
	}
}

// Every invariant must judge something in the library: an invariant that judges nothing would always pass.
func TestLibraryExercisesEveryInvariant(t *testing.T) {
	runs, err := libraryRuns()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range invariant.All() {
		total, in := uint64(0), 0
		for _, r := range runs {
			if r.seed != 0 || r.failed != "" {
				continue
			}
			if n := r.judged[i.Number-1]; n > 0 {
				total += n
				in++
			}
		}
		if total == 0 {
			t.Errorf("invariant %d (%s) judges nothing in any scenario of the library: either no scenario reaches what it is about, or its checker lost the call of judged where it decides", i.Number, i.Name)
			continue
		}
		t.Logf("invariant %d (%s) judged %d times, in %d of the library's runs", i.Number, i.Name, total, in)
	}
}

// The core breaks no rule in any run of the library. For every run, the committed file holds the hash of the
// history, the number of events, and the number of judgements of each invariant. A refactoring must change no
// line, and a change to the checkers that loses judgements changes a count.
func TestHistories(t *testing.T) {
	runs, err := libraryRuns()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if r.failed != "" {
			t.Errorf("%s, seed %d, can't be compared: %s", r.target, r.seed, r.failed)
		}
		for _, v := range r.violations {
			t.Errorf("%s, seed %d: invariant %d: %s", r.target, r.seed, v.Invariant, v.Message)
		}
	}
	if t.Failed() {
		return
	}
	if *update {
		writeHistories(t, runs)
		return
	}
	text, err := os.ReadFile(histories)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s does not exist; go test ./sim/explore -run TestHistories -update writes it", histories)
	} else if err != nil {
		t.Fatal(err)
	}
	if problems := compareHistories(string(text), runs); len(problems) > 0 {
		t.Errorf("the runs of the library differ from %s (old → new):\n%s\n\n"+
			"If the change is meant, run `go test ./sim/explore -run TestHistories -update` and say in the commit why.", histories, strings.Join(problems, "\n"))
	}
}

func writeHistories(t *testing.T, runs []historyRun) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# The simulated runs of the library: scenario, profile, seed, hash of the history, events, and how often each invariant has\n")
	b.WriteString("# judged something, by number from 1 (31 is unused). TestHistories compares them and writes this file with -update.\n")
	for _, r := range runs {
		fmt.Fprintln(&b, r.line())
	}
	if err := os.MkdirAll(filepath.Dir(histories), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(histories, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// key returns the part of a line that identifies the run.
func (h *historyRun) key() string {
	return fmt.Sprintf("%s %s %d", h.target.Scenario.Name, h.target.Profile, h.seed)
}

func (h *historyRun) line() string {
	judged := strings.Trim(fmt.Sprint(h.judged), "[]")
	return fmt.Sprintf("%s %016x %d %s", h.key(), h.hash, h.events, judged)
}

// compareHistories returns a line for every scenario in which an invariant judges much less often than in the
// file, and then a line for every run that differs. It ignores seeds of the file that were not run.
func compareHistories(text string, runs []historyRun) (problems []string) {
	old, problems := readHistories(text)
	var fell []string
	var before, after []uint64
	for n := range runs {
		r := &runs[n]
		if n == 0 || runs[n-1].target != r.target {
			before, after = make([]uint64, len(r.judged)), make([]uint64, len(r.judged))
		}
		if was, known := old[r.key()]; !known {
			problems = append(problems, r.key()+": is not in the file")
		} else {
			delete(old, r.key())
			if diff := was.differences(r); len(diff) > 0 {
				problems = append(problems, fmt.Sprintf("%s: %s", r.key(), strings.Join(diff, "; ")))
			}
			for i := range min(len(r.judged), len(was.judged)) {
				before[i] += was.judged[i]
				after[i] += r.judged[i]
			}
		}
		if n == len(runs)-1 || runs[n+1].target != r.target {
			fell = append(fell, falls(r.target, before, after)...)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		key := keyOf(line)
		if was, left := old[key]; left && isRun(strings.Fields(key)[1], was.seed) {
			problems = append(problems, key+": is in the file, and the library has no such run")
		}
	}
	return append(fell, problems...)
}

// falls reports the invariants whose judgements in the seeds of one target have fallen by more than
// 1/mostFall.
func falls(target Target, before, after []uint64) (list []string) {
	for i := range before {
		if after[i]*mostFall < before[i]*(mostFall-1) {
			list = append(list, fmt.Sprintf("FELL %s: %s judged %d → %d over the seeds, %.1f percent less: make sure that nothing is lost",
				target, invariantName(i), before[i], after[i], 100-100*float64(after[i])/float64(before[i])))
		}
	}
	return list
}

func invariantName(i int) string {
	if found := invariant.ByNumber(i + 1); found != nil {
		return fmt.Sprintf("invariant %d (%s)", i+1, found.Name)
	}
	return fmt.Sprintf("invariant %d, which there is no more,", i+1)
}

// differences lists the parts in which a run differs from its line in the file.
func (h *historyRun) differences(now *historyRun) (list []string) {
	if h.hash != now.hash {
		list = append(list, fmt.Sprintf("hash %016x → %016x", h.hash, now.hash))
	}
	if h.events != now.events {
		list = append(list, fmt.Sprintf("events %d → %d", h.events, now.events))
	}
	if len(h.judged) != len(now.judged) {
		return append(list, fmt.Sprintf("counts of %d → %d invariants", len(h.judged), len(now.judged)))
	}
	for i, was := range h.judged {
		if was != now.judged[i] {
			list = append(list, fmt.Sprintf("%s judged %d → %d", invariantName(i), was, now.judged[i]))
		}
	}
	return list
}

// keyOf returns the key of the run in a line: its first three words.
func keyOf(line string) string {
	words := strings.Fields(line)
	return strings.Join(words[:min(3, len(words))], " ")
}

// readHistories reads the lines by the keys of their runs, and lists unreadable lines.
func readHistories(text string) (runs map[string]*historyRun, problems []string) {
	runs = make(map[string]*historyRun)
	for n, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		h, err := readHistory(line)
		switch _, twice := runs[keyOf(line)]; {
		case err != nil:
			problems = append(problems, fmt.Sprintf("line %d can't be read: %v", n+1, err))
		case twice:
			problems = append(problems, fmt.Sprintf("line %d names %s a second time", n+1, keyOf(line)))
		default:
			runs[keyOf(line)] = h
		}
	}
	return runs, problems
}

func readHistory(line string) (*historyRun, error) {
	words := strings.Fields(line)
	if len(words) < 5 {
		return nil, fmt.Errorf("it has %d words; the first five are scenario, profile, seed, hash and events", len(words))
	}
	h := new(historyRun)
	var bad error
	number := func(word string, base int) uint64 {
		n, err := strconv.ParseUint(word, base, 64)
		bad = errors.Join(bad, err)
		return n
	}
	h.seed, h.hash, h.events = number(words[2], 10), number(words[3], 16), number(words[4], 10)
	for _, word := range words[5:] {
		h.judged = append(h.judged, number(word, 10))
	}
	return h, bad
}

func TestHistoryDifferenceNamesItsParts(t *testing.T) {
	counts := func(n uint64) []uint64 {
		list := make([]uint64, invariant.Last)
		for i := range list {
			list[i] = n
		}
		return list
	}
	target := find(t, "ttl-race")[0]
	run := historyRun{target: target, hash: 0xab, events: 7, judged: counts(100)}
	text := run.line() + "\n"
	if problems := compareHistories(text, []historyRun{run}); len(problems) > 0 {
		t.Errorf("the same run differs: %q", problems)
	}
	changed := func(change func(*historyRun)) historyRun {
		r := run
		r.judged = counts(100)
		change(&r)
		return r
	}
	for _, c := range []struct {
		name, text string
		runs       []historyRun
		want       []string
	}{
		{"hash", text, []historyRun{changed(func(r *historyRun) { r.hash = 0xcd })}, []string{"ttl-race hardened 0: hash 00000000000000ab → 00000000000000cd"}},
		{"events", text, []historyRun{changed(func(r *historyRun) { r.events = 8 })}, []string{"ttl-race hardened 0: events 7 → 8"}},
		{"a small fall", text, []historyRun{changed(func(r *historyRun) { r.judged[16] = 95 })}, []string{"ttl-race hardened 0: invariant 17 (earned) judged 100 → 95"}},
		{"a rise", text, []historyRun{changed(func(r *historyRun) { r.judged[16] = 200 })}, []string{"ttl-race hardened 0: invariant 17 (earned) judged 100 → 200"}},
		{"a great fall", text, []historyRun{changed(func(r *historyRun) { r.judged[16] = 94 })}, []string{
			"FELL ttl-race (hardened): invariant 17 (earned) judged 100 → 94 over the seeds, 6.0 percent less: make sure that nothing is lost",
			"ttl-race hardened 0: invariant 17 (earned) judged 100 → 94",
		}},
		{"a new run", "", []historyRun{run}, []string{"ttl-race hardened 0: is not in the file"}},
		{"a run that is gone", text, nil, []string{"ttl-race hardened 0: is in the file, and the library has no such run"}},
		{"a broken line", text + "ttl-race\n", []historyRun{run}, []string{"line 2 can't be read: it has 1 words; the first five are scenario, profile, seed, hash and events"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := compareHistories(c.text, c.runs); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}
