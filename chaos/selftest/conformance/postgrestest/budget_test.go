package postgrestest_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"handoff/chaos/servers"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/store/postgres"
)

// The database's cost of an execution, from its creation to the handling of its end, in calls of
// one row and of a hundred. These figures do not depend on other work of the machine, so the test
// fails if one has grown by more than three percent:
//
//	go test ./chaos/selftest/conformance/postgrestest -run 'TestBudget$' -update-budget
//
// updates them, and the change is then part of the commit that caused it.

var updateBudget = flag.Bool("update-budget", false, "write testdata/budget.txt")

// mayGrow is the factor by which a figure may grow.
const mayGrow = 1.03

// spent is the cost of one step of one execution.
type spent struct {
	statements, trips, allocations, wal float64
}

// counter counts the statements and round trips of a store.
type counter struct {
	statements, trips atomic.Int64
}

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.statements.Add(1)
	c.trips.Add(1)
	return ctx
}

func (*counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (c *counter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.trips.Add(1)
	return ctx
}

func (c *counter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {
	c.statements.Add(1)
}

func (*counter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// lifecycle runs executions through their lives, step by step.
type lifecycle struct {
	*testing.T
	ctx     context.Context
	store   *postgres.Store
	conn    *pgx.Conn
	counter *counter
	worker  store.WorkerKey
	keys    []execution.Key
	// twoSteps claims and then dispatches.
	twoSteps bool
}

// allSteps is the row for a whole life.
const allSteps = "all"

// lifecycleSteps are the steps of an execution, in order.
func (l *lifecycle) lifecycleSteps(n int) []struct {
	name string
	call func() error
} {
	return []struct {
		name string
		call func() error
	}{
		{"Create", func() error {
			items := make([]store.NewExecution, n)
			for i := range items {
				items[i] = store.NewExecution{ActionRef: "noop", Parameters: []byte(`{"n":1}`)}
			}
			_, err := l.store.Create(l.ctx, items)
			return err
		}},
		{"Workers", func() error {
			_, err := l.store.Workers(l.ctx, nil)
			return err
		}},
		{"DispatchDue", func() error {
			if l.twoSteps {
				return nil
			}
			o := store.Offer{Runtimes: []string{"noop"}, Spread: make([]store.Place, n)}
			for i := range o.Spread {
				o.Spread[i] = store.Place{Worker: l.worker, Limit: 1 << 30}
			}
			o.Packed = o.Spread
			answer, err := l.store.DispatchDue(l.ctx, store.DueDispatch{Executor: "e", Expiry: time.Hour, Timeout: time.Hour, Offers: []store.Offer{o}})
			l.keys = l.keys[:0]
			for i := range answer.Rows {
				l.keys = append(l.keys, answer.Rows[i].Key())
			}
			return err
		}},
		{"ClaimForScheduling", func() error {
			if !l.twoSteps {
				return nil
			}
			rows, err := l.store.ClaimForScheduling(l.ctx, store.SchedulingClaim{
				Executor: "e", Expiry: time.Hour, Demands: []store.Demand{{Runtime: "noop", Limit: n}},
			})
			l.keys = l.keys[:0]
			for i := range rows {
				l.keys = append(l.keys, rows[i].Key())
			}
			return err
		}},
		{"Dispatch", func() error {
			if !l.twoSteps {
				return nil
			}
			ds := make([]store.Dispatch, len(l.keys))
			for i := range ds {
				ds[i] = store.Dispatch{Key: l.keys[i], Worker: l.worker, Timeout: time.Hour}
			}
			results, err := l.store.Dispatch(l.ctx, "e", ds)
			for i := range results {
				l.keys[i] = results[i].Row.Key()
			}
			return err
		}},
		{"Claim", func() error {
			cs := make([]store.Claim, len(l.keys))
			for i := range cs {
				cs[i] = store.Claim{Key: l.keys[i], Beat: 1}
			}
			_, err := l.store.Claim(l.ctx, l.worker, cs)
			return err
		}},
		// It runs a while after the confirm, and finds that almost all rows were claimed.
		{"MarkPublished", func() error { return errorOf(l.store.MarkPublished(l.ctx, l.keys)) }},
		{"Finish", func() error {
			fs := make([]store.Finish, len(l.keys))
			for i := range fs {
				fs[i] = store.Finish{Key: l.keys[i], To: execution.Completed, Result: execution.Result{Output: []byte(`{"ok":true}`)}}
			}
			outcomes, err := l.store.Finish(l.ctx, l.worker, fs)
			for i := range outcomes {
				if outcomes[i].Row.OrchestratedAt.IsZero() {
					l.Fatalf("the end of execution %d was not handled with its result", fs[i].Key.ID)
				}
			}
			return err
		}},
	}
}

func (l *lifecycle) logPosition() (at int64) {
	l.Helper()
	if err := l.conn.QueryRow(l.ctx, "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").Scan(&at); err != nil {
		l.Fatal(err)
	}
	return at
}

// measureCosts runs n executions through all steps, `times` times, and returns the least cost of each step
// for one execution. Anything above that is other work of the server.
func (l *lifecycle) measureCosts(n, times int) map[string]spent {
	least := map[string]spent{}
	for range times {
		begun := l.logPosition()
		for _, step := range l.lifecycleSteps(n) {
			var before, after runtime.MemStats
			statements, trips := l.counter.statements.Load(), l.counter.trips.Load()
			runtime.ReadMemStats(&before)
			err := step.call()
			runtime.ReadMemStats(&after)
			if err != nil {
				l.Fatalf("%s: %v", step.name, err)
			}
			of := float64(n)
			now := spent{
				statements: float64(l.counter.statements.Load()-statements) / of, trips: float64(l.counter.trips.Load()-trips) / of,
				allocations: float64(after.Mallocs-before.Mallocs) / of,
			}
			if was, known := least[step.name]; known {
				now = spent{min(was.statements, now.statements), min(was.trips, now.trips), min(was.allocations, now.allocations), 0}
			}
			least[step.name] = now
		}
		// Which step finds a page full and prunes it is random. The total of all steps is not.
		all, wal := spent{}, float64(l.logPosition()-begun)/float64(n)
		for name, of := range least {
			if name != allSteps {
				all.statements, all.trips, all.allocations = all.statements+of.statements, all.trips+of.trips, all.allocations+of.allocations
			}
		}
		if was, known := least[allSteps]; known {
			wal = min(wal, was.wal)
		}
		all.wal = wal
		least[allSteps] = all
		var open int
		if err := l.conn.QueryRow(l.ctx, "select count(*) from execution where orchestrated_at is null").Scan(&open); err != nil || open > 0 {
			l.Fatalf("%d executions were not taken to their end: %v", open, err)
		}
	}
	return least
}

func TestBudget(t *testing.T) {
	ctx := t.Context()
	url := servers.Database(t).URL
	l := &lifecycle{T: t, ctx: ctx, counter: &counter{}}
	var err error
	if l.store, err = postgres.Open(ctx, url, postgres.Options{Migrate: true, MaxConns: 1, Tracer: l.counter}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.store.Close)
	if l.conn, err = pgx.Connect(ctx, url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.conn.Close(context.Background()) })
	// A page that is written whole after a checkpoint, or a vacuum in between, would make the figures random.
	for _, statement := range []string{
		"alter system set full_page_writes = off", "select pg_reload_conf()",
		"alter table execution_record set (autovacuum_enabled = off)", "alter table execution_work set (autovacuum_enabled = off)",
		"alter table transition_group set (autovacuum_enabled = off)",
	} {
		if _, err := l.conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, statement := range []string{"alter system reset full_page_writes", "select pg_reload_conf()"} {
			if _, err := l.conn.Exec(context.Background(), statement); err != nil {
				t.Error(err)
			}
		}
	})
	registered, err := l.store.Register(ctx, store.Registration{Process: 1, Attempt: 1, Name: "w", Runtimes: []string{"noop"}, Capacity: 1 << 30, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	l.worker = registered.WorkerKey
	if _, err := l.store.Heartbeat(ctx, store.Beat{WorkerKey: l.worker, Number: 1, Lease: time.Hour, ConsumerAlive: true}); err != nil {
		t.Fatal(err)
	}
	if err := l.store.SetLifecycle(ctx, l.worker, execution.Active); err != nil {
		t.Fatal(err)
	}
	if err := l.store.PutActions(ctx, []execution.Action{{Ref: "noop", Runtime: "noop"}}); err != nil {
		t.Fatal(err)
	}
	now := map[string]spent{}
	for _, n := range []int{1, 100} {
		for _, l.twoSteps = range []bool{false, true} {
			l.measureCosts(n, 7) // plans and pools
			for name, of := range l.measureCosts(n, 12) {
				switch {
				case of == spent{}:
					continue
				case name == allSteps && l.twoSteps:
					name += " in two steps"
				}
				now[fmt.Sprintf("%s, %d", name, n)] = of
			}
		}
	}
	judgeBudget(t, now)
}

// judgeBudget compares figures with the file.
func judgeBudget(t *testing.T, now map[string]spent) {
	t.Helper()
	path := filepath.Join("testdata", "budget.txt")
	if *updateBudget {
		if err := os.WriteFile(path, budgetText(now), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatalf("%v; -update-budget writes it", err)
	}
	defer file.Close()
	was, err := readBudget(file)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for _, fault := range budgetFaults(was, now) {
		t.Error(fault)
	}
}

// budgetFaults reports the figures that have grown too much, and the steps that are unknown or missing.
func budgetFaults(was, now map[string]spent) (faults []string) {
	for name, n := range now {
		w, known := was[name]
		if !known {
			faults = append(faults, name+" has no budget; -update-budget writes one")
			continue
		}
		for _, f := range []struct {
			what     string
			was, now float64
		}{
			{"statements", w.statements, n.statements},
			{"round trips", w.trips, n.trips},
			{"allocations", w.allocations, n.allocations},
			{"bytes of WAL", w.wal, n.wal},
		} {
			if f.now > f.was*mayGrow+0.005 {
				faults = append(faults, fmt.Sprintf("%s rows a call: %.2f %s an execution, and %.2f are allowed (%.2f before, and a thirtieth more)", name, f.now, f.what, f.was*mayGrow, f.was))
			}
		}
	}
	for name := range was {
		if _, is := now[name]; !is {
			faults = append(faults, name+" has a budget and is not measured")
		}
	}
	slices.Sort(faults)
	return faults
}

func budgetText(now map[string]spent) []byte {
	var text bytes.Buffer
	fmt.Fprintln(&text, "# What a step costs one execution, by step and rows a call. Written by TestBudget -update-budget.")
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "statements\tround trips\tallocations\tWAL bytes\t  step")
	var names []string
	for name := range now {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		n := now[name]
		fmt.Fprintf(out, "%.2f\t%.2f\t%.1f\t%.0f\t  %s\n", n.statements, n.trips, n.allocations, n.wal, name)
	}
	_ = out.Flush()
	return text.Bytes()
}

func readBudget(file *os.File) (map[string]spent, error) {
	var text bytes.Buffer
	if _, err := text.ReadFrom(file); err != nil {
		return nil, err
	}
	was := map[string]spent{}
	for i, line := range strings.Split(text.String(), "\n") {
		var of spent
		if _, err := fmt.Sscan(line, &of.statements, &of.trips, &of.allocations, &of.wal); err != nil {
			if i < 2 || strings.TrimSpace(line) == "" {
				continue
			}
			return nil, fmt.Errorf("line %d: %q: four figures and a step are expected", i+1, line)
		}
		was[strings.Join(strings.Fields(line)[4:], " ")] = of
	}
	return was, nil
}

// The test detects one statement too many, and a statement that writes more.
func TestBudgetDetectsExcess(t *testing.T) {
	was := map[string]spent{"Claim, 1": {1, 1, 100, 900}, "Finish, 1": {1, 1, 100, 900}}
	if faults := budgetFaults(was, map[string]spent{"Claim, 1": {1, 1, 102, 920}, "Finish, 1": {1, 1, 90, 800}}); len(faults) > 0 {
		t.Errorf("within the budget, but reported: %v", faults)
	}
	for _, now := range []map[string]spent{
		{"Claim, 1": {2, 2, 100, 900}, "Finish, 1": {1, 1, 100, 900}},
		{"Claim, 1": {1, 1, 104, 900}, "Finish, 1": {1, 1, 100, 900}},
		{"Claim, 1": {1, 1, 100, 930}, "Finish, 1": {1, 1, 100, 900}},
		{"Claim, 1": {1, 1, 100, 900}},
		{"Claim, 1": {1, 1, 100, 900}, "Finish, 1": {1, 1, 100, 900}, "Mark, 1": {}},
	} {
		if len(budgetFaults(was, now)) == 0 {
			t.Errorf("no report of %v", now)
		}
	}
}
