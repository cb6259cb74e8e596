package postgrestest_test

import (
	"fmt"
	"strings"
)

// markdownTable shows the measurements in Markdown, for a run of the test with -v.
func (m *measurement) markdownTable(all []dimension) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# What the store's statements cost

Every method of the store was called about %d rows while one thing at a time was n and then 2n in the
database. A figure is rows/buffers: rows that the nodes of the plans handed on or threw away, and pages
that were looked at, of the call's statements and of the triggers and functions below them, as
auto_explain counts them. The sessions were warm: each call had been made six times on small tables, and
the first statement of all had changed no row. What is not named under "What grows" is constant: at most
5 %% and 64 more rows, 40 %% and 64 more buffers (a level more of an index). Linear is at most 2.2 times
as much at 2n.

All walks of these stores begin at the head of their index. What executions cost that have left while
somebody holds an old snapshot is counted by TestSnapshotCosts: DispatchDue, ClaimForScheduling, Workers
and Heartbeat read at most twice the pages that they read without the snapshot.

| dimension | what it counts | n | 2n |
|---|---|---|---|
`, few)
	for _, d := range all {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", d.name, d.what, withThousands(float64(d.currentSize())), withThousands(float64(2*d.currentSize())))
	}
	b.WriteString("\n## What grows\n\n")
	m.writePairs(&b, all, costGrowth)
	if len(costExceptions) > 0 {
		b.WriteString("\n## Known exceptions\n\nThese grow more than they may, and are to be mended.\n\n")
		m.writePairs(&b, all, costExceptions)
	}
	fmt.Fprintf(&b, "\n## Longer lists\n\n| call | %d rows | %d | %d |\n|---|---|---|---|\n", batches[0], batches[1], batches[2])
	for i := range m.cases {
		if k := &m.cases[i]; k.lists {
			f := m.figuresOf(k, batched)
			fmt.Fprintf(&b, "| %s | %v | %v | %v |\n", k.caseName(), f.once.cost, f.kept.cost, f.four.cost)
		}
	}
	b.WriteString("\n## With finished executions, and with everything in which it is constant\n\n" +
		"| call | n finished | 2n finished | the most at n of another dimension | and at 2n |\n|---|---|---|---|---|\n")
	for i := range m.cases {
		k := &m.cases[i]
		f := m.figuresOf(k, "finished")
		var once, twice cost
		for _, d := range all {
			p := pair{k.caseName(), d.name}
			if o := m.figuresOf(k, d.name); d.name != "finished" && findExpectation(costGrowth, p) == nil && findExpectation(costExceptions, p) == nil && o.kept.rows > twice.rows {
				once, twice = o.once.cost, o.kept.cost
			}
		}
		fmt.Fprintf(&b, "| %s | %v | %v | %v | %v |\n", k.caseName(), f.once.cost, f.kept.cost, once, twice)
	}
	return b.String()
}

// writePairs writes the pairs of a list with their figures.
func (m *measurement) writePairs(b *strings.Builder, all []dimension, list []grows) {
	b.WriteString("| call | with | growth | n | 2n | why |\n|---|---|---|---|---|---|\n")
	for i := range list {
		for j := range m.cases {
			for _, d := range append(all[:len(all):len(all)], dimension{name: batched}) {
				p := pair{m.cases[j].caseName(), d.name}
				if f := m.figures[p]; f != nil && findExpectation(list, p) == &list[i] {
					g, from, to := f.worstGrowth()
					fmt.Fprintf(b, "| %s | %s | %v | %v | %v | %s |\n", p.call, d.name, g, from.cost, to.cost, list[i].why)
				}
			}
		}
	}
}
