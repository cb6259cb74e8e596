package postgres_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// growth says how the cost of a call grows with a dimension.
type growth int

const (
	constant growth = iota
	linear
	worse
)

func (g growth) String() string { return [...]string{"constant", "linear", "worse than linear"}[g] }

// growthOf compares a call at n with one at 2n. Constant leaves room for a level more of an index, linear for a
// factor log n.
func growthOf(before, after cost) growth {
	switch {
	case after.rows <= 1.05*before.rows+64 && after.buffers <= 1.4*before.buffers+64:
		return constant
	case after.rows <= 2.2*before.rows+64 && after.buffers <= 2.2*before.buffers+256:
		return linear
	}
	return worse
}

// pair is a case and a dimension.
type pair struct{ call, dimension string }

// figures are what a case cost at n, with fresh statistics, and at 2n: first with the plans and the statistics of n, then
// (in the full run only) with fresh ones.
type figures struct{ once, kept, fresh observed }

type measurement struct {
	c       *costs
	cases   []costCase
	figures map[pair]*figures
}

// batch is how many rows a call is about where another dimension grows.
const batch = 10

// warm makes every call so often that a session which keeps plans has kept them, on small tables. The very first
// statement changes no row: whatever is planned for it is planned for nothing.
func (m *measurement) warm() {
	m.c.Helper()
	m.c.must(m.c.Store.Exec(m.c.ctx, "update execution set status = status where id = 0"))
	for range 6 {
		for i := range m.cases {
			m.measure(&m.cases[i], batch)
		}
	}
	m.c.analyze()
}

// measure makes one call about b rows.
func (m *measurement) measure(k *costCase, b int) observed {
	c := m.c
	c.Helper()
	before := c.mark()
	call := k.prepare(c, b)
	c.observer.plans = nil
	if err := call(); err != nil {
		c.Fatalf("%s: %v", k.name(), err)
	}
	sum := c.observer.sum()
	if c.observer.wrong != nil || len(c.observer.plans) == 0 {
		c.Fatalf("%s: no plan was seen (%v): Observe has to reach the session that executes its statements", k.name(), c.observer.wrong)
	}
	c.forget(before)
	return sum
}

func (m *measurement) dimension(d dimension, n int) {
	c := m.c
	c.Helper()
	c.dimension, c.before = d.name, c.mark()
	grow := func(from, to int) {
		c.size = to
		d.fill(c, from, to)
	}
	all := func(into func(*figures) *observed) {
		for i := range m.cases {
			*into(m.of(&m.cases[i], d.name)) = m.measure(&m.cases[i], batch)
		}
	}
	grow(0, n)
	c.analyze()
	all(func(f *figures) *observed { return &f.once })
	grow(n, 2*n)
	all(func(f *figures) *observed { return &f.kept })
	if full() {
		c.analyze()
		all(func(f *figures) *observed { return &f.fresh })
	}
	c.reset()
	c.dimension = ""
	c.analyze()
}

func (m *measurement) of(k *costCase, dimension string) *figures {
	p := pair{k.name(), dimension}
	if m.figures[p] == nil {
		m.figures[p] = &figures{}
	}
	return m.figures[p]
}

// full says that the sizes of a large installation are asked for.
func full() bool { return os.Getenv("HANDOFF_COST") == "full" }

func TestCosts(t *testing.T) {
	start := time.Now()
	c := newCosts(t)
	m := measurement{c: c, cases: costCases(), figures: make(map[pair]*figures)}
	m.warm()
	t.Logf("warm after %v", time.Since(start))
	for _, d := range dimensions() {
		if only := os.Getenv("DIM"); only != "" && !strings.Contains(only, "/"+d.name+"/") {
			continue
		}
		m.dimension(d, d.small)
		t.Logf("%s after %v", d.name, time.Since(start))
		for i := range m.cases {
			f := m.of(&m.cases[i], d.name)
			if g := growthOf(f.once.cost, f.kept.cost); g != constant {
				t.Logf("%s × %s: %v: %v → %v%s", m.cases[i].name(), d.name, g, f.once.cost, f.kept.cost, grown(f.once, f.kept))
			}
		}
	}
	for i := range m.cases {
		k := &m.cases[i]
		if !k.lists {
			continue
		}
		var at [3]observed
		for n, b := range []int{100, 200, 400} {
			at[n] = m.measure(k, b)
		}
		for n := range 2 {
			if g := growthOf(at[n].cost, at[n+1].cost); g != linear || os.Getenv("ALL") != "" {
				t.Logf("%s × batch %d: %v: %v → %v%s", k.name(), 100<<n, g, at[n].cost, at[n+1].cost, grown(at[n], at[n+1]))
			}
		}
	}
	_ = fmt.Sprint
}
