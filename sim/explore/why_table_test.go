package explore

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/selftest/mutant"
)

// explainedSample are the mutants whose explanations are measured in every run of the tests.
func explainedSample() []string {
	return []string{"unguarded-claim", "unguarded-monitor", "same-name-orphans", "refused-letter-dropped"}
}

// whySeed orders the mutants, so that every part of the order is a sample of the whole.
const whySeed = 20261125

// hashed is the hash of a mutant's name.
func hashed(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// tuned says that a mutant is of the half on which the search for the jump was tuned. The others
// were looked at only when it was done.
func tuned(name string) bool { return anew(hashed(name))%2 == 1 }

// shuffled are all mutants, in the order of the seed.
func shuffled() []*mutant.Mutant {
	list := slices.Clone(mutant.All())
	rank := func(f *mutant.Mutant) uint64 { return anew(whySeed, hashed(f.Name)) }
	slices.SortFunc(list, func(a, b *mutant.Mutant) int {
		if rank(a) < rank(b) {
			return -1
		}
		return 1
	})
	return list
}

// wanted are the mutants that HANDOFF_WHY asks for: all, those of the half on which the search was
// tuned or of the other one, none, or some by name.
func wanted(t *testing.T, how string) (list []*mutant.Mutant) {
	t.Helper()
	names := strings.Split(how, ",")
	for _, f := range shuffled() {
		switch {
		case how == "all", how == "tuned" && tuned(f.Name), how == "held-out" && !tuned(f.Name), slices.Contains(names, f.Name):
			list = append(list, f)
		}
	}
	if len(list) == 0 && how != "none" {
		t.Fatalf("HANDOFF_WHY=%s: all, tuned, held-out, none, or mutants by name, with commas between them", how)
	}
	return list
}

// Four mutants are explained in every run of the tests. HANDOFF_WHY asks for more of them.
func TestExplanationsOfMutants(t *testing.T) {
	skipShort(t)
	o := DefaultCurve()
	o.Workers, o.Only = 1, true // several processes run side by side
	o.Steps = o.Steps * 3 / 5   // what is left beside the two curves that are left out
	how := os.Getenv("HANDOFF_WHY")
	if how != "" {
		measureRows(t, wanted(t, how), o)
		return
	}
	o.Runs = 40
	var results []*explained
	for _, f := range wanted(t, strings.Join(explainedSample(), ",")) {
		results = append(results, explainMutant(t.Context(), f, o))
		t.Log(results[len(results)-1].row())
	}
	said, good := judge(results)
	t.Log(said)
	if !good {
		t.Error("the explanations of the sample fall short")
	}
}

// measureRows writes a row of each mutant into the folder HANDOFF_WHY_ROWS as soon as it is
// explained, and leaves out those that have one there. With HANDOFF_WHY_SHARE=i/n it takes the i-th
// of n parts, and so many processes can share the work. All rows of the folder make the table.
func measureRows(t *testing.T, list []*mutant.Mutant, o CurveOptions) {
	t.Helper()
	folder, part, parts := os.Getenv("HANDOFF_WHY_ROWS"), 1, 1
	if folder == "" {
		t.Fatal("HANDOFF_WHY_ROWS is empty: it names the folder of the rows")
	}
	if share := os.Getenv("HANDOFF_WHY_SHARE"); share != "" {
		if _, err := fmt.Sscanf(share, "%d/%d", &part, &parts); err != nil || part < 1 || part > parts {
			t.Fatalf("HANDOFF_WHY_SHARE=%s: write 1/3 for the first of three parts", share)
		}
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	there := readRows(t, folder)
	rows, err := os.OpenFile(filepath.Join(folder, fmt.Sprintf("%d-of-%d.jsonl", part, parts)), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for i, f := range list {
		if i%parts != part-1 || slices.ContainsFunc(there, func(e *explained) bool { return e.Mutant == f.Name }) {
			continue
		}
		e := explainMutant(t.Context(), f, o)
		line, err := json.Marshal(e)
		if err == nil {
			_, err = rows.Write(append(line, '\n'))
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%s %.0f s\n", e.row(), e.Seconds)
	}
	tabulate(t, readRows(t, folder))
}

// readRows reads the rows of a folder, in the order of the mutants.
func readRows(t *testing.T, folder string) (rows []*explained) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewScanner(f)
		in.Buffer(nil, 1<<24)
		for in.Scan() {
			e := &explained{}
			if err := json.Unmarshal(in.Bytes(), e); err == nil { // a last line may be cut short
				rows = append(rows, e)
			}
		}
		if err := errors.Join(in.Err(), f.Close()); err != nil {
			t.Fatalf("read %s: %v", name, err)
		}
	}
	slices.SortFunc(rows, func(a, b *explained) int { return strings.Compare(a.Mutant, b.Mutant) })
	return rows
}

// tabulate prints what was measured, a line for each mutant first.
func tabulate(t *testing.T, results []*explained) {
	t.Helper()
	if len(results) == 0 {
		return
	}
	said, _ := judge(results)
	fmt.Println("| mutant | run | half | lines | shows the act | needed faults | jump | events from the first act | from the act that mattered | from the nearest act | runs | million steps |")
	fmt.Println("|---|---|---|--:|---|---|---|--:|--:|--:|--:|--:|")
	for _, e := range results {
		fmt.Println(e.row())
	}
	fmt.Println(said)
}

// row is a line of the table.
func (e *explained) row() string {
	if e.Missing != "" {
		return fmt.Sprintf("| %s | %s | | | | | | | | | | |", e.Mutant, e.Missing)
	}
	half := map[bool]string{true: "tuned", false: "held out"}[tuned(e.Mutant)]
	from := fmt.Sprintf("%d | %d | %d", e.FromFirst, e.FromMattered, e.FromNear)
	switch {
	case e.Inevitable:
		from = "inevitable | inevitable | inevitable"
	case e.Flat:
		from = "flat | flat | flat"
	}
	needed := fmt.Sprintf("%d of %d", e.Needed, e.Faults)
	if !e.Found {
		needed = "not found"
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %s | %s | %s | %s | %d | %.1f |", e.Mutant, e.Run, half, e.Lines, yes(e.Act), needed, e.Jump, from, e.Runs, float64(e.Steps)/1e6)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// tally counts what is said of some mutants.
type tally struct{ all, missing, acts, found, flats, inevitable, first, mattered, near int }

func (n *tally) add(e *explained) {
	count := func(n *int, yes bool) {
		if yes {
			*n++
		}
	}
	n.all++
	count(&n.missing, e.Missing != "")
	count(&n.acts, e.Act)
	count(&n.found, e.Found)
	count(&n.flats, e.Flat)
	count(&n.inevitable, e.Inevitable)
	count(&n.first, e.hit(e.FromFirst))
	count(&n.mattered, e.hit(e.FromMattered))
	count(&n.near, e.hit(e.FromNear))
}

func share(k, n int) string {
	return fmt.Sprintf("%d of %d (%.0f %%)", k, n, 100*float64(k)/float64(max(1, n)))
}

// jumps is a line of the small table: how many jumps are near to an act, of all mutants and of those
// whose failure is not inevitable.
func (n *tally) jumps(what string) string {
	some := n.all - n.inevitable
	return fmt.Sprintf("| %s | %d | %s | %d | %s | %s | %s | %s | %s | %s |", what, n.all, share(n.inevitable, n.all), n.flats-n.inevitable,
		share(n.first, n.all), share(n.mattered, n.all), share(n.near, n.all), share(n.first, some), share(n.mattered, some), share(n.near, some))
}

// judge sums the results up, in a few sentences for the page, and says whether they are good enough
// for a test. Of many mutants, what falls short is only told: the page has the table.
func judge(results []*explained) (said string, good bool) {
	var lines []int
	var whole tally
	halves := map[bool]*tally{true: {}, false: {}}
	for _, e := range results {
		whole.add(e)
		halves[tuned(e.Mutant)].add(e)
		if e.Missing == "" {
			lines = append(lines, e.Lines)
		}
	}
	n := whole.all
	said = fmt.Sprintf(`Explained are %s mutants.

- Mutants that no run kills: %d.
- Lines of the difference: a median of %d, %d at most; wanted were 15. The act is shown for %s; wanted were all.
- The needed faults are found for %s; wanted were all.
- The jump is within %d events of an act for so many; wanted were 70 %%:

| mutants | number | inevitable | flat elsewhere | first act | act that mattered | any act | adjusted: first act | act that mattered | any act |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
%s
%s
%s`,
		share(n, len(mutant.All())), whole.missing, median(lines), slices.Max(append(lines, 0)), share(whole.acts, n), share(whole.found, n), within,
		halves[true].jumps("tuned on"), halves[false].jumps("held out"), whole.jumps("both"))
	return said, whole.missing == 0 && median(lines) <= 15 && whole.acts == n && whole.found == n
}
