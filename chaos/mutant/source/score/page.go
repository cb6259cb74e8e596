package score

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Equivalent is a mutant that does what the true core does, with the proof.
type Equivalent struct {
	ID     string `yaml:"id"`
	Reader string `yaml:"reader"`
	Proof  string `yaml:"proof"`
}

// Tally counts some of the mutants.
type Tally struct {
	Mutants, Killed, Equivalent int
}

// Raw is the share of killed mutants, in percent.
func (t Tally) Raw() float64 { return percent(t.Killed, t.Mutants) }

// Adjusted is that share without the equivalent ones.
func (t Tally) Adjusted() float64 { return percent(t.Killed, t.Mutants-t.Equivalent) }

func percent(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(n) / float64(of)
}

// add counts a mutant. One that was killed is not equivalent, whatever a proof says.
func (t *Tally) add(r *Result, equivalent bool) {
	t.Mutants++
	switch {
	case r.Killed():
		t.Killed++
	case equivalent:
		t.Equivalent++
	}
}

// Summary is the score in a few lines.
func (r *Results) Summary() string {
	var all Tally
	killers := map[string]int{}
	for _, m := range r.Results {
		all.add(m, false)
		killers[m.Killer()]++
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d mutants of the core's source killed: %.1f %%\n", all.Killed, all.Mutants, all.Raw())
	for _, name := range sortedKillers(killers) {
		fmt.Fprintf(&b, "%5d  %s\n", killers[name], name)
	}
	return b.String()
}

// sortedKillers has invariants by number first, and what survived last.
func sortedKillers(counts map[string]int) []string {
	rank := func(name string) int {
		var n int
		if _, err := fmt.Sscanf(name, "invariant %d", &n); err == nil {
			return n
		}
		return 1000 + slices.Index([]string{Expectation, Panic, GaveUp, Hang, Memory, Crash, Start, Situation, Contract, "survived", "not reached"}, name)
	}
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
}

// Page is docs/score.md.
func (r *Results) Page(equivalents []Equivalent) string {
	proved := map[string]bool{}
	for _, e := range equivalents {
		proved[e.ID] = true
	}
	var all Tally
	operators, packages := map[string]*Tally{}, map[string]*Tally{}
	killers, seeds := map[string]int{}, map[int]int{}
	units := 0
	list := r.Sorted()
	for _, m := range list {
		for _, t := range []*Tally{&all, tally(operators, m.Operator), tally(packages, m.Package)} {
			t.add(m, proved[m.ID])
		}
		killers[m.Killer()]++
		if !m.Killed() {
			seeds[m.Seeds]++
		}
		if m.Unit == "killed" {
			units++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, head, all.Mutants, r.sample(), all.Raw(), all.Adjusted(), all.Killed, all.Equivalent, r.Seed, short(r.Commit), short(r.Core), seedsText(seeds))
	r.quotas(&b, operators)
	section(&b, "By package", "package", packages)
	b.WriteString("\n## By killer\n\n| killer | mutants |\n|---|---:|\n")
	for _, name := range sortedKillers(killers) {
		fmt.Fprintf(&b, "| %s | %d |\n", name, killers[name])
	}
	fmt.Fprintf(&b, "\nOf the survivors, the unit tests of their package kill %d. That counts for nothing here.\n", units)
	survivors(&b, list, proved)
	r.left(&b)
	if r.SQL != nil {
		r.SQL.statements(&b, proved)
	}
	return b.String()
}

// statements is the part of the page on the mutants of SQL.
func (r *Results) statements(b *strings.Builder, proved map[string]bool) {
	var all Tally
	operators := map[string]*Tally{}
	list := r.Sorted()
	for _, m := range list {
		all.add(m, proved[m.ID])
		tally(operators, m.Operator).add(m, proved[m.ID])
	}
	fmt.Fprintf(b, sqlHead, all.Killed, all.Mutants, all.Raw(), all.Equivalent, all.Adjusted(), len(r.Refused))
	r.table(b, operators)
	b.WriteString("\nSurvivors:\n\n")
	for _, m := range list {
		if !m.Killed() {
			fmt.Fprintf(b, "- `%s`\n", strings.ReplaceAll(m.About, "`", "'"))
		}
	}
}

const sqlHead = `
## The store's SQL

Mutants of the statements of core/store/postgres, judged by the contract of the stores on a real server:
%d of %d are killed, **%.1f %%**; without %d equivalents **%.1f %%**. %d candidates were no mutants, because
the server does not take them; the draw went on to the next ones.

`

const head = `<!-- Written by bin/chaos mutants --source --table docs/score.md; don't edit. -->
# The score

What share of small mistakes in the core's own source does the harness see? Operators that know nothing of
its rules make mutants wherever they fit; a sample is drawn by a hash, each is run through the library, and
the first failing run kills it. A mutant that changes the history of no run is *not reached*, and that
counts as a survivor. Operators, quotas and the rule of the draw (chaos/mutant/source) were committed before
the rules that the score measures, and that commit's hash is the seed of the draw.

| | |
|---|---|
| mutants | %d of a sample of %d |
| raw score | **%.1f %%** |
| adjusted score, without equivalents | **%.1f %%** |
| killed | %d |
| equivalent, each with a proof in chaos/mutant/source/equivalents.yaml | %d |
| seed of the draw | %s |
| harness | %s |
| digest of the mutated source | %s |
| seeds of every scenario and profile that survivors survived | %s |

`

func (r *Results) sample() int {
	n := 0
	for _, q := range r.Quotas {
		n += q.Quota
	}
	return n
}

func short(hash string) string { return hash[:min(len(hash), 12)] }

func seedsText(seeds map[int]int) string {
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(seeds)) {
		parts = append(parts, fmt.Sprintf("%d (%d mutants)", n, seeds[n]))
	}
	return strings.Join(parts, ", ")
}

func tally(of map[string]*Tally, name string) *Tally {
	if of[name] == nil {
		of[name] = new(Tally)
	}
	return of[name]
}

func (r *Results) quotas(b *strings.Builder, operators map[string]*Tally) {
	b.WriteString("## By operator\n\n")
	r.table(b, operators)
}

func (r *Results) table(b *strings.Builder, operators map[string]*Tally) {
	b.WriteString("| operator | candidates | quota | run | killed | raw | equivalent | adjusted |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, q := range r.Quotas {
		t := tally(operators, q.Operator)
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %.0f %% | %d | %.0f %% |\n", q.Operator, q.Candidates, q.Quota, t.Mutants, t.Killed, t.Raw(), t.Equivalent, t.Adjusted())
	}
}

func section(b *strings.Builder, title, column string, of map[string]*Tally) {
	fmt.Fprintf(b, "\n## %s\n\n| %s | mutants | killed | raw | equivalent | adjusted |\n|---|---:|---:|---:|---:|---:|\n", title, column)
	for _, name := range slices.Sorted(maps.Keys(of)) {
		t := of[name]
		fmt.Fprintf(b, "| %s | %d | %d | %.0f %% | %d | %.0f %% |\n", name, t.Mutants, t.Killed, t.Raw(), t.Equivalent, t.Adjusted())
	}
}

// survivors lists what is not seen, for those who write rules.
func survivors(b *strings.Builder, list []*Result, proved map[string]bool) {
	for _, kind := range []string{"survived", "not reached"} {
		operator := ""
		fmt.Fprintf(b, "\n## %s\n", strings.ToUpper(kind[:1])+kind[1:])
		for _, m := range list {
			if m.Killer() != kind {
				continue
			}
			if m.Operator != operator {
				operator = m.Operator
				fmt.Fprintf(b, "\n%s:\n\n", operator)
			}
			note := ""
			if proved[m.ID] {
				note = " (equivalent)"
			} else if m.Unit == "killed" {
				note = " (a unit test kills it)"
			}
			fmt.Fprintf(b, "- `%s`%s\n", strings.ReplaceAll(m.About, "`", "'"), note)
		}
	}
}

func (r *Results) left(b *strings.Builder) {
	b.WriteString("\n## Left out\n\nNo mutants are made of\n\n")
	for _, why := range slices.Sorted(maps.Keys(r.LeftOut)) {
		fmt.Fprintf(b, "- %s: %d\n", why, r.LeftOut[why])
	}
	n := 0
	for _, q := range r.Quotas {
		n += q.Untyped
	}
	fmt.Fprintf(b, "- a place where the mutant would not compile: %d\n", n)
}
