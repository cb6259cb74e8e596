package postgrestest_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/core/store"
	"handoff/core/testenv"
)

// growth is the way in which the cost of a call grows with a dimension.
type growth int

const (
	constant growth = iota
	linear
	worse
)

func (g growth) String() string { return [...]string{"constant", "linear", "worse than linear"}[g] }

// growthOf compares a call at n with one at 2n. Constant leaves room for one more level of an
// index, linear for a factor log n, and for one more level under each row of a batch.
func growthOf(before, after cost) growth {
	switch {
	case after.rows <= 1.05*before.rows+64 && after.buffers <= 1.4*before.buffers+64:
		return constant
	case after.rows <= 2.2*before.rows+64 && after.buffers <= 2.2*before.buffers+1024:
		return linear
	}
	return worse
}

// pair is a case and a dimension.
type pair struct{ call, dimension string }

// methodOf returns the method of a case's name.
func methodOf(call string) string {
	method, _, _ := strings.Cut(call, ",")
	return method
}

// figures are the costs of a case at n and then at 2n.
type figures struct {
	// once is n, with fresh statistics. kept is 2n with the plans and the statistics of n. fresh
	// (in the full run only) is 2n with fresh ones.
	once, kept, fresh observed
	// four is 4n, for the dimension "batch".
	four observed
}

// worstGrowth is the worst growth in the figures, and the two measurements that show it.
func (f *figures) worstGrowth() (g growth, from, to observed) {
	from, to = f.once, f.kept
	g = growthOf(from.cost, to.cost)
	if f.four.nodes != nil && growthOf(f.kept.cost, f.four.cost) > g {
		g, from, to = growthOf(f.kept.cost, f.four.cost), f.kept, f.four
	}
	if f.fresh.nodes != nil && growthOf(f.once.cost, f.fresh.cost) > g {
		g, from, to = growthOf(f.once.cost, f.fresh.cost), f.once, f.fresh
	}
	return g, from, to
}

type measurement struct {
	c       *costs
	cases   []costCase
	figures map[pair]*figures
}

// few is the number of rows of a call when another dimension grows.
const (
	few     = 10
	batched = "batch"
)

// batches are the numbers of rows of the dimension "batch".
var batches = [3]int{100, 200, 400}

// isFullRun reports whether the test uses the sizes of a large installation.
func isFullRun() bool { return os.Getenv("HANDOFF_COST") == "full" }

// isNightly reports whether the test uses its full sizes, or larger ones.
func isNightly() bool { return testenv.All() || isFullRun() }

// currentSize is the size of the dimension. In make test it is smaller than at night: a statement that reads
// each row of a dimension still reads hundreds more at 2n, and constant allows 64.
func (d *dimension) currentSize() int {
	switch {
	case isFullRun():
		return d.full
	case isNightly():
		return d.small
	}
	smaller := 5
	if slices.Contains(held, d.name) {
		smaller = 2 // they are spread over 400 workers, and a call counts the rows of ten
	}
	return min(d.small, max(d.small/smaller, 200))
}

// together are the dimensions that make test grows at the same time, because most of a measurement is the
// calls and not the rows. Dimensions of one list have similar entries in costGrowth: a call that may grow
// with one of them may grow with the list. Each of the others grows alone.
var together = [][]string{
	{"finished", "old keys"},
	{"backlog", "pinned", "limited", "limited, free", "unhandled", "keys"},
	{"scheduled", "running", "held slots"},
	{"limited actions", "runtimes", "actions"},
	{"names", "open dead letters", "transitions", "expiries"},
	{"incarnations", "free slots", "handled dead letters", "old expiries", "observations", "refused results"},
}

// group is a set of dimensions that grow at the same time.
type group []dimension

func (g group) dimensionNames() (all []string) {
	for _, d := range g {
		all = append(all, d.name)
	}
	return all
}

func (g group) String() string { return strings.Join(g.dimensionNames(), " + ") }

// dimensionGroups returns all dimensions: each alone for the page, otherwise those of together in one group.
func dimensionGroups() (all []group) {
	at := make(map[string]int)
	for _, d := range allDimensions() {
		list := slices.IndexFunc(together, func(names []string) bool { return slices.Contains(names, d.name) })
		if n, ok := at[fmt.Sprint(list)]; ok && list >= 0 && !isNightly() {
			all[n] = append(all[n], d)
			continue
		}
		at[fmt.Sprint(list)] = len(all)
		all = append(all, group{d})
	}
	return all
}

// warmPlans makes every call often enough for a session to keep its plans, on small tables. The very first
// statement changes no row, because the plan that is made when it first fires the audit trigger is not used.
func (m *measurement) warmPlans() {
	m.c.Helper()
	_, err := m.c.session.Exec(m.c.ctx, "update execution set status = status where id = 0")
	m.c.must(err)
	for range 6 {
		for i := range m.cases {
			m.measureCall(&m.cases[i], few)
		}
	}
	m.c.analyzeTables()
}

// measureCall makes one call about b rows.
func (m *measurement) measureCall(k *costCase, b int) observed {
	c := m.c
	c.Helper()
	before := c.tableEnds()
	call := k.prepare(c, b)
	c.observer.plans = nil
	if err := call(); err != nil {
		c.Fatalf("%s: %v", k.caseName(), err)
	}
	sum := c.observer.totalCost()
	if c.observer.wrong != nil || len(c.observer.plans) == 0 {
		c.Fatalf("%s: no plan was seen (%v): the observer has to reach the session that executes its statements", k.caseName(), c.observer.wrong)
	}
	c.deleteAfter(before)
	return sum
}

// measureGroup measures calls at n and at 2n of the dimensions of a group: all calls, or those whose indexes
// are in only.
func (m *measurement) measureGroup(g group, only map[int]bool) {
	c := m.c
	c.Helper()
	c.sizes, c.before = make(map[string]int), c.tableEnds()
	grow := func(from, to int) {
		for _, d := range g {
			c.sizes[d.name] = to * d.currentSize()
			d.fill(c, from*d.currentSize(), to*d.currentSize())
		}
	}
	all := func(into func(*figures) *observed) {
		for i := range m.cases {
			if only == nil || only[i] {
				*into(m.figuresOf(&m.cases[i], g.String())) = m.measureCall(&m.cases[i], few)
			}
		}
	}
	grow(0, 1)
	c.analyzeTables()
	all(func(f *figures) *observed { return &f.once })
	grow(1, 2)
	all(func(f *figures) *observed { return &f.kept })
	if isFullRun() {
		c.analyzeTables()
		all(func(f *figures) *observed { return &f.fresh })
	}
	c.undoChanges()
	c.sizes = nil
	c.analyzeTables()
}

// measureLists measures the calls that take a list with longer and longer lists: all calls, or those in only.
func (m *measurement) measureLists(only map[int]bool) {
	m.c.slotsOfCases(batches[2])
	m.c.analyzeTables()
	for i := range m.cases {
		if k := &m.cases[i]; k.lists && (only == nil || only[i]) {
			f := m.figuresOf(k, batched)
			f.once, f.kept, f.four = m.measureCall(k, batches[0]), m.measureCall(k, batches[1]), m.measureCall(k, batches[2])
		}
	}
	m.c.slotsOfCases(few)
	m.c.analyzeTables()
}

func (m *measurement) figuresOf(k *costCase, dimension string) *figures {
	p := pair{k.caseName(), dimension}
	if m.figures[p] == nil {
		m.figures[p] = &figures{}
	}
	return m.figures[p]
}

// judgeGrowth compares the measurement of a call in a group with its expectation, the largest of those of
// its dimensions.
func (m *measurement) judgeGrowth(k *costCase, dimensions ...string) error {
	p := pair{k.caseName(), strings.Join(dimensions, " + ")}
	f := m.figures[p]
	if f == nil {
		return nil
	}
	allowed := constant
	var declared, exception *grows
	for _, d := range dimensions {
		if d == batched {
			allowed = linear
		}
		one := pair{p.call, d}
		if e := findExpectation(costGrowth, one); e != nil && (declared == nil || e.growth > declared.growth) {
			declared = e
		}
		if e := findExpectation(costExceptions, one); e != nil {
			exception = e
		}
	}
	if declared != nil {
		allowed = declared.growth
	}
	found, from, to := f.worstGrowth()
	switch {
	case exception != nil && found <= allowed:
		return fmt.Errorf("%s no longer grows too much with %q (%v → %v rows/buffers, %v): delete the exception «%s» from costExceptions",
			p.call, p.dimension, from, to, found, exception.why)
	case exception != nil:
		return nil
	case found > allowed:
		return fmt.Errorf("%s grows with %q: %v, allowed is %v: %v → %v rows/buffers%s\n\tlet it look at fewer rows, or declare it in costGrowth with a reason",
			p.call, p.dimension, found, allowed, from, to, grownNodes(from, to))
	case declared != nil && found < allowed:
		return fmt.Errorf("%s is declared to grow with %q (%v), and does not (%v → %v rows/buffers): delete the entry from costGrowth",
			p.call, p.dimension, allowed, from, to)
	}
	return nil
}

// The cost of a call grows with the rows that it is about, and not with the rest of the database.
// It is counted in rows and pages that the server reads, at n and at 2n of everything that can
// grow, on a session that has kept its plans.
//
// The counts come from auto_explain, because only that sees everything: the statements inside
// triggers and functions, and for each node of a plan the rows that it handed on and threw away,
// times its loops. pg_stat_statements and pg_stat_xact_user_tables count pages and rows of tables;
// a nested loop over two lists in memory, such as a trigger's transition tables, touches neither.
func TestCosts(t *testing.T) {
	t.Parallel() // it compares rows, not times
	start := time.Now()
	m := measurement{c: newCosts(t), cases: costCases(), figures: make(map[pair]*figures)}
	m.warmPlans()
	m.measureLists(nil)
	t.Logf("lists: after %v", time.Since(start).Round(time.Second))
	all := dimensionGroups()
	for _, g := range all {
		if only := os.Getenv("COSTS"); only == "" || slices.ContainsFunc(g.dimensionNames(), func(name string) bool { return strings.Contains("/"+only+"/", "/"+name+"/") }) {
			m.measureGroup(g, nil)
			t.Logf("%v: n is %d, after %v", g, g[0].currentSize(), time.Since(start).Round(time.Second))
		}
	}
	sound := true
	for _, g := range append(all, group{{name: batched}}) {
		if errs := m.wrongGrowths(g); len(errs) > 0 {
			sound = false
			t.Error(errors.Join(errs...))
		}
	}
	if sound && isNightly() && os.Getenv("COSTS") == "" {
		t.Log(m.markdownTable(allDimensions()))
	}
}

// costAttempts is the number of measurements of a growth that seems wrong.
const costAttempts = 3

// wrongGrowths returns the wrong growths with a group. If a growth seems wrong, it is measured again, and
// must be wrong each time. The pages of a call's rows, and its plan, depend on other work of the server, so
// occasionally a call reads half as many pages more.
func (m *measurement) wrongGrowths(g group) (errs []error) {
	var wrong map[int]bool // the cases that were wrong in every attempt, nil before the first
	for attempt := 1; ; attempt++ {
		errs = nil
		still := make(map[int]bool)
		for i := range m.cases {
			if wrong != nil && !wrong[i] {
				continue
			}
			if err := m.judgeGrowth(&m.cases[i], g.dimensionNames()...); err != nil {
				still[i] = true
				errs = append(errs, err)
			}
		}
		if wrong = still; len(errs) == 0 || attempt == costAttempts {
			return errs
		}
		m.c.Logf("repeating the measurement of %q: %v", g, errors.Join(errs...))
		if g[0].name == batched {
			m.measureLists(wrong)
		} else {
			m.measureGroup(g, wrong)
		}
	}
}

// Every method of the store has a cost, and no cost is declared for a method that does not exist.
func TestEveryMethodHasCost(t *testing.T) {
	measured, calls, names := make(map[string]bool), make(map[string]bool), map[string]bool{batched: true}
	cases := costCases()
	for i := range cases {
		k := &cases[i]
		measured[k.method] = true
		if calls[k.caseName()] {
			t.Errorf("two cases are called %q", k.caseName())
		}
		calls[k.caseName()] = true
	}
	for _, of := range []reflect.Type{reflect.TypeFor[store.Store](), reflect.TypeFor[store.Audit]()} {
		for i := range of.NumMethod() {
			if name := of.Method(i).Name; !measured[name] {
				t.Errorf("the method %s of %v has no cost: add a case to costs_cases_test.go", name, of)
			}
		}
	}
	for _, d := range allDimensions() {
		names[d.name] = true
	}
	for _, list := range together {
		for _, name := range list {
			if !names[name] {
				t.Errorf("together: there is no dimension %q", name)
			}
		}
	}
	var wrong error
	for _, g := range append(append([]grows(nil), costGrowth...), costExceptions...) {
		if !calls[g.call] && !measured[g.call] {
			wrong = errors.Join(wrong, fmt.Errorf("there is no case %q", g.call))
		}
		for _, d := range g.dimensions {
			if !names[d] {
				wrong = errors.Join(wrong, fmt.Errorf("%s: there is no dimension %q", g.call, d))
			}
		}
	}
	if wrong != nil {
		t.Error(wrong)
	}
}

// A call that grows without an entry is an error, and so is an entry for a call that does not grow.
func TestCostsDetectUndeclaredGrowth(t *testing.T) {
	at := func(rows float64) observed {
		return observed{cost: cost{rows: rows, buffers: rows}, nodes: map[string]float64{"a scan": rows}}
	}
	for _, c := range []struct {
		call, dimension string
		once, kept      float64
		wrong           string
	}{
		{"Clock", "finished", 1, 1, ""},
		{"Clock", "finished", 1000, 2000, "allowed is constant"},
		{"Executions", batched, 1000, 2000, ""},
		{"Executions", batched, 1000, 4000, "allowed is linear"},
		{"Workers", "held slots", 1000, 2000, ""},
		{"Workers", "held slots", 1000, 4000, "allowed is linear"},
		{"Workers", "held slots", 1000, 1000, "delete the entry from costGrowth"},
	} {
		k := costCase{method: c.call}
		m := measurement{figures: map[pair]*figures{{c.call, c.dimension}: {once: at(c.once), kept: at(c.kept)}}}
		if err := m.judgeGrowth(&k, c.dimension); (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s × %s, %v → %v: %v, want %q", c.call, c.dimension, c.once, c.kept, err, c.wrong)
		}
	}
	// A known defect is ignored until it is fixed.
	defer func(all []grows) { costExceptions = all }(costExceptions)
	costExceptions = append(costExceptions, grows{"Clock", linear, "it counts to n", []string{"names"}})
	k := costCase{method: "Clock"}
	for kept, wrong := range map[float64]string{2000: "", 1000: "delete the exception"} {
		m := measurement{figures: map[pair]*figures{{"Clock", "names"}: {once: at(1000), kept: at(kept)}}}
		if err := m.judgeGrowth(&k, "names"); (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("a known defect, 1000 → %v: %v, want %q", kept, err, wrong)
		}
	}
}
