package run

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
)

// manual is a clock that a test advances by calling pass.
type manual struct {
	now time.Duration
	due []call
}

type call struct {
	at time.Duration
	f  func()
}

func (m *manual) Now() time.Duration              { return m.now }
func (m *manual) After(d time.Duration, f func()) { m.due = append(m.due, call{m.now + max(0, d), f}) }

// pass moves the clock and makes the calls that are due.
func (m *manual) pass(d time.Duration) {
	until := m.now + d
	for {
		next := -1
		for i := range m.due {
			if m.due[i].at <= until && (next < 0 || m.due[i].at < m.due[next].at) {
				next = i
			}
		}
		if next < 0 {
			break
		}
		c := m.due[next]
		m.due = slices.Delete(m.due, next, next+1)
		m.now = c.at
		c.f()
	}
	m.now = until
}

// first draws the least value, and Chance is always false.
type first struct{ middle }

func (first) Uint64N(uint64) uint64 { return 0 }
func (first) Chance(uint64) bool    { return false }

// deafWorld is a world that can only deafen and sicken workers and cancel consumers.
type deafWorld struct {
	in    *injected
	err   error
	after func(x *fault.Injection) // called at the beginning of a fault; may be nil
}

func (d *deafWorld) Deafen(x *fault.Injection) (func(), error) {
	d.in.tell("deafened %s", strings.Join(x.Targets, ","))
	if d.after != nil {
		d.after(x)
	}
	if d.err != nil {
		return nil, d.err
	}
	return func() { d.in.tell("healed") }, nil
}

func (d *deafWorld) Sicken(x *fault.Injection) (func(), error) {
	d.in.tell("sickened %s", strings.Join(x.Targets, ","))
	return func() { d.in.tell("recovered") }, nil
}

func (d *deafWorld) Registered() []fault.Registration {
	return []fault.Registration{{ID: 1, Name: "shell-1"}}
}

func (d *deafWorld) CancelConsumers(x *fault.Injection, queue string) error {
	d.in.tell("cancelled %s", queue)
	x.Touch(fault.Touched{Queue: queue})
	return d.err
}

var _ interface {
	fault.Deafness
	fault.Sickness
	fault.ConsumerCancelling
} = (*deafWorld)(nil)

// injected is an injector of a scenario's faults, with the events and calls so far.
type injected struct {
	*Injector
	manual
	world deafWorld
	told  []string
}

func (i *injected) tell(format string, args ...any) {
	i.told = append(i.told, fmt.Sprint(i.now, " ", fmt.Sprintf(format, args...)))
}

func (i *injected) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(i.told, want) {
		t.Errorf("got  %q\nwant %q", i.told, want)
	}
	i.told = nil
}

// inject arms the faults of a scenario, in its YAML.
func inject(t *testing.T, faults ...string) *injected {
	t.Helper()
	return injectWithout(t, nil, faults...)
}

func injectWithout(t *testing.T, without []string, faults ...string) *injected {
	t.Helper()
	s, err := scenario.Parse("faults.yaml", fmt.Appendf(nil, `
name: faults
about: Faults of an injector without a world.
worlds: [sim]
cluster:
  executors: 1
  workers:
    shell-1: {runtimes: [shell], concurrency: 1}
    shell-2: {runtimes: [shell], concurrency: 1}
actions:
  core.echo: {runtime: shell, takes: 700ms}
workload:
  - {action: core.echo, count: 100, from: 1s, every: 10s}
faults:
  - %s
`, strings.Join(faults, "\n  - ")))
	if err != nil {
		t.Fatal(err)
	}
	in := new(injected)
	in.world.in = in
	in.Injector = NewInjector(InjectorOptions{
		Scenario: s, Config: s.Config(config.Hardened), World: &in.world, Clock: in, Without: without,
		Draws: func(string) Draws { return first{} },
		Emit: func(e history.Event) {
			in.tell("%v %s of %s%s", e.Kind, e.Text, e.Process, e.Queue)
			in.Observe(&e)
		},
		Workers: func(id execution.WorkerID) string { return fmt.Sprint("shell-", id) },
		Fail:    func(err error) { in.tell("failed: %v", err) },
	})
	in.Arm()
	return in
}

// beat makes the injector observe a heartbeat of a worker.
func (i *injected) beat(process string) {
	i.Observe(&history.Event{Kind: history.HeartbeatRenewed, Process: process})
}

func TestFaultBeginsAndEndsOnTime(t *testing.T) {
	in := inject(t, "{when: {at: 3s}, deaf: any worker, for: 10s}", "{when: {between: [20s, 30s]}, deaf: every worker, for: {uniform: [2s, 4s]}}")
	in.pass(15 * time.Second)
	in.expect(t, "3s fault_began deaf of shell-1", "3s deafened shell-1", "13s healed", "13s fault_ended deaf of shell-1")
	if !in.Busy() {
		t.Error("nothing is expected any more, and a fault has not begun")
	}
	in.pass(time.Hour)
	in.expect(t, "25s fault_began deaf of shell-1,shell-2", "25s deafened shell-1,shell-2", "28s healed", "28s fault_ended deaf of shell-1,shell-2")
	if in.Busy() {
		t.Error("faults are expected to end that have ended")
	}
	want := []verdict.FaultInterval{
		{Fault: "deaf any worker", Begin: 3 * time.Second, End: 13 * time.Second},
		{Fault: "deaf every worker", Begin: 25 * time.Second, End: 28 * time.Second},
	}
	if got := in.FaultIntervals(time.Hour); !slices.Equal(got, want) {
		t.Errorf("the faults lasted %v, want %v", got, want)
	}
}

func TestFaultBeginsAfterItsTrigger(t *testing.T) {
	in := inject(t, "{when: {after: heartbeat, of: shell-2, nth: 2, plus: 3s}, deaf: shell-1, for: 1s}")
	in.pass(time.Second)
	for range 3 {
		in.beat("shell-1")
	}
	in.beat("shell-2")
	in.Observe(&history.Event{Kind: history.WorkerRegistered, Process: "shell-2"})
	in.pass(10 * time.Second)
	if in.expect(t); in.Busy() {
		t.Error("a run waits for a trigger that may never come")
	}
	in.beat("shell-2")
	in.expect(t) // the fault must not begin within the step of its trigger
	if !in.Busy() {
		t.Error("its trigger has occurred, but the run does not wait for the fault")
	}
	in.beat("shell-2") // a second occurrence must not begin it again
	in.pass(time.Minute)
	in.expect(t, "14s fault_began deaf of shell-1", "14s deafened shell-1", "15s healed", "15s fault_ended deaf of shell-1")
}

// For the trigger `scheduled`, `of` refers to the worker that receives the execution, not to the executor
// that scheduled it.
func TestTriggerMatchesOnlyItsWorker(t *testing.T) {
	in := inject(t, "{when: {after: scheduled, of: shell-2}, deaf: shell-1, for: 1s}")
	in.Observe(&history.Event{Kind: history.Transition, To: execution.Scheduled, Process: "executor-1", Worker: 1})
	in.pass(time.Second)
	in.expect(t)
	in.Observe(&history.Event{Kind: history.Transition, To: execution.Scheduled, Process: "executor-1", Worker: 2})
	in.pass(0)
	in.expect(t, "1s fault_began deaf of shell-1", "1s deafened shell-1")
}

// The event of one fault may trigger another, and two faults that wait for the same event count it
// separately.
func TestTriggersCountEventsIndependently(t *testing.T) {
	in := inject(t, "{when: {after: heartbeat, nth: 1}, deaf: shell-1, for: 1s}", "{when: {after: heartbeat, nth: 2}, deaf: shell-2, for: 1s}",
		"{when: {after: heartbeat, nth: 1}, sick: shell-2, for: 1s}")
	in.beat("shell-1")
	in.pass(0)
	in.expect(t, "0s fault_began deaf of shell-1", "0s deafened shell-1", "0s fault_began sick of shell-2", "0s sickened shell-2")
	in.beat("shell-1")
	in.pass(0)
	in.expect(t, "0s fault_began deaf of shell-2", "0s deafened shell-2")
}

func TestOnlyFirstTouchIsRecorded(t *testing.T) {
	in := inject(t, "{when: {at: 1s}, deaf: shell-1, for: 1s}", "{when: {at: 5s}, deaf: shell-2, for: 1s}", "{when: {after: completed}, deaf: shell-2, for: 3s}")
	in.world.after = func(x *fault.Injection) {
		if x.Name == "deaf shell-1" {
			x.Touch(fault.Touched{Process: "shell-1"})
			x.Touch(fault.Touched{Process: "shell-2"})
		}
	}
	in.pass(time.Minute)
	in.expect(t, "1s fault_began deaf of shell-1", "1s deafened shell-1", "1s fault_touched deaf of shell-1", "2s healed", "2s fault_ended deaf of shell-1",
		"5s fault_began deaf of shell-2", "5s deafened shell-2", "6s healed", "6s fault_ended deaf of shell-2")
	in.Touch("deaf shell-1", fault.Touched{Process: "shell-1"})
	in.expect(t)
	want := []verdict.FaultCount{
		{Fault: "deaf shell-1", Planned: 1, Fired: 1, Touched: 1},
		{Fault: "deaf shell-2 #1", Planned: 1, Fired: 1},
		{Fault: "deaf shell-2 #2", Planned: 1},
	}
	if got := in.Counts(); !slices.Equal(got, want) {
		t.Errorf("counts %v, want %v", got, want)
	}
	in.Touch("deaf shell-2 #1", fault.Touched{Process: "shell-2"})
	in.expect(t, "1m0s fault_touched deaf of shell-2")
}

// The effect of some faults is visible only in the history: the first event during the fault that shows it
// counts as a touch.
func TestEventCountsAsTouch(t *testing.T) {
	in := inject(t, "{when: {at: 5s}, sick: shell-1, for: 10s}")
	back := func(id execution.WorkerID) *history.Event {
		return &history.Event{Kind: history.Transition, From: execution.Running, To: execution.Requested, Reason: execution.WorkerUnavailable, Worker: id}
	}
	in.Observe(back(1))
	in.pass(6 * time.Second)
	in.Observe(back(2))
	in.expect(t, "5s fault_began sick of shell-1", "5s sickened shell-1")
	in.Observe(back(1))
	in.Observe(back(1))
	in.expect(t, "6s fault_touched sick of ")
}

func TestSelfEndingFaultEndsOnce(t *testing.T) {
	in := inject(t, "{when: {at: 1s}, cancel_consumers: shell-1}")
	in.pass(time.Minute)
	queue := broker.WorkerQueue(1)
	in.expect(t, "1s fault_began cancel_consumers of shell-1", "1s cancelled "+queue, "1s fault_touched cancel_consumers of "+queue, "1s fault_ended cancel_consumers of shell-1")
	in.all[0].End()
	if in.expect(t); in.Busy() {
		t.Error("it is expected to end, and has")
	}
}

func TestUninjectableFaultFailsAndEnds(t *testing.T) {
	in := inject(t, "{when: {at: 1s}, deaf: shell-1, for: 10s}", "{when: {at: 2s}, cancel_consumers: shell-1}", "{when: {at: 3s}, mute: shell-1, for: 3s}")
	in.world.err = errors.New("no route to host")
	in.pass(time.Minute)
	in.expect(t, "1s fault_began deaf of shell-1", "1s deafened shell-1",
		"1s failed: the harness could not inject the fault “deaf shell-1”: no route to host", "1s fault_ended deaf of shell-1",
		"2s fault_began cancel_consumers of shell-1", "2s cancelled "+broker.WorkerQueue(1), "2s fault_touched cancel_consumers of "+broker.WorkerQueue(1),
		"2s fault_ended cancel_consumers of shell-1", "2s failed: the harness could not inject the fault “cancel consumers shell-1”: no route to host",
		"3s fault_began mute of shell-1",
		"3s failed: the harness could not inject the fault “mute shell-1”: this world can't do a mute: it lacks fault.Muteness (Mute)", "3s fault_ended mute of shell-1")
	if in.Busy() {
		t.Error("a fault that was not injected is expected to end")
	}
}

func TestStopPreventsAndUndoesFaults(t *testing.T) {
	in := inject(t, "{when: {at: 1s}, deaf: shell-1, for: 2s}", "{when: {at: 2s}, deaf: shell-2, for: 1h}", "{when: {at: 10s}, deaf: shell-1, for: 1h}",
		"{when: {after: heartbeat}, sick: shell-1, for: 1h}")
	in.pass(5 * time.Second)
	in.told = nil
	undo := in.Stop()
	in.expect(t) // the caller decides when
	for range 2 {
		for _, f := range undo {
			f()
		}
	}
	in.beat("shell-1")
	in.pass(2 * time.Hour)
	in.expect(t, "5s healed", "5s fault_ended deaf of shell-2")
}

// A fault that is beginning while Stop is called must be undone too. The second call of undo then undoes it.
func TestFaultBeginningDuringStopIsUndone(t *testing.T) {
	in := inject(t, "{when: {at: 1s}, deaf: shell-1, for: 1h}")
	var undo []func()
	in.world.after = func(*fault.Injection) {
		undo = in.Stop()
		undo[0]()
	}
	in.pass(time.Second)
	in.expect(t, "1s fault_began deaf of shell-1", "1s deafened shell-1")
	undo[0]()
	in.expect(t, "1s healed", "1s fault_ended deaf of shell-1")
}

func TestHoldKeepsInjectorBusy(t *testing.T) {
	in := inject(t, "{when: {after: completed}, deaf: shell-1, for: 1s}")
	one, other := in.Hold(), in.Hold()
	one()
	if !in.Busy() {
		t.Error("it is still held")
	}
	other()
	if in.Busy() {
		t.Error("no hold is left")
	}
}

func TestLeftOutKindDoesNotBegin(t *testing.T) {
	in := injectWithout(t, []string{"deaf"}, "{when: {at: 1s}, deaf: shell-1, for: 1s}", "{when: {at: 2s}, sick: shell-1, for: 1s}")
	in.pass(time.Minute)
	in.expect(t, "2s fault_began sick of shell-1", "2s sickened shell-1", "3s recovered", "3s fault_ended sick of shell-1")
}

// A fault that strikes an executor, or a server that an executor needs, excuses late detection.
func TestFaultEventMarksHinderedExecutors(t *testing.T) {
	for entry, want := range map[string]int64{
		"deaf: shell-1, for: 1s": 0, "pause: any executor, for: 1s": 1, "pause: every worker, for: 1s": 0, "pause: every process, for: 1s": 1,
		"database: kill, for: 1s": 1, "broker: alarm, for: 1s": 1, "block_consumers: dead_letters, for: 1s": 1, "block_consumers: requested, for: 1s": 0,
	} {
		in := inject(t, "{when: {at: 1s}, "+entry+"}")
		var got []int64
		in.o.Fail = func(error) {}
		in.o.Emit = func(e history.Event) { got = append(got, e.Count) }
		in.pass(time.Minute)
		if len(got) != 2 || got[0] != want || got[1] != want {
			t.Errorf("%s: announced with %d, want %d at its beginning and its end", entry, got, want)
		}
	}
}
