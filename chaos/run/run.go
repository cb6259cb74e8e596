// Package run is the runner: what a run of a scenario does that does not depend on the world in which it happens. It
// submits the workload, finds the moments of faults, takes samples for the alerts, knows when nothing is left to be done,
// and makes a verdict of the history.
//
// A world brings how time passes (Clock), draws (Draws), how tasks are started and wait (host.Host), the system under test
// (Client), what is left to be done (State) and the evidence. The simulator's clock is the kernel's, so this package
// starts no goroutine and waits for nothing itself; a mutex is never held while a task waits.
package run

import (
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/execution"
)

// Horizon is when a run ends at the latest: the last moment at which something new can happen, and
// the time that the configuration implies for what is then still open.
func Horizon(s *scenario.Scenario, c config.Config) time.Duration {
	last := s.LastSubmission()
	longest, retries := time.Duration(0), 0
	for _, a := range s.Actions {
		longest = max(longest, a.TakesMax)
		retries = max(retries, a.MaxRetries)
	}
	for i := range s.Workload {
		retries = max(retries, s.Workload[i].Limits.MaxRetries)
	}
	settle := s.Settle
	if settle == 0 {
		settle = time.Duration(s.Generations()) * invariant.Settle(c, longest, retries)
	}
	for i := range s.Faults {
		f := &s.Faults[i]
		begin := f.When.Max
		if f.When.After != "" {
			// A trigger comes while there is work, at the latest when the workload is over.
			begin = s.LastSubmission() + settle/2 + f.When.Plus
		}
		last = max(last, begin+lasts(s, f, c))
	}
	return last + settle + Linger
}

// lasts bounds how long after its beginning a fault can still change something.
func lasts(s *scenario.Scenario, f *scenario.Fault, c config.Config) time.Duration {
	if f.Kind == scenario.RollingRestart {
		_, n := s.Cluster.Candidates(f.Target)
		return time.Duration(n) * (f.Down + f.Every + c.Worker.ShutdownTimeout + invariant.BoundsOf(c).Slack)
	}
	return max(f.For, f.CutAfter+f.RestartAfter) + max(f.Shift, -f.Shift)
}

// Hinders is 1 for a fault that can keep an executor from detecting something in time, because it strikes one
// or a server that it needs.
func Hinders(f *scenario.Fault, strikesExecutor bool) int64 {
	switch f.Kind {
	case scenario.BrokerRestart, scenario.BrokerKill, scenario.BrokerAlarm,
		scenario.DatabaseRestart, scenario.DatabaseKill, scenario.DatabaseReadOnly, scenario.DatabaseSlow, scenario.Serialization:
		return 1
	default:
	}
	if strikesExecutor || f.Target == scenario.Database || f.Target == scenario.DeadLetterQueue {
		return 1
	}
	return 0
}

// Announced returns the event with which a fault begins or ends: its kind, whom it strikes and, for links, their
// other ends. struck are the processes that were drawn for it; none stands for the server.
func Announced(kind history.Kind, f *scenario.Fault, struck []string, hinders int64) history.Event {
	e := history.Event{Kind: kind, Fault: f.Name, Text: string(f.Kind), Count: hinders, Process: f.Target, Queue: f.Messages}
	if len(struck) > 0 {
		e.Process = strings.Join(struck, ",")
	}
	if len(f.From) > 0 {
		e.Queue = strings.Join(f.From, ",")
	}
	return e
}

// Matches says whether an event is an instance of a trigger. workers names the workers by id.
func Matches(when *scenario.When, e *history.Event, workers func(execution.WorkerID) string) bool {
	who := e.Process
	switch when.After {
	case "heartbeat":
		return e.Kind == history.HeartbeatRenewed && is(when.Of, who)
	case "registered":
		return e.Kind == history.WorkerRegistered && is(when.Of, who)
	case "scheduled":
		return e.Kind == history.Transition && e.To == execution.Scheduled && is(when.Of, workers(e.Worker))
	case "delivered":
		return e.Kind == history.Delivered && e.Execution != 0 && is(when.Of, who)
	case "claimed":
		return e.Kind == history.Transition && e.To == execution.Running && is(when.Of, who)
	case "action_started":
		return e.Kind == history.ActionStarted && is(when.Of, who)
	case "action_ended":
		return e.Kind == history.ActionEnded && is(when.Of, who)
	case "completed":
		return e.Kind == history.Transition && e.To == execution.Completed && is(when.Of, who)
	case "expired":
		return e.Kind == history.Expired && e.Execution != 0
	}
	return false
}

func is(wanted, name string) bool { return wanted == "" || wanted == name }
