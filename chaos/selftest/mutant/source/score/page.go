package score

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Equivalent is a mutant that behaves like the true core, with the proof.
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
func (t Tally) Raw() float64 { return percentOf(t.Killed, t.Mutants) }

// Adjusted is the share without the equivalent mutants.
func (t Tally) Adjusted() float64 { return percentOf(t.Killed, t.Mutants-t.Equivalent) }

func percentOf(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(n) / float64(of)
}

// countResult counts a mutant. A killed mutant is not equivalent, whatever a proof says.
func (t *Tally) countResult(r *Result, equivalent bool) {
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
	t := r.countResults(nil)
	all := t.all
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d mutants of the core's source killed: %.1f %%", all.Killed, all.Mutants, all.Raw())
	if r.Size != (Size{}) {
		fmt.Fprintf(&b, ", by %s of every scenario and profile", r.Size)
	}
	b.WriteString("\n")
	if len(r.Unjudged) > 0 {
		fmt.Fprintf(&b, "%d varied runs left out: the true core fails them\n", len(r.Unjudged))
	}
	for _, name := range sortedKillers(t.killers) {
		fmt.Fprintf(&b, "%5d  %s\n", t.killers[name], name)
	}
	if t.asked > 0 {
		fmt.Fprintf(&b, "with unit tests: %s\n", t.unitTestScore())
	}
	return b.String()
}

// sortedKillers sorts invariants by number first, and survivors last.
func sortedKillers(counts map[string]int) []string {
	rank := func(name string) int {
		var n int
		if _, err := fmt.Sscanf(name, "invariant %d", &n); err == nil {
			return n
		}
		return 1000 + slices.Index([]string{Expectation, Panic, GaveUp, Hang, Memory, Crash, Start, Situation, Contract, unitTest, "survived", "not reached"}, name)
	}
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
}

// Page returns the page of the score. before are an earlier harness's results, shown for comparison, or nil.
// It refuses proofs that can't be right: see checkProofs.
func (r *Results) Page(equivalents []Equivalent, before *Results) (string, error) {
	if err := r.checkProofs(equivalents); err != nil {
		return "", err
	}
	proved := map[string]bool{}
	for _, e := range equivalents {
		proved[e.ID] = true
	}
	now, then := r.countResults(proved), new(Results).countResults(nil)
	if before != nil {
		then = before.countResults(nil)
	}
	var b strings.Builder
	fmt.Fprintf(&b, head, now.all.Mutants, r.sampleSize(), now.all.Raw(), now.all.Adjusted(), now.unitTestScore(), now.all.Killed, now.all.Equivalent,
		r.Size, len(r.Unjudged), r.Seed, shortHash(r.Commit), shortHash(r.Core))
	if before != nil {
		both, earlier, later := before.countShared(r)
		fmt.Fprintf(&b, beforeHead, shortHash(before.Commit), before.Size, then.all.Raw(), then.all.Killed, then.all.Mutants, both, percentOf(earlier, both), percentOf(later, both))
	}
	b.WriteString("## By operator\n\n")
	r.writeOperators(&b, now.operators, then.operators)
	writeSection(&b, "By package", "package", now.packages, then.packages)
	writeKillers(&b, now, then)
	r.writeProofs(&b, equivalents)
	writeSurvivors(&b, r.Sorted(), proved)
	r.writeLeftOut(&b)
	if r.SQL != nil {
		var earlier *Results
		if before != nil {
			earlier = before.SQL
		}
		r.SQL.writeStatements(&b, proved, earlier)
		r.SQL.writeProofs(&b, equivalents)
	}
	return b.String(), nil
}

// sampleTally are the counts of one sample.
type sampleTally struct {
	all                 Tally
	operators, packages map[string]*Tally
	killers             map[string]int
	// asked is the number of survivors that were run against unit tests.
	asked int
}

// unitTest is the row of the table by killer for mutants that survive the simulator and that a unit
// test kills.
const unitTest = "unit test"

func (r *Results) countResults(proved map[string]bool) sampleTally {
	t := sampleTally{operators: map[string]*Tally{}, packages: map[string]*Tally{}, killers: map[string]int{}}
	for _, m := range r.Results {
		for _, tally := range []*Tally{&t.all, tallyFor(t.operators, m.Operator), tallyFor(t.packages, m.Package)} {
			tally.countResult(m, proved[m.ID])
		}
		if m.Unit != "" && !m.Killed() {
			t.asked++
		}
		if m.Unit == UnitKilled && !m.Killed() {
			t.killers[unitTest]++
		} else {
			t.killers[m.Killer()]++
		}
	}
	return t
}

// unitTestScore returns the share that the simulator or a unit test kills, and the number of survivors that
// were not run against unit tests.
func (s sampleTally) unitTestScore() string {
	switch left := s.all.Mutants - s.all.Killed - s.asked; {
	case s.asked == 0 && left > 0:
		return "not measured"
	case left > 0:
		return fmt.Sprintf("%.1f %%, and %d were not asked", percentOf(s.all.Killed+s.killers[unitTest], s.all.Mutants), left)
	}
	return fmt.Sprintf("%.1f %%", percentOf(s.all.Killed+s.killers[unitTest], s.all.Mutants))
}

// statementsIn is the prefix of the IDs of mutants of SQL.
const statementsIn = "core/store/postgres/"

// checkProofs refuses proofs that can't be right: of a killed mutant, or of more than a tenth of the measured
// ones. If the whole sample was measured, each proof must be of one of its mutants.
func (r *Results) checkProofs(equivalents []Equivalent) error {
	var errs []error
	of := map[*Results]int{}
	for _, e := range equivalents {
		in := r
		if strings.HasPrefix(e.ID, statementsIn) {
			in = cmp.Or(r.SQL, new(Results))
		}
		m := in.Results[e.ID]
		switch {
		case m == nil && in.sampleSize() > 0 && len(in.Results) >= in.sampleSize():
			errs = append(errs, fmt.Errorf("equivalents.yaml: %s is not a mutant of the sample; remove the entry", e.ID))
		case m == nil: // in a part that was not measured
		case m.Killed():
			errs = append(errs, fmt.Errorf("equivalents.yaml: %s is not an equivalent mutant, because %s killed it in %s, seed %d (%s); remove the entry", e.ID, m.By, m.Target, m.Seed, m.Message))
		case m.Unit == UnitKilled:
			errs = append(errs, fmt.Errorf("equivalents.yaml: %s is not an equivalent mutant, because a unit test of %s killed it; remove the entry", e.ID, m.Package))
		default:
			of[in]++
		}
	}
	for _, in := range []*Results{r, r.SQL} {
		if in != nil && 10*of[in] > len(in.Results) {
			errs = append(errs, fmt.Errorf("equivalents.yaml: %d of %d mutants are said to be equivalent, and at most a tenth may be", of[in], len(in.Results)))
		}
	}
	return errors.Join(errs...)
}

// countShared counts the mutants that an earlier sample shares with a later one, and how many were
// killed in each. After a change of the core, the same ID may be another mutant.
func (r *Results) countShared(later *Results) (both, killedBefore, killedLater int) {
	for id, m := range r.Results {
		other := later.Results[id]
		if other == nil || withoutLine(m.About) != withoutLine(other.About) {
			continue
		}
		both++
		if m.Killed() {
			killedBefore++
		}
		if other.Killed() {
			killedLater++
		}
	}
	return both, killedBefore, killedLater
}

// withoutLine removes the line number from a mutant's description, because lines move.
func withoutLine(about string) string {
	place, what, _ := strings.Cut(about, " ")
	file, _, _ := strings.Cut(place, ":")
	return file + " " + what
}

// writeProofs lists the equivalence proofs of those mutants that are in these results.
func (r *Results) writeProofs(b *strings.Builder, equivalents []Equivalent) {
	n := 0
	for _, e := range equivalents {
		m := r.Results[e.ID]
		if m == nil {
			continue
		}
		if n++; n == 1 {
			title := "Equivalent"
			if strings.HasPrefix(e.ID, statementsIn) {
				title = "Equivalent statements"
			}
			b.WriteString("\n## " + title + "\n\nNo test can tell these from the true core. Who read the code and wrote the proof is named in brackets.\n\n")
		}
		fmt.Fprintf(b, "- `%s`: %s (%s)\n", withoutBackticks(m.About), strings.Join(strings.Fields(e.Proof), " "), e.Reader)
	}
}

func withoutBackticks(about string) string { return strings.ReplaceAll(about, "`", "'") }

// writeStatements writes the part of the page about the mutants of SQL.
func (r *Results) writeStatements(b *strings.Builder, proved map[string]bool, before *Results) {
	now, then := r.countResults(proved), new(Results).countResults(nil)
	if before != nil {
		then = before.countResults(nil)
	}
	all := now.all
	fmt.Fprintf(b, sqlHead, all.Killed, all.Mutants, all.Raw(), all.Equivalent, all.Adjusted(), len(r.Refused))
	if before != nil {
		fmt.Fprintf(b, "Before: %.1f %%, %d of %d.\n\n", then.all.Raw(), then.all.Killed, then.all.Mutants)
	}
	r.writeOperators(b, now.operators, then.operators)
	b.WriteString("\nSurvivors:\n\n")
	for _, m := range r.Sorted() {
		if !m.Killed() {
			note := ""
			if proved[m.ID] {
				note = " (equivalent)"
			}
			fmt.Fprintf(b, "- `%s`%s\n", withoutBackticks(m.About), note)
		}
	}
}

const sqlHead = `
## The store's SQL

Mutants of the statements of core/store/postgres, judged by the contract of the stores on a real server:
%d of %d are killed, **%.1f %%**; without %d equivalents **%.1f %%**. %d candidates were no mutants, because
the server does not take them; the draw went on to the next ones.

`

const head = `<!-- Written by .ci/source-score go; don't edit. -->
# The score

What share of small mistakes in the core's own source does the harness see? Operators that know nothing of
its rules make mutants wherever they fit; a sample is drawn by a hash, each is run through the library, and
the first failing run kills it. A mutant that changes the history of no run is *not reached*, and that
counts as a survivor. Operators, quotas and the rule of the draw (chaos/selftest/mutant/source) were committed before
the rules that the score measures, and that commit's hash is the seed of the draw.

| | |
|---|---|
| mutants | %d of a sample of %d |
| raw score: killed by the simulator alone | **%.1f %%** |
| adjusted score, without equivalents | **%.1f %%** |
| beside it: with unit tests | %s |
| killed | %d |
| equivalent, each with a proof below | %d |
| runs of every scenario and profile | %s |
| varied runs that the true core fails, which judge nothing | %d |
| seed of the draw | %s |
| harness | %s |
| digest of the mutated source | %s |

The runs are the first ones of make chaos, which gives every scenario and profile more of them.

`

const beforeHead = `Before is the harness of commit %s, with %s: **%.1f %%**, %d of %d.
The core has changed since, and the sample with it: of the %d mutants that both samples have, %.1f %% were killed then, and %.1f %% are now.

`

func (r *Results) sampleSize() int {
	n := 0
	for _, q := range r.Quotas {
		n += q.Quota
	}
	return n
}

func shortHash(hash string) string { return hash[:min(len(hash), 12)] }

func tallyFor(of map[string]*Tally, name string) *Tally {
	if of[name] == nil {
		of[name] = new(Tally)
	}
	return of[name]
}

// writeOperators writes a row for each operator. Without earlier results their column stays empty.
func (r *Results) writeOperators(b *strings.Builder, operators, before map[string]*Tally) {
	b.WriteString("| operator | candidates | quota | run | killed | raw | before | equivalent | adjusted |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, q := range r.Quotas {
		t := tallyFor(operators, q.Operator)
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %.0f %% | %s | %d | %.0f %% |\n",
			q.Operator, q.Candidates, q.Quota, t.Mutants, t.Killed, t.Raw(), earlierScore(before[q.Operator]), t.Equivalent, t.Adjusted())
	}
}

func writeSection(b *strings.Builder, title, column string, of, before map[string]*Tally) {
	fmt.Fprintf(b, "\n## %s\n\n| %s | mutants | killed | raw | before | equivalent | adjusted |\n|---|---:|---:|---:|---:|---:|---:|\n", title, column)
	for _, name := range slices.Sorted(maps.Keys(of)) {
		t := of[name]
		fmt.Fprintf(b, "| %s | %d | %d | %.0f %% | %s | %d | %.0f %% |\n", name, t.Mutants, t.Killed, t.Raw(), earlierScore(before[name]), t.Equivalent, t.Adjusted())
	}
}

// earlierScore returns an earlier raw score, or nothing.
func earlierScore(t *Tally) string {
	if t == nil || t.Mutants == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", t.Raw())
}

// writeKillers writes the table by killer. Each mutant is in one row.
func writeKillers(b *strings.Builder, now, then sampleTally) {
	b.WriteString("\n## By killer\n\n| killer | mutants | before |\n|---|---:|---:|\n")
	all := maps.Clone(now.killers)
	for name := range then.killers {
		all[name] += 0
	}
	for _, name := range sortedKillers(all) {
		before := ""
		if then.all.Mutants > 0 && (name != unitTest || then.asked > 0) {
			before = fmt.Sprint(then.killers[name])
		}
		fmt.Fprintf(b, "| %s | %d | %s |\n", name, now.killers[name], before)
	}
	b.WriteString("\nA unit test is asked about what the simulator leaves alive. The raw score does not count it.\n")
}

// writeSurvivors lists the mutants that the harness does not detect, for authors of rules.
func writeSurvivors(b *strings.Builder, list []*Result, proved map[string]bool) {
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
			} else if m.Unit == UnitKilled {
				note = " (a unit test kills it)"
			}
			fmt.Fprintf(b, "- `%s`%s\n", withoutBackticks(m.About), note)
		}
	}
}

func (r *Results) writeLeftOut(b *strings.Builder) {
	b.WriteString("\n## Left out\n\nNo mutants are made of\n\n")
	for _, why := range slices.Sorted(maps.Keys(r.LeftOut)) {
		fmt.Fprintf(b, "- %s: %d\n", why, r.LeftOut[why])
	}
	n := 0
	for _, q := range r.Quotas {
		n += q.Untyped
	}
	fmt.Fprintf(b, "- a place where the mutant would not compile: %d\n", n)
	if len(r.Unjudged) > 0 {
		b.WriteString("\nThe true core fails these varied runs, so they judge no mutant:\n\n")
	}
	for _, run := range r.Unjudged {
		fmt.Fprintf(b, "- %s\n", run)
	}
}
