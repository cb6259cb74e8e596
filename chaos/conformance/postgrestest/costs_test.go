package postgrestest_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"handoff/core/store"
)

var updateCosts = flag.Bool("update", false, "write docs/costs.md")

// growth says how the cost of a call grows with a dimension.
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

// methodOf is the method of a case's name.
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

// growth is the worst growth in the figures, and the two measurements that show it.
func (f *figures) growth() (g growth, from, to observed) {
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

// few is the number of rows of a call when another dimension grows. batches are the numbers of the
// dimension "batch".
const (
	few     = 10
	batched = "batch"
)

var batches = [3]int{100, 200, 400}

// full says that the test should use the sizes of a large installation.
func full() bool { return os.Getenv("HANDOFF_COST") == "full" }

func (d *dimension) n() int {
	if full() {
		return d.full
	}
	return d.small
}

// warm makes every call often enough for a session to keep its plans, on small tables. The very
// first statement changes no row: the plan that is made at its firing of the audit trigger is not
// used.
func (m *measurement) warm() {
	m.c.Helper()
	_, err := m.c.session.Exec(m.c.ctx, "update execution set status = status where id = 0")
	m.c.must(err)
	for range 6 {
		for i := range m.cases {
			m.measure(&m.cases[i], few)
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
		c.Fatalf("%s: no plan was seen (%v): the observer has to reach the session that executes its statements", k.name(), c.observer.wrong)
	}
	c.forget(before)
	return sum
}

// dimension measures all calls at n and at 2n of one dimension.
func (m *measurement) dimension(d dimension) {
	c, n := m.c, d.n()
	c.Helper()
	c.dimension, c.before = d.name, c.mark()
	grow := func(from, to int) {
		c.size = to
		d.fill(c, from, to)
	}
	all := func(into func(*figures) *observed) {
		for i := range m.cases {
			*into(m.of(&m.cases[i], d.name)) = m.measure(&m.cases[i], few)
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

// lists measures what takes a list with longer and longer ones.
func (m *measurement) lists() {
	m.c.slotsOfCases(batches[2])
	m.c.analyze()
	for i := range m.cases {
		if k := &m.cases[i]; k.lists {
			f := m.of(k, batched)
			f.once, f.kept, f.four = m.measure(k, batches[0]), m.measure(k, batches[1]), m.measure(k, batches[2])
		}
	}
	m.c.slotsOfCases(few)
	m.c.analyze()
}

func (m *measurement) of(k *costCase, dimension string) *figures {
	p := pair{k.name(), dimension}
	if m.figures[p] == nil {
		m.figures[p] = &figures{}
	}
	return m.figures[p]
}

// judge compares the measurement of a pair with its expectation.
func (m *measurement) judge(k *costCase, dimension string) error {
	p := pair{k.name(), dimension}
	f := m.figures[p]
	if f == nil {
		return nil
	}
	allowed := constant
	if dimension == batched {
		allowed = linear
	}
	declared := expectation(costGrowth, p)
	if declared != nil {
		allowed = declared.growth
	}
	found, from, to := f.growth()
	exception := expectation(costExceptions, p)
	switch {
	case exception != nil && found <= allowed:
		return fmt.Errorf("%s no longer grows too much with %q (%v → %v rows/buffers, %v): delete the exception «%s» from costExceptions",
			p.call, dimension, from, to, found, exception.why)
	case exception != nil:
		return nil
	case found > allowed:
		return fmt.Errorf("%s grows with %q: %v, allowed is %v: %v → %v rows/buffers%s\n\tlet it look at fewer rows, or declare it in costGrowth with a reason",
			p.call, dimension, found, allowed, from, to, grown(from, to))
	case declared != nil && found < allowed:
		return fmt.Errorf("%s is declared to grow with %q (%v), and does not (%v → %v rows/buffers): delete the entry from costGrowth",
			p.call, dimension, allowed, from, to)
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
	if testing.Short() {
		t.Skip("fills a database")
	}
	start := time.Now()
	m := measurement{c: newCosts(t), cases: costCases(), figures: make(map[pair]*figures)}
	m.warm()
	m.lists()
	all := dimensions()
	for _, d := range all {
		if only := os.Getenv("COSTS"); only == "" || strings.Contains("/"+only+"/", "/"+d.name+"/") {
			m.dimension(d)
			t.Logf("%s: %d and %d, after %v", d.name, d.n(), 2*d.n(), time.Since(start).Round(time.Second))
		}
	}
	sound := true
	for _, d := range append(all, dimension{name: batched}) {
		if errs := m.judged(d); len(errs) > 0 {
			sound = false
			t.Error(errors.Join(errs...))
		}
	}
	if sound && os.Getenv("COSTS") == "" {
		m.document(t, all)
	}
}

// costAttempts is how often a growth that seems wrong is measured.
const costAttempts = 3

// judged reports wrong growth with a dimension. If a growth seems wrong, it is measured again, and
// must be wrong each time. The pages of a call's rows, and its plan, depend on other work of the
// server, so now and then a call reads half as many pages again.
func (m *measurement) judged(d dimension) (errs []error) {
	wrong := make(map[int]int)
	for attempt := 1; ; attempt++ {
		errs = nil
		for i := range m.cases {
			if err := m.judge(&m.cases[i], d.name); err != nil && wrong[i] == attempt-1 {
				wrong[i]++
				errs = append(errs, err)
			}
		}
		if len(errs) == 0 || attempt == costAttempts {
			return errs
		}
		m.c.Logf("measuring %q again: %v", d.name, errors.Join(errs...))
		if d.name == batched {
			m.lists()
		} else {
			m.dimension(d)
		}
	}
}

// Every method of the store has a cost, and no cost is declared for a method that does not exist.
func TestEveryMethodHasACost(t *testing.T) {
	measured, calls, names := make(map[string]bool), make(map[string]bool), map[string]bool{batched: true}
	cases := costCases()
	for i := range cases {
		k := &cases[i]
		measured[k.method] = true
		if calls[k.name()] {
			t.Errorf("two cases are called %q", k.name())
		}
		calls[k.name()] = true
	}
	for _, of := range []reflect.Type{reflect.TypeFor[store.Store](), reflect.TypeFor[store.Audit]()} {
		for i := range of.NumMethod() {
			if name := of.Method(i).Name; !measured[name] {
				t.Errorf("the method %s of %v has no cost: add a case to costs_cases_test.go", name, of)
			}
		}
	}
	for _, d := range dimensions() {
		names[d.name] = true
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
func TestCostsAreJudged(t *testing.T) {
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
		{"Workers", "names", 1000, 2000, ""},
		{"Workers", "names", 1000, 4000, "allowed is linear"},
		{"Workers", "names", 1000, 1000, "delete the entry from costGrowth"},
	} {
		k := costCase{method: c.call}
		m := measurement{figures: map[pair]*figures{{c.call, c.dimension}: {once: at(c.once), kept: at(c.kept)}}}
		if err := m.judge(&k, c.dimension); (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s × %s, %v → %v: %v, want %q", c.call, c.dimension, c.once, c.kept, err, c.wrong)
		}
	}
	// A known defect is passed over until it is mended.
	defer func(all []grows) { costExceptions = all }(costExceptions)
	costExceptions = append(costExceptions, grows{"Clock", linear, "it counts to n", []string{"names"}})
	k := costCase{method: "Clock"}
	for kept, wrong := range map[float64]string{2000: "", 1000: "delete the exception"} {
		m := measurement{figures: map[pair]*figures{{"Clock", "names"}: {once: at(1000), kept: at(kept)}}}
		if err := m.judge(&k, "names"); (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("a known defect, 1000 → %v: %v, want %q", kept, err, wrong)
		}
	}
}
