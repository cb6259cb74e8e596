package fault

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
)

// cluster is a world of processes that records calls. It is also the runner, with a clock that only pass
// moves.
type cluster struct {
	processes []*member
	told      []string
	now       time.Duration
	due       []call
}

type call struct {
	at time.Duration
	f  func()
}

// member is a process that dies only when die is called.
type member struct {
	c     *cluster
	name  string
	alive bool
	life  int
	end   func()
}

func clusterOf(names ...string) *cluster {
	c := new(cluster)
	for _, name := range names {
		c.processes = append(c.processes, &member{c: c, name: name, alive: true})
	}
	return c
}

func (c *cluster) tell(format string, args ...any) {
	c.told = append(c.told, fmt.Sprint(c.now, " ", fmt.Sprintf(format, args...)))
}

func (c *cluster) Process(name string) Process {
	for _, p := range c.processes {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (c *cluster) injection(kind string, restartAfter time.Duration) *Injection {
	x := &Injection{Name: kind, Kind: Find(kind), RestartAfter: restartAfter, Runner: c}
	for _, p := range c.processes {
		x.Targets = append(x.Targets, p.name)
	}
	return x
}

// Now, After, Emit, Touch, End, Endless and Fail implement Runner.
func (c *cluster) Now() time.Duration              { return c.now }
func (c *cluster) After(d time.Duration, f func()) { c.due = append(c.due, call{c.now + d, f}) }
func (c *cluster) Emit(e history.Event)            { c.tell("%v %s", e.Kind, e.Process) }
func (c *cluster) Touch(on Touched)                { c.tell("touched %s", on.Process) }
func (c *cluster) End()                            { c.tell("over") }
func (c *cluster) Endless()                        { c.tell("endless") }
func (c *cluster) Fail(err error)                  { c.tell("failed: %v", err) }

// pass advances the time and makes the calls that are due.
func (c *cluster) pass(d time.Duration) {
	until := c.now + d
	for {
		i := -1
		for j := range c.due {
			if c.due[j].at <= until && (i < 0 || c.due[j].at < c.due[i].at) {
				i = j
			}
		}
		if i < 0 {
			break
		}
		next := c.due[i]
		c.due = slices.Delete(c.due, i, i+1)
		c.now = next.at
		next.f()
	}
	c.now = until
}

func (m *member) Name() string   { return m.name }
func (m *member) Alive() bool    { return m.alive }
func (m *member) Terminate()     { m.c.tell("terminate %s", m.name) }
func (m *member) Kill()          { m.c.tell("kill %s", m.name) }
func (m *member) OnEnd(f func()) { m.end = f }

func (m *member) Start() {
	m.c.tell("start %s", m.name)
	if !m.alive {
		m.alive = true
		m.life++
	}
}

func (m *member) die() {
	m.alive = false
	m.c.tell("%s is gone", m.name)
	if end := m.end; end != nil {
		m.end = nil
		end()
	}
}

// turn is an instance of a process.
type turn struct {
	p    *member
	life int
}

func (m *member) Instance() Instance { return turn{m, m.life} }

func (t turn) Alive() bool { return t.p.alive && t.p.life == t.life }
func (t turn) Pause()      { t.p.c.tell("pause %s", t.p.name) }
func (t turn) Resume()     { t.p.c.tell("resume %s", t.p.name) }

func (c *cluster) inject(t *testing.T, x *Injection, f Fault) (undo func()) {
	t.Helper()
	undo, err := x.Kind.Inject(f, x, c)
	if err != nil {
		t.Fatal(err)
	}
	return undo
}

func (c *cluster) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(c.told, want) {
		t.Errorf("got  %q\nwant %q", c.told, want)
	}
}

func TestDeadProcessRestartsOnTime(t *testing.T) {
	c := clusterOf("shell-1")
	c.inject(t, c.injection("crash", 10*time.Second), new(crash))
	c.pass(time.Second)
	c.processes[0].die()
	c.pass(time.Minute)
	c.expect(t, "0s touched shell-1", "0s kill shell-1", "1s shell-1 is gone", "10s start shell-1", "10s over")
}

// A process that takes longer to stop than its restart_after restarts once it has ended, and not earlier.
func TestStoppingProcessRestartsAfterItsEnd(t *testing.T) {
	c := clusterOf("shell-1", "shell-2")
	c.inject(t, c.injection("stop", 10*time.Second), new(stop))
	c.pass(5 * time.Second)
	c.processes[1].die()
	c.pass(10 * time.Second)
	c.processes[0].die()
	c.pass(time.Minute)
	c.expect(t, "0s touched shell-1", "0s terminate shell-1", "0s touched shell-2", "0s terminate shell-2",
		"5s shell-2 is gone", "10s start shell-2", "10s over", "15s shell-1 is gone", "15s start shell-1")
}

func TestProcessWithoutRestartStaysDown(t *testing.T) {
	c := clusterOf("shell-1")
	c.inject(t, c.injection("crash", 0), new(crash))
	c.processes[0].die()
	c.pass(time.Hour)
	c.expect(t, "0s touched shell-1", "0s kill shell-1", "0s endless", "0s shell-1 is gone")
}

// The end of a pause resumes only the paused instance, not an instance that has replaced it.
func TestRestartedProcessIsNotResumed(t *testing.T) {
	for _, x := range []struct {
		restarted bool
		want      []string
	}{
		{false, []string{"0s touched shell-1", "0s pause shell-1", "0s process_paused shell-1", "0s process_resumed shell-1", "0s resume shell-1"}},
		{true, []string{
			"0s touched shell-1", "0s pause shell-1", "0s process_paused shell-1", "0s shell-1 is gone", "0s start shell-1", "0s resume shell-1",
		}},
	} {
		c := clusterOf("shell-1")
		undo := c.inject(t, c.injection("pause", 0), new(pause))
		if x.restarted {
			c.processes[0].die()
			c.processes[0].Start()
		}
		undo()
		c.expect(t, x.want...)
	}
}

func TestProcessThatStoppedIsNotKilled(t *testing.T) {
	for _, x := range []struct {
		stops, restarted bool
		want             []string
	}{
		{false, false, []string{"0s terminate shell-1", "3s touched shell-1", "3s kill shell-1", "13s over"}},
		{true, false, []string{"0s terminate shell-1", "1s shell-1 is gone", "13s start shell-1", "13s over"}},
		{true, true, []string{"0s terminate shell-1", "1s shell-1 is gone", "1s start shell-1", "13s over"}},
	} {
		c := clusterOf("shell-1")
		c.inject(t, c.injection("stop_cut_short", 10*time.Second), &stopCutShort{After: 3 * time.Second})
		c.pass(time.Second)
		if x.stops {
			c.processes[0].die()
		}
		if x.restarted {
			c.processes[0].Start()
		}
		c.pass(time.Minute)
		c.expect(t, x.want...)
	}
}

func TestRollingRestartRestartsProcessesInTurn(t *testing.T) {
	c := clusterOf("executor-1", "shell-1", "shell-2")
	c.processes[1].alive = false
	c.inject(t, c.injection("rolling_restart", 0), &rollingRestart{Down: time.Second, Every: 10 * time.Second})
	c.pass(5 * time.Second)
	c.processes[0].die() // the next process stops in 11 s
	c.pass(15 * time.Second)
	c.pass(10 * time.Second)
	c.processes[2].die()
	c.pass(time.Hour)
	c.expect(t, "0s touched executor-1", "0s terminate executor-1", "5s executor-1 is gone", "6s start executor-1", "17s start shell-1",
		"27s touched shell-2", "27s terminate shell-2", "30s shell-2 is gone", "31s start shell-2", "41s over")
}
