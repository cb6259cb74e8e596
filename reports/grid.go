package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"handoff/chaos/verdict"
)

// Limits of the grid of seeds: its columns, its rows, and the seeds that a row lists in words.
const (
	gridColumns = 100
	gridRows    = 120
	gridNamed   = 8
)

// grid shows the failed seeds of each failed result. A column is one seed or, if there are too many, a range
// of seeds.
type grid struct {
	First, Last uint64
	// Each is the number of seeds in a column, and Columns the number of columns.
	Each    uint64
	Columns int
	// All is the row of all results together.
	All  gridRow
	Rows []gridRow
	// LeftOut counts the unlisted failed results.
	LeftOut int
}

// gridRow is one result. Few, Some and Many are the columns with failed runs, as SVG paths of cells one wide
// and one high. Columns in Few have one failed run or at most a third of the worst column's number, and
// columns in Some at most two thirds.
type gridRow struct {
	Name, Case, Link string
	// From is the first column of the result's seeds, and Width their number of columns.
	From, Width     int
	Few, Some, Many string
	// Unknown is the first column without data, which exists if not all failed seeds were kept. Otherwise it
	// is the number of columns.
	Unknown int
	// Failing counts the failed runs. Seeds lists them in words.
	Failing int
	Seeds   string
	// Reproduce is a command with SEED in place of the seed; empty if unknown.
	Reproduce string
	// Failed lists the failed seeds for the script: the first, then the distances between them.
	Failed string

	// Counts has the number of failed runs in each column.
	Counts []int
	seeds  []uint64
}

// newGrid returns the grid of sorted results, or nil if nothing failed or there is only one seed.
func newGrid(list []*verdict.Scenario, link func(*verdict.Scenario) string) *grid {
	g := &grid{}
	var failed []*verdict.Scenario
	for _, sc := range list {
		if sc.Failing > 0 {
			failed = append(failed, sc)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	g.First, g.Last = seedBounds(failed[0])
	for _, sc := range failed[1:] {
		first, last := seedBounds(sc)
		g.First, g.Last = min(g.First, first), max(g.Last, last)
	}
	if g.First == g.Last {
		return nil
	}
	// Adding one first would overflow for the largest seeds.
	g.Each = (g.Last-g.First)/gridColumns + 1
	g.Columns = g.seedColumn(g.Last) + 1
	g.All = gridRow{Name: "all results", Counts: make([]int, g.Columns), Width: g.Columns, Unknown: g.Columns}
	slices.SortStableFunc(failed, func(a, b *verdict.Scenario) int { return cmp.Compare(b.Failing, a.Failing) })
	for i, sc := range failed {
		row := g.newRow(sc)
		row.Link = link(sc)
		for at, n := range row.Counts {
			g.All.Counts[at] += n
		}
		g.All.Failing += row.Failing
		g.All.seeds = append(g.All.seeds, row.seeds...)
		if i < gridRows {
			g.Rows = append(g.Rows, row)
		} else {
			g.LeftOut++
		}
	}
	slices.Sort(g.All.seeds)
	g.All.seeds = slices.Compact(g.All.seeds)
	g.All.drawCells()
	g.All.Failed = "" // used for the rows only
	return g
}

// seedBounds returns the smallest and the largest seed of a result.
func seedBounds(sc *verdict.Scenario) (first, last uint64) {
	first, last = sc.FirstSeed, sc.LastSeed
	if first == 0 && last == 0 { // written by another program, without the seeds
		first, last = 1, uint64(max(1, sc.Seeds)) //nolint:gosec // not negative
	}
	for _, seed := range failedSeeds(sc) {
		first, last = min(first, seed), max(last, seed)
	}
	return first, last
}

// failedSeeds returns the known failed seeds of a result, ascending.
func failedSeeds(sc *verdict.Scenario) []uint64 {
	if len(sc.FailedSeeds) > 0 {
		return sc.FailedSeeds
	}
	var seeds []uint64
	for i := range sc.Violations {
		seeds = append(seeds, sc.Violations[i].Seed)
	}
	slices.Sort(seeds)
	return slices.Compact(seeds)
}

func (g *grid) seedColumn(seed uint64) int { return int((seed - g.First) / g.Each) } //nolint:gosec // under gridColumns

func (g *grid) newRow(sc *verdict.Scenario) gridRow {
	first, last := seedBounds(sc)
	r := gridRow{
		Name: sc.Name, Case: caseName(sc), Failing: sc.Failing, Counts: make([]int, g.Columns), seeds: failedSeeds(sc),
		From: g.seedColumn(first), Width: g.seedColumn(last) - g.seedColumn(first) + 1, Unknown: g.Columns,
	}
	for _, seed := range r.seeds {
		r.Counts[g.seedColumn(seed)]++
	}
	if len(r.seeds) < sc.Failing && len(r.seeds) > 0 {
		r.Unknown = min(g.Columns, g.seedColumn(r.seeds[len(r.seeds)-1])+1)
	}
	if len(sc.Violations) > 0 {
		v := &sc.Violations[0]
		if command := strings.Replace(v.Reproduce, fmt.Sprintf("--seed %d", v.Seed), "--seed SEED", 1); command != v.Reproduce {
			r.Reproduce = command
		}
	}
	r.drawCells()
	return r
}

// drawCells sets a row's SVG paths and its list of seeds.
func (g *gridRow) drawCells() {
	most := slices.Max(g.Counts)
	var paths [3]strings.Builder
	for at, n := range g.Counts {
		if n > 0 {
			fmt.Fprintf(&paths[(3*n-1)/max(3, most)], "M%d 0h1v1h-1z", at)
		}
	}
	g.Few, g.Some, g.Many = paths[0].String(), paths[1].String(), paths[2].String()
	var words []string
	for _, seed := range g.seeds[:min(len(g.seeds), gridNamed)] {
		words = append(words, fmt.Sprint(seed))
	}
	g.Seeds = strings.Join(words, ", ")
	if more := len(g.seeds) - len(words); more > 0 {
		g.Seeds += fmt.Sprintf(" and %d more", more)
	}
	var list strings.Builder
	before := uint64(0)
	for i, seed := range g.seeds {
		if i > 0 {
			list.WriteByte(' ')
		}
		fmt.Fprint(&list, seed-before)
		before = seed
	}
	g.Failed = list.String()
}
