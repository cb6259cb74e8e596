package explore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/scenarios"
)

// badEnd is an end that a run reaches lawfully, and what has to be taken out of its history for it to be unearned.
type badEnd struct {
	name    string
	reason  execution.Reason
	by      execution.Part // NoPart: whoever
	to      execution.Status
	profile config.Profile
	// actions, work, faults and configuration are those parts of the scenario; the cluster has two workers of one slot.
	action, work, config string
	faults               []string
	// rewrite makes one reason of another, in what the worker writes and in how its action ended: a scenario
	// can't name every one.
	strip func([]history.Event) []history.Event
}

// withoutFaults takes away everything that strikes processes, links, servers and clocks, and every announcement.
func withoutFaults(events []history.Event) []history.Event {
	return slices.DeleteFunc(events, func(e history.Event) bool {
		switch e.Kind {
		case history.FaultBegan, history.FaultEnded, history.FaultTouched, history.WorkerCordoned, history.ClockStepped,
			history.ProcessStarted, history.ProcessCrashed, history.ProcessStopping, history.ProcessStopped,
			history.ProcessPaused, history.ProcessResumed, history.ProcessFrozen, history.ProcessThawed,
			history.DatabaseDown, history.DatabaseUp, history.BrokerDown, history.BrokerUp:
			return true
		default:
			return false
		}
	})
}

// withoutRuns lets every action complete.
func withoutRuns(events []history.Event) []history.Event {
	for i := range events {
		if e := &events[i]; e.Kind == history.ActionEnded {
			e.To, e.Reason = execution.Completed, execution.NoReason
		}
	}
	return events
}

// without takes away events of a kind.
func without17(kind history.Kind) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		return slices.DeleteFunc(events, func(e history.Event) bool { return e.Kind == kind })
	}
}

// withoutDeadlines lets every run have an hour more.
func withoutDeadlines(events []history.Event) []history.Event {
	for i := range events {
		if e := &events[i]; e.Kind == history.Transition && e.To == execution.Running {
			e.Due += 3600e9
		}
	}
	return withoutFaults(events)
}

// parentsComplete has every chain end as completed.
func parentsComplete(events []history.Event) []history.Event {
	for i := range events {
		if e := &events[i]; e.Kind == history.Orchestrated {
			e.From = execution.Completed
		}
	}
	return events
}

func badEnds() []badEnd {
	const short, long = "runtime: shell, takes: 2s", "runtime: shell, takes: 20s"
	const quick = "executor: {dispatch_timeout: 10s, scheduled_timeout: 20s}, message_queue: {rabbitmq: {worker_queue_ttl_ms: 12000}}"
	ends := []badEnd{
		{reason: execution.QueueTimeout, profile: config.Documented, action: short, config: quick, faults: []string{"partition: {cut: every worker, from: [broker]}, for: 60s"}},
		{reason: execution.DispatchTimeout, profile: config.Documented, action: short, config: quick, faults: []string{"deaf: every worker, for: 15s"}},
		{name: "counted", reason: execution.QueueTimeout, to: execution.Requested, action: short, config: quick, faults: []string{"partition: {cut: every worker, from: [broker]}, for: 60s"}},
		{name: "machine", reason: execution.WorkerUnavailable, by: execution.Worker, action: short, faults: []string{"sick: every worker, for: 60s"}},
		{name: "gone", reason: execution.WorkerUnavailable, by: execution.Reconciler, profile: config.Documented, action: short, config: "executor: {dispatch_timeout: 60s}", faults: []string{"deaf: w-1, for: 60s", "pause: w-1, for: 60s"}},
		{reason: execution.NoWorkers, profile: config.Documented, action: short, faults: []string{"crash: every worker, restart_after: 60s"}},
		{reason: execution.Unroutable, profile: config.Documented, action: short, faults: []string{"unbind_queue: every worker, for: 60s"}},
		{reason: execution.WorkerLost, action: long, faults: []string{"crash: w-1, restart_after: 60s"}},
		{reason: execution.WorkerShutdown, action: "runtime: shell, takes: 100s", faults: []string{"stop: w-1, restart_after: 60s"}},
		{reason: execution.HeartbeatStale, action: long, faults: []string{"mute: w-1, for: 30s"}},
		{reason: execution.RunTimeout, to: execution.Timeout, action: long + ", timeout: 5s", strip: withoutDeadlines},
		{
			reason: execution.CancelRequested, to: execution.Cancelled, action: long, work: "cancel: {share: 100%, after: {uniform: [1s, 2s]}}",
			strip: without17(history.CancelRequested),
		},
		{reason: execution.ParentFailed, to: execution.Cancelled, action: short + ", fails: {rate: 100%, reason: validation}", strip: parentsComplete},
	}
	for _, own := range []execution.Reason{
		execution.Transient, execution.Connection, execution.Validation, execution.Permission, execution.ActionNotFound,
		execution.InvalidParameters, execution.Rejected, execution.Unknown,
	} {
		ends = append(ends, badEnd{reason: own, by: execution.Worker, action: short + fmt.Sprintf(", fails: {rate: 100%%, reason: %v}", own), strip: withoutRuns})
	}
	return ends
}
