package postgrestest_test

import (
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"handoff/chaos/selftest/conformance/storetest"
	"handoff/core/testenv"
)

// PairsVariable lets pairs of writes meet at every lock that the first of them takes, and between
// its statements: all of them (HANDOFF_CONFORMANCE_PAIRS=all go test
// ./chaos/selftest/conformance/postgrestest -run TestPairs -timeout 2h), or those of some methods
// (HANDOFF_CONFORMANCE_PAIRS=Claim,Reclaim). Without it the test takes a sample of the pairs whose
// order matters, at the locks that both take. With HANDOFF_CONFORMANCE_PAIRS=alone none meet, and
// each call only waits by itself.
const PairsVariable = "HANDOFF_CONFORMANCE_PAIRS"

// sample: one meeting in this many is made, and the first of each method.
const sample = 25

// inTest are the situations that make test has: in each status, and so that every method meets another.
var inTest = []string{
	"a dead letter", "a worker that has stopped", "an outage of a worker's health endpoint", "scheduling, and the claim has expired", "scheduled at a worker whose lease is over",
	"running past the deadline", "completed, and its slot was left behind", "failed and handled, and a child waits",
}

// alone are the methods that can't meet another call, with the reasons.
var alone = map[string]string{
	"StoreDeadLetters":  "it inserts a row that nobody else can see yet",
	"KeepRefusedResult": "it inserts a row that nobody else can see yet",
}

// meetings selects the calls that meet, and counts the results.
type meetings struct {
	all bool
	// alone reports whether no meeting is made.
	alone bool
	// methods are the only methods, nil for all.
	methods []string
	// once reports whether the first difference is enough.
	once bool
	// differs is called with each result that no order of the two calls explains.
	differs func(t *testing.T, where, how string)

	mu         sync.Mutex
	situations int
	// pairs counts all pairs; apart those without a common lock; idle those of which neither does
	// anything; alike those that were to meet and whose order does not matter.
	pairs, apart, idle, alike int
	// made counts the interleavings. In gated of them the first call was held back between its statements,
	// otherwise at a lock, which it skipped in passed of them. In waited of them the second call waited, too.
	made, gated, passed, waited int
	met                         map[string]int
	deadlocks                   map[string]int
	differences                 int
	// moments counts the situations in which the moments that a method writes were tested.
	moments map[string]int
}

func newMeetings(all bool) *meetings {
	return &meetings{
		all: all, met: make(map[string]int), deadlocks: make(map[string]int), moments: make(map[string]int),
		differs: func(t *testing.T, where, how string) {
			t.Helper()
			t.Errorf("%s: no order of the two explains\n%s", where, how)
		},
	}
}

func (m *meetings) String() string {
	return fmt.Sprintf("%d pairs; of them %d lock nothing in common, %d do nothing, and of those that were to meet the order of %d does not matter.\n"+
		"%d interleavings: in %d the first call was held back between its statements, in the others at a lock, which it passed over in %d; "+
		"in %d the second call waited too. %d pairs with deadlocks, %d differences.\n%v",
		m.pairs, m.apart, m.idle, m.alike, m.made, m.gated, m.passed, m.waited, len(m.deadlocks), m.differences, m.met)
}

func (m *meetings) updateCounts(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// Any two calls that meet, at any lock, are answered and leave the database as if one had been made
// after the other, as in the model. If a call is about two rows, this holds for each of them, at
// its own moment.
func TestPairs(t *testing.T) {
	asked := os.Getenv(PairsVariable)
	m := newMeetings(asked != "")
	if m.all && asked != "all" {
		m.methods = strings.Split(asked, ",")
	}
	if m.alone = asked == "alone"; m.alone {
		m.methods = nil
	}
	t.Run("situations", func(t *testing.T) {
		for _, situation := range storetest.Situations() {
			if !m.all && !testenv.All() && !slices.Contains(inTest, situation.Name) {
				continue
			}
			t.Run(situation.Name, func(t *testing.T) {
				t.Parallel()
				s := newStage(t, situation, nil)
				attempts := s.findAttempts(m.methods)
				s.meetInPairs(m, attempts)
				s.inOrder(attempts)
				s.passBy(attempts)
				s.testMoments(m, attempts)
			})
		}
	})
	t.Log(m)
	for where, n := range m.deadlocks {
		t.Errorf("%d deadlocks: %s", n, where)
	}
	if m.alone {
		return
	}
	if m.situations < len(inTest) {
		t.Errorf("of the situations in inTest, %d exist: it has to name those of storetest", m.situations)
	}
	if m.waited < m.made/2 || m.methods == nil && m.made < 30*m.situations {
		t.Error("too few calls have met")
	}
	if m.methods != nil {
		return
	}
	for _, method := range storetest.Writing() {
		if reason, apart := alone[method]; apart && m.met[method] > 0 {
			t.Errorf("%s has met other calls, although %s", method, reason)
		} else if !apart && m.met[method] == 0 {
			t.Errorf("%s has met no other call: say in storetest/pairs_situations.go where it can, or why it can't", method)
		}
	}
}

// attempt is a write and its effect when it is alone.
type attempt struct {
	storetest.Write
	// model is the same write on the model.
	model      storetest.Write
	locks      []lock
	statements int
	effective  bool
}

func (a *attempt) String() string { return strings.TrimSpace(a.Method + " " + a.Name) }

func (s *stage) findAttempts(methods []string) (all []*attempt) {
	s.Helper()
	writes, models := s.Writes(), s.modelStage.Writes()
	if missing := storetest.Ungenerated(writes); len(missing) > 0 {
		s.Fatalf("no pair has %v: say in storetest/pairs_writes.go with which arguments it meets others, or list it in storetest/pairs.go with the readers", missing)
	}
	for i, w := range writes {
		if methods == nil || slices.Contains(methods, w.Method) {
			locks, statements := s.callFootprint(w)
			all = append(all, &attempt{w, models[i], locks, statements, s.modelStage.Effective(s.model, models[i])})
		}
	}
	return all
}

// meetInPairs makes the calls meet, two at a time, in either order.
func (s *stage) meetInPairs(m *meetings, attempts []*attempt) {
	m.updateCounts(func() { m.situations++ })
	if m.alone {
		return
	}
	for _, a := range attempts {
		for _, b := range attempts {
			common := slices.DeleteFunc(slices.Clone(a.locks), func(l lock) bool { return !slices.Contains(b.locks, l) })
			idle := !a.effective && !b.effective
			m.updateCounts(func() {
				m.pairs++
				switch {
				case len(common) == 0:
					m.apart++
				case idle:
					m.idle++
				}
			})
			if len(common) > 0 && !idle && !(m.once && m.differences > 0) {
				s.meetAtStops(m, a, b, common)
			}
		}
	}
}

// inOrder is for a call that locks several rows of a table. It holds the last of them, and checks
// that the call has locked the others when it waits: calls that lock several rows lock them in the
// order of their ids, so that no two wait for each other.
func (s *stage) inOrder(attempts []*attempt) {
	done := make(map[string]bool)
	for _, a := range attempts {
		if a.Passes {
			continue
		}
		for _, table := range []string{"execution_work", "execution_record", "observation", "worker_incarnation"} {
			var rows []lock
			for _, l := range a.locks {
				if strings.HasPrefix(string(l), table+" where") {
					rows = append(rows, l)
				}
			}
			if len(rows) < 2 || done[a.Method+table] {
				continue
			}
			done[a.Method+table] = true
			s.restoreState()
			s.one.gate.armAt(0)
			last := len(rows) - 1
			tx := s.holdLock(rows[last])
			u := s.beginCall(s.one, a.Write)
			if !s.awaitStop(u, false) {
				s.Errorf("%v did not wait for %v", a, rows[last])
			}
			for _, l := range rows[:last] {
				var free bool
				s.scanRow("select exists (select from "+string(l)+" for update skip locked)", nil, &free)
				if free {
					s.Errorf("%v waits for %v and has not locked %v: rows are locked in the order of their ids", a, rows[last], l)
				}
			}
			s.must(tx.Rollback(s.ctx))
			s.awaitEnd(u)
		}
	}
}

// passBy holds each row that a call would lock, and checks that a call which skips locked rows does not wait.
func (s *stage) passBy(attempts []*attempt) {
	for _, a := range attempts {
		if !a.Passes || !a.effective {
			continue
		}
		for _, l := range a.locks {
			if a.Method == "DispatchDue" && !strings.HasPrefix(string(l), "execution_") {
				continue // it waits for its turn at a worker, and locks the worker, as Dispatch does
			}
			s.restoreState()
			s.one.gate.armAt(0)
			tx := s.holdLock(l)
			u := s.beginCall(s.one, a.Write)
			if s.awaitStop(u, false) {
				s.Errorf("%v waits for %v: it has to pass by what others have locked", a, l)
			}
			s.must(tx.Rollback(s.ctx))
			s.awaitEnd(u)
		}
	}
}

// stop is the place where a call is held back: at a lock, or before one of its statements, counted from 1.
type stop struct {
	lock      lock
	statement int
}

func (s stop) String() string {
	if s.lock != "" {
		return string(s.lock)
	}
	return fmt.Sprint("its statement ", s.statement)
}

// meetAtStops makes two calls meet at each stop that should be tried.
func (s *stage) meetAtStops(m *meetings, a, b *attempt, common []lock) {
	if m.all {
		common = a.locks
	}
	var stops []stop
	for _, l := range common {
		stops = append(stops, stop{lock: l})
	}
	// Before its second statement a transaction has neither seen nor locked anything.
	for n := 3; n <= a.statements; n++ {
		stops = append(stops, stop{statement: n})
	}
	// The second place finds a call that judges rows it has not locked: the other call has changed
	// them by then.
	behind := func(at stop) bool { return at.lock != "" && b.effective }
	wanted := func(at stop) bool {
		h := fnv.New32a()
		fmt.Fprint(h, s.Name(), a, b, at)
		return m.all || m.methods != nil || h.Sum32()%sample == 0 || !s.met[a.Method] || behind(at) && !s.met["behind "+b.Method]
	}
	if !slices.ContainsFunc(stops, wanted) {
		return
	}
	// The model takes longer than most meetings.
	orders := s.modelStage.Orders(s.model, a.model, b.model)
	if !m.all && !orders.Matter() {
		m.updateCounts(func() { m.alike++ })
		return
	}
	for _, at := range stops {
		if wanted(at) {
			s.met[a.Method] = true
			if behind(at) {
				s.met["behind "+b.Method] = true
			}
			s.interleaveCalls(m, a, b, orders, at)
		}
	}
}

// interleaveCalls holds the first call back at a lock, or before one of its statements, lets the second
// advance as far as it can, and then lets both continue.
func (s *stage) interleaveCalls(m *meetings, a, b *attempt, orders storetest.Orders, at stop) {
	where := fmt.Sprintf("%v, held back at %v, and %v", a, at, b)
	s.restoreState()
	s.one.gate.armAt(at.statement)
	s.two.gate.armAt(0)
	release := func() { close(s.one.gate.opened) }
	if at.lock != "" {
		tx := s.holdLock(at.lock)
		release = func() { s.must(tx.Rollback(s.ctx)) }
	}
	first := s.beginCall(s.one, a.Write)
	stopped := s.awaitStop(first, at.statement > 0)
	if !stopped && !a.Passes {
		s.Errorf("%s: the first call did not wait", where)
	}
	second := s.beginCall(s.two, b.Write)
	waited := s.awaitStop(second, false)
	release()
	s.awaitEnd(first)
	s.awaitEnd(second)
	_, deadlocks := s.one.gate.seenStatements()
	_, others := s.two.gate.seenStatements()
	shown := s.Shown(s.watch, first.answer, second.answer)
	different := orders.Explain(shown)
	if different != "" && slices.Contains(s.modelStage.Apart(s.model, a.model, b.model), shown) {
		different = ""
	}
	m.updateCounts(func() {
		m.made++
		m.met[a.Method]++
		if !stopped {
			m.passed++
		}
		if waited {
			m.waited++
		}
		if at.statement > 0 {
			m.gated++
		}
		if all := slices.Concat(deadlocks, others); len(all) > 0 {
			m.deadlocks[fmt.Sprint(s.Name(), ": ", where, "\n", all[0])] += len(all)
		}
		if different != "" {
			m.differences++
		}
	})
	if different != "" {
		m.differs(s.T, where, different)
	}
}

// A pair of calls detects a statement that judges rows which it has not locked: each of these mutants, made
// on the way to the server, is detected.
func TestPairsDetectMissingLocks(t *testing.T) {
	const locked = " order by w.id for no key update of w"
	for _, c := range []struct {
		// name is for readers. mark occurs in the text of this statement alone, and the parts, separated by
		// "|", are removed from it.
		name, mark, parts string
		situation         string
		methods           []string
	}{
		{"claim", "set status = 'running'", locked, "scheduled half of the dispatch timeout ago", []string{"Claim", "Cancel"}},
		{"finish", "set status = j.ask_to::", locked, "running past the deadline", []string{"Finish", "Cancel"}},
		{"park", "ask_unschedulable", locked, "scheduling, and the claim has expired", []string{"Park", "Cancel"}},
		{"reclaim", "insert into worker_expiry", locked, "scheduled half of the dispatch timeout ago", []string{"Reclaim", "Claim"}},
		{"dispatch", "set status = 'scheduled'", locked, "scheduling, and the claim has expired", []string{"Dispatch", "Park"}},
		{"end unheld", "clock_timestamp()) as now from execution_work w\n     where w.incarnation = $2 and w.status in", locked, "running past the deadline", []string{"Heartbeat", "Finish"}},
		{"orchestrate", "select chain, null, null, null, null, null from asked", " order by e.id for no key update of e", "failed, to be retried, with a child", []string{"Orchestrate", "Create"}},
		// Each of the two locks is enough here: a cancellation of a child holds its work and its record.
		{"settle children", "num_nulls(f.settling_at)", " order by c.id for no key update of c skip locked| order by r.id for no key update of r skip locked", "failed and handled, and a child waits", []string{"SettleChildren", "Cancel"}},
		{"newest", "order by x.retry_count desc limit 1\n), $1) for no key update", " for no key update of w", "a retry that is scheduled, and a child", []string{"Cancel", "Claim"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var found []string
			m := newMeetings(false)
			m.methods, m.once = c.methods, true
			m.differs = func(_ *testing.T, where, how string) { found = append(found, where+"\n"+how) }
			var mu sync.Mutex
			changed := map[string][]string{} // the parts that are not there once, by statement
			rewrite := func(sql string) string {
				if !strings.Contains(sql, c.mark) {
					return sql
				}
				mu.Lock()
				defer mu.Unlock()
				without := sql
				for part := range strings.SplitSeq(c.parts, "|") {
					if strings.Count(sql, part) != 1 {
						changed[sql] = append(changed[sql], part)
					}
					without = strings.Replace(without, part, "", 1)
				}
				if changed[sql] == nil {
					changed[sql] = []string{}
				}
				return without
			}
			for _, situation := range storetest.Situations() {
				if situation.Name == c.situation {
					s := newStage(t, situation, rewrite)
					s.meetInPairs(m, s.findAttempts(m.methods))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if len(changed) != 1 {
				t.Errorf("%q is in %d of the statements that were sent, want one", c.mark, len(changed))
			}
			for sql, parts := range changed {
				if len(parts) > 0 {
					t.Errorf("the statement does not have %q once each:\n%s", parts, sql)
				}
			}
			if len(found) == 0 {
				t.Fatalf("it went unnoticed in %v", m)
			}
			t.Logf("detected after %d interleavings: %s", m.made, found[0])
		})
	}
}
