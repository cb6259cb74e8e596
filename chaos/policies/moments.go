package policies

import (
	"fmt"
	"time"

	"handoff/chaos/oracle"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host"
	"handoff/core/store"
)

// clock is a host with clocks and nothing else. Its wall clock changes at every reading, so that
// nothing can measure time by it.
type clock struct {
	host.Host
	now  time.Duration
	sets int
}

// Monotonic implements host.Host.
func (c *clock) Monotonic() time.Duration { return c.now }

// Now implements host.Host.
func (c *clock) Now() time.Time {
	c.sets++
	return time.Unix(1_000_000_000-int64(c.sets)*3600, 0)
}

// leases asks whether an execution may still wait for a worker. By the database's clock the worker's
// lease is over. By this executor's clock it may not be. The execution may wait until one lease has
// passed since this executor last saw a new heartbeat of the worker.
func (a *asker) leases() {
	lease := a.seconds(3, 30)
	look, expected := a.core.Leases(lease)
	w := store.WorkerRow{
		WorkerKey: store.WorkerKey{ID: 3, Incarnation: 7}, Lifecycle: execution.Active, Runtimes: []string{"shell"}, ConsumerAlive: !a.oneIn(8),
		Beat: 5, Cordoned: a.oneIn(8), LeaseOverFor: pick(a, time.Second, time.Nanosecond, 0),
	}
	row := execution.Execution{Action: execution.Action{Runtime: pick(a, "shell", "shell", "shell", "python")}, Pinned: pick[execution.WorkerID](a, 0, 0, 3, 4)}
	at := a.seconds(1, 100)
	look(at, []store.WorkerRow{w})
	seenAt := at
	if a.oneIn(2) {
		at += a.seconds(1, 2)
		if w.Beat++; a.oneIn(2) {
			w.Beat, w.Incarnation = w.Beat-1, 8
		}
		seenAt = at
		look(at, []store.WorkerRow{w})
	}
	now := seenAt + a.edge(lease)
	if a.oneIn(3) {
		now = seenAt + a.edge(lease/2)
	}
	look(now, []store.WorkerRow{w})
	right := now-seenAt < lease && w.LeaseOverFor > 0 && w.ConsumerAlive && !w.Cordoned && row.Action.Runtime == "shell" && row.Pinned != 4
	expect(a, expected(now, []store.WorkerRow{w}, &row), right, ownership,
		"two clocks: does an execution with %+v still wait for a worker (consumes %v, cordoned %v, lease over for %v by the database's clock) whose last heartbeat this executor saw %v ago, with a lease of %v",
		request(&row), w.ConsumerAlive, w.Cordoned, w.LeaseOverFor, now-seenAt, lease)
}

// owners asks when an executor may take back executions of a superseded incarnation. It may when one
// lease has passed since this executor learned that the incarnation was superseded. It may at once
// if it has declared the incarnation lost.
func (a *asker) owners() {
	lease, c := a.seconds(3, 30), &clock{now: a.seconds(1, 100)}
	survey, reaped, over := a.core.Owners(c, lease)
	worker := func(incarnation execution.Incarnation) []store.WorkerRow {
		return []store.WorkerRow{{WorkerKey: store.WorkerKey{ID: 3, Incarnation: incarnation}, Lifecycle: execution.Active}}
	}
	row := &execution.Execution{Status: pick(a, execution.Running, execution.Canceling, execution.Running, execution.Scheduled), Worker: 3, Incarnation: 7}
	claimed := oracle.Claimed(row.Status)
	if a.oneIn(4) {
		// This executor has not looked yet: it watches from now on.
		asked := c.now
		expect(a, over(row), !claimed, ownership, "may an executor take back a %v execution of an incarnation of which it knows nothing", row.Status)
		c.now += a.edge(lease)
		expect(a, over(row), !claimed || c.now-asked >= lease, ownership,
			"may an executor take back a %v execution of an incarnation about which it was first asked %v ago, with a lease of %v", row.Status, c.now-asked, lease)
		return
	}
	saw := a.oneIn(2)
	if saw {
		survey(worker(7))
		expect(a, over(row), !claimed, ownership, "may an executor take back a %v execution of the worker's present incarnation", row.Status)
		c.now += a.seconds(1, 60)
	}
	survey(worker(8))
	known := c.now
	if a.oneIn(2) {
		expect(a, over(row), !claimed, ownership, "may an executor take back a %v execution of an incarnation at the moment at which that is superseded", row.Status)
	}
	if lost := a.oneIn(4); lost {
		reaped(7)
		expect(a, over(row), true, ownership, "may an executor take back a %v execution of an incarnation that it has declared lost", row.Status)
		return
	}
	c.now = known + a.edge(lease)
	survey(worker(8))
	expect(a, over(row), !claimed || c.now-known >= lease, ownership,
		"may an executor take back a %v execution of an incarnation that was superseded %v ago, with a lease of %v (the executor saw the incarnation's registration: %v)", row.Status, c.now-known, lease, saw)
}

// absences asks for how long no worker has fitted an execution. The lower bound begins at the first
// pass that found no worker. The upper bound begins at the last pass that found one; it is 0, for
// unknown, if there was none. After a pause longer than the executor's patience, both begin anew.
func (a *asker) absences() {
	patience := a.seconds(5, 20)
	look, of := a.core.Absences(patience)
	c := oracle.Defaults(config.Hardened)
	row := &execution.Execution{Action: execution.Action{Runtime: pick(a, "shell", "shell", "python")}, Pinned: pick[execution.WorkerID](a, 0, 0, 3, 4)}
	now := a.seconds(1, 50)
	var began, last, fitted, gone time.Duration
	for n := range a.number(2, 6) {
		if n == 0 || now-last > patience {
			began, fitted = now, 0
		}
		workers := []store.WorkerRow{{
			WorkerKey: store.WorkerKey{ID: 3, Incarnation: 7}, Lifecycle: execution.Active, Runtimes: []string{"shell"}, Capacity: 1, Load: a.number(0, 1), ConsumerAlive: !a.oneIn(3),
		}}
		look(now, a.core.Roster(workers, c, nil, a.draw))
		if workers[0].ConsumerAlive && row.Action.Runtime == "shell" && row.Pinned != 4 {
			fitted, gone = now, 0
		} else {
			if fitted > 0 && gone == 0 {
				gone = now
			}
			rightLeast, rightMost := now-began, time.Duration(0)
			if fitted > 0 {
				rightLeast, rightMost = now-gone, now-fitted
			}
			// An execution with the same need that avoids another worker has waited as long.
			row.Avoid = pick[execution.WorkerID](a, 0, 3, 4)
			least, most := of(row)
			expect(a, least, rightLeast, choosing, "for how long, at least, has no worker fitted an execution with %+v, with a patience of %v", request(row), patience)
			expect(a, most, rightMost, choosing, "for how long, at most, has no worker fitted an execution with %+v, with a patience of %v", request(row), patience)
		}
		last = now
		now += pick(a, a.edge(patience), time.Second)
	}
}

// outages asks how long after a silence the executor judges no worker by what the database says.
func (a *asker) outages() {
	c := oracle.Defaults(pick(a, config.Hardened, config.Documented))
	c.Worker.HeartbeatInterval, c.Executor.ReconcileInterval = a.seconds(1, 20), a.seconds(1, 20)
	silence := oracle.Silence(c.Worker.HeartbeatInterval, c.Executor.ReconcileInterval)
	now := a.seconds(0, 100)
	answer, recent := a.core.Outage(c, now)
	answer(now)
	over, answered := now, now // a start counts as the end of an outage
	for range a.number(1, 4) {
		now = answered + pick(a, a.edge(silence), time.Second)
		if a.oneIn(3) {
			now = max(answered, a.edge(over+oracle.Lease(&c.Worker)))
		}
		d := oracle.Lease(&c.Worker)
		expect(a, recent(now, d), now-over < d || now-answered > silence, choosing,
			"was the database away within the last %v, if it last returned %v ago and last answered %v ago, and counts as away after a silence of %v", d, now-over, now-answered, silence)
		if now-answered > silence {
			over = now
		}
		answered = now
		answer(now)
	}
}

// brake asks how many of the workers whose lease is over may be declared lost, and when.
func (a *asker) brake() {
	c := oracle.Defaults(config.Hardened)
	x := &c.Executor
	x.BrakeMinWorkers, x.BrakeFraction = a.number(1, 6), float64(pick(a, 29, 50, 57, 90, a.number(1, 100)))/100
	brakes := oracle.NewBrakes(x)
	alive := a.near(x.BrakeMinWorkers)
	if a.oneIn(2) {
		alive = a.number(1, 40)
	}
	over := min(alive, a.near(int(x.BrakeFraction*float64(alive)+0.5)))
	holds := brakes.Hold(alive, over)
	expect(a, a.core.Brakes(*x, alive, over), holds, ownership, "does the brake hold if the leases of %d of %d workers are over, with brake_fraction %v and brake_min_workers %d", over, alive, x.BrakeFraction, x.BrakeMinWorkers)
	reaps := make([]store.Reap, over)
	for i := range reaps {
		reaps[i].ID = execution.WorkerID(i + 1)
	}
	admit, now := a.core.Brake(c), a.seconds(1, 100)
	admitted := func(at time.Duration, right int, when string) {
		expect(a, len(admit(at, reaps, alive)), right, ownership, "how many of the %d workers whose lease is over, of %d alive, may be declared lost %s, with brake_fraction %v and brake_min_workers %d", over, alive, when, x.BrakeFraction, x.BrakeMinWorkers)
	}
	if !holds {
		admitted(now, over, "at once")
		return
	}
	held := oracle.HeldFor(&c.Worker)
	admitted(now, 0, "at once")
	admitted(now+held-time.Nanosecond, 0, fmt.Sprintf("just before %v are over", held))
	admitted(now+held, 1, fmt.Sprintf("after %v", held))
}

// right asks until when a worker may run the executions that it has claimed: for its lease, less
// the margin, from the start of its last successful renewal. A renewal that is reported late does
// not move that back, and none helps a worker that has fenced itself.
func (a *asker) right() {
	w := oracle.Defaults(config.Hardened).Worker
	w.HeartbeatInterval, w.HeartbeatStalenessMultiplier, w.KillGrace = a.seconds(5, 20), a.number(3, 6), a.seconds(0, 60)
	w.FenceMargin = w.KillGrace + a.seconds(3, 5)
	granted := a.seconds(0, 30)
	c := &clock{now: granted}
	renew, deadline, fence := a.core.Lease(c, w, granted)
	last := granted
	length := oracle.Lease(&w) - w.FenceMargin
	if length <= 0 {
		return
	}
	for range a.number(1, 4) {
		sent := last + a.seconds(0, 20) - time.Second
		c.now = max(c.now, min(sent+time.Second, last+length-time.Nanosecond))
		if sent > c.now || sent < 0 {
			continue
		}
		expect(a, renew(sent), true, working, "does a heartbeat sent at %v count, if the worker has not fenced itself", sent)
		last = max(last, sent)
		fenced, killed := deadline()
		expect(a, fenced, last+length, working, "when does a worker fence itself that sent its last renewal at %v, with the configuration %+v", last, w)
		expect(a, killed, last+length+w.KillGrace, working, "when are the remaining processes killed of a worker that sent its last renewal at %v, with the configuration %+v", last, w)
	}
	c.now = a.edge(last + length)
	over := c.now >= last+length
	expect(a, fence(), over, working, "has a worker lost its right to run at %v, if it sent its last renewal at %v, with the configuration %+v", c.now, last, w)
	expect(a, renew(c.now), !over, working, "does a heartbeat count for a worker, after it fenced itself: %v", over)
}
