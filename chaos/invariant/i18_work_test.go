package invariant

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/config"
	"handoff/core/execution"
)

// waitingExecution returns the events of a fit worker, and of an execution that waits for room on it.
func waitingExecution() []history.Event {
	return []history.Event{registered(1, 1, "shell"), beat(0, 1), worker(0, execution.Active), created(second)}
}

// fruitlessClaim returns one fruitless claim.
func fruitlessClaim(at time.Duration) []history.Event {
	return []history.Event{
		move(at, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0),
		move(at, execution.Scheduling, execution.Requested, execution.Scheduler, 0, 0),
	}
}

// addFruitlessClaims appends n fruitless claims. If fit is set, heartbeats keep the worker fit meanwhile.
func addFruitlessClaims(events []history.Event, n int, every time.Duration, fit bool) []history.Event {
	for i := range n {
		at := 20*second + time.Duration(i)*every
		if fit {
			events = append(events, beat(at, 1))
		}
		events = append(events, fruitlessClaim(at)...)
	}
	return events
}

// breaksEffortRule reports whether a history breaks invariant 18.
func breaksEffortRule(events []history.Event, w Work) bool {
	s := New(config.Default(config.Hardened), []int{18})
	s.SetWork(w)
	for i := range events {
		events[i].Step = uint64(i)
		s.Observe(&events[i])
	}
	return slices.ContainsFunc(s.End(true), func(f Finding) bool { return f.Invariant.Number == 18 })
}

func TestFruitlessClaimsHaveBudget(t *testing.T) {
	interval := config.Default(config.Hardened).Executor.ReconcileInterval
	nobody := []history.Event{created(second)}
	for _, c := range []struct {
		name   string
		events []history.Event
		broken bool
	}{
		{"nobody fits, once a pause", addFruitlessClaims(nobody, 50, interval, false), false},
		{"nobody fits, ten times a pause", addFruitlessClaims(nobody, 50, interval/10, false), true},
		{"a worker is only full, once a pause", addFruitlessClaims(waitingExecution(), 50, interval, true), true},
		{"a worker is only full, one lost race", addFruitlessClaims(waitingExecution(), 1, interval, true), false},
	} {
		if got := breaksEffortRule(slices.Clone(c.events), nil); got != c.broken {
			t.Errorf("%s: broken %v, want %v", c.name, got, c.broken)
		}
	}
}

func TestLostRaceExcusesFruitlessClaim(t *testing.T) {
	// In the story, the worker is new, and execution 1 is claimed and released every tenth of a second.
	// Shortly before each claim, process has dispatched others other executions.
	story := func(process string, others int, ago time.Duration) []history.Event {
		events := append([]history.Event{{At: 0, Kind: history.ProcessStarted, Process: "executor-2"}}, waitingExecution()...)
		id := execution.ID(1)
		for i := range 10 {
			at := 2*second + time.Duration(i)*second/10
			for range others {
				id++
				of := []history.Event{
					created(at - ago),
					move(at-ago, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0),
					move(at-ago, execution.Scheduling, execution.Scheduled, execution.Scheduler, 0, 1),
				}
				for j := range of {
					of[j].Execution, of[j].Chain, of[j].Process = id, id, process
				}
				events = append(events, of...)
			}
			events = append(events, fruitlessClaim(at)...)
		}
		return events
	}
	pinned := story("executor-2", 1, second/100)
	for i := range pinned {
		if e := &pinned[i]; e.Kind == history.Created && e.Execution == 1 {
			e.Worker = 2
		}
	}
	double := slices.Clone(story("executor-2", 1, second/100))
	for i := len(double) - 1; i >= 0; i-- {
		if e := &double[i]; e.Execution == 1 && e.Kind == history.Transition && e.To == execution.Requested {
			double = slices.Insert(double, i+1, fruitlessClaim(e.At)...)
		}
	}
	for _, c := range []struct {
		name   string
		events []history.Event
		broken bool
	}{
		{"another executor was faster", story("executor-2", 1, second/100), false},
		{"no executor has dispatched anything", story("executor-2", 0, 0), true},
		{"its own executor has dispatched", story("executor-1", 1, second/100), true},
		{"another executor dispatched long before", story("executor-2", 1, second), true},
		{"another executor has dispatched to a worker that does not fit", pinned, true},
		{"two claims for each dispatch", double, true},
	} {
		if got := breaksEffortRule(c.events, nil); got != c.broken {
			t.Errorf("%s: broken %v, want %v", c.name, got, c.broken)
		}
	}
}

func TestLateConfirmAllowsRepublishing(t *testing.T) {
	confirm := config.Default(config.Hardened).Executor.ConfirmTimeout
	for again, broken := range map[time.Duration]bool{second: true, confirm + second: false} {
		events := append(waitingExecution(),
			move(2*second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0),
			move(2*second, execution.Scheduling, execution.Scheduled, execution.Scheduler, 0, 1),
			message(2*second, history.Published, "", 1), message(2*second+again, history.Published, "", 1))
		if got := breaksEffortRule(events, nil); got != broken {
			t.Errorf("republished after %v: broken %v, want %v", again, got, broken)
		}
	}
}

func TestReclaimsWaitForBackoff(t *testing.T) {
	story := func(every time.Duration) []history.Event {
		events := waitingExecution()
		for i := range 20 {
			at, epoch := 20*second+time.Duration(i)*every, execution.Epoch(2*i)
			events = append(events, move(at, execution.Requested, execution.Scheduling, execution.Scheduler, epoch, epoch),
				move(at, execution.Scheduling, execution.Scheduled, execution.Scheduler, epoch, epoch+1),
				move(at, execution.Scheduled, execution.Requested, execution.Scheduler, epoch+1, epoch+2))
		}
		return events
	}
	if !breaksEffortRule(story(time.Second), nil) || breaksEffortRule(story(40*time.Second), nil) {
		t.Error("want twenty reclaims in twenty seconds to break the budget, and one every 40 s not to")
	}
}

// statementWorld is a world whose executor makes perMinute statements a minute.
type statementWorld struct{ perMinute, total uint64 }

func (m *statementWorld) Statements(visit func(string, bool, uint64)) {
	m.total += m.perMinute
	visit("executor-1", false, m.total)
}

func TestStatementsAtRestHaveBudget(t *testing.T) {
	for perMinute, broken := range map[uint64]bool{150: false, 1500: true} {
		var events []history.Event
		for i := range 10 {
			events = append(events, history.Event{At: time.Duration(i+1) * time.Minute, Kind: history.HeartbeatRenewed, Incarnation: 1})
		}
		if got := breaksEffortRule(events, &statementWorld{perMinute: perMinute}); got != broken {
			t.Errorf("%d statements a minute: broken %v, want %v", perMinute, got, broken)
		}
	}
}

func TestSpinningProcessBreaksBudget(t *testing.T) {
	s := New(config.Default(config.Hardened), nil)
	if !s.Spins("executor-1 (task scheduler)", 300_000, 200_000) || len(s.Findings()) != 1 || s.Findings()[0].Invariant.Number != 18 {
		t.Errorf("found %v", s.Findings())
	}
	if New(config.Default(config.Hardened), []int{1}).Spins("x", 2, 1) {
		t.Error("a rule that is not in the suite has judged")
	}
}

func TestPassContinuesBeyondLeftRows(t *testing.T) {
	c := config.Default(config.Hardened)
	c.Executor.BatchSize = 1
	fault := history.Event{At: 30 * second, Kind: history.FaultBegan, Count: 1, Text: "database read only"}
	step := history.Event{At: 30 * second, Kind: history.ClockStepped, Process: "database", Due: 10 * time.Minute}
	story := func(last execution.Status, more history.Event) []history.Event {
		events := []history.Event{registered(1, 50, "shell"), beat(0, 1), worker(0, execution.Active)}
		for n := range 50 {
			of := []history.Event{
				created(second),
				move(2*second, execution.Requested, execution.Scheduling, execution.Scheduler, 0, 0),
				move(2*second, execution.Scheduling, execution.Scheduled, execution.Scheduler, 0, 1),
				move(3*second, execution.Scheduled, execution.Running, execution.Worker, 1, 1),
			}
			if last == execution.Completed {
				of = append(of, move(4*second, execution.Running, last, execution.Worker, 1, 1))
			}
			for i := range of {
				of[i].Execution, of[i].Chain = execution.ID(n+1), execution.ID(n+1)
			}
			events = append(events, of...)
		}
		events = append(events, more)
		for i := range 20 {
			events = append(events, beat(time.Duration(i+4)*10*second, 1))
		}
		return events
	}
	for _, test := range []struct {
		name      string
		events    []history.Event
		perMinute uint64
		broken    bool
	}{
		{"ends that can't be written, tried at each pass", story(execution.Completed, fault), 3000, false},
		{"ends that can't be written, tried without end", story(execution.Completed, fault), 20_000, true},
		{"ends that can be written", story(execution.Completed, step), 3000, true},
		{"runs that only the database's clock made late", story(execution.Running, step), 1200, false},
		{"runs that no clock made late", story(execution.Running, beat(30*second, 1)), 1200, true},
	} {
		s := New(c, []int{18})
		s.SetWork(&statementWorld{perMinute: test.perMinute})
		for i := range test.events {
			s.Observe(&test.events[i])
		}
		if got := len(s.Findings()) > 0; got != test.broken {
			t.Errorf("%s: broken %v, want %v: %v", test.name, got, test.broken, s.Findings())
		}
	}
}
