package explore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/execution"
)

// badEnd is a bad end of an execution that has a valid cause in its run, and how to remove that cause from
// the history.
type badEnd struct {
	name    string
	reason  execution.Reason
	by      execution.Part   // NoPart for any
	to      execution.Status // None for failed
	profile config.Profile   // hardened if empty
	// The parts of the scenario that leads to this end. The rest is two workers with four slots each and four
	// executions.
	action, config, more string
	faults               []string
	strip                func([]history.Event) []history.Event // withoutFaults if nil
}

// withoutFaults removes all events that disturb processes, links, servers and clocks, and every
// announcement.
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

// rewritten returns a strip function that changes every event of a kind.
func rewritten(kind history.Kind, change func(*history.Event)) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		for i := range events {
			if events[i].Kind == kind {
				change(&events[i])
			}
		}
		return withoutFaults(events)
	}
}

func badEnds() []badEnd {
	const short, long = "takes: 2s", "takes: 20s"
	const quick = "executor: {dispatch_timeout: 10s, scheduled_timeout: 20s}\n  message_queue: {rabbitmq: {worker_queue_ttl_ms: 12000}}"
	unasked := rewritten(history.CancelRequested, func(e *history.Event) { e.Kind = history.Logged })
	endless := rewritten(history.Transition, func(e *history.Event) {
		if e.To == execution.Running {
			e.Due += time.Hour
		}
	})
	completed := rewritten(history.ActionEnded, func(e *history.Event) { e.To, e.Reason = execution.Completed, execution.NoReason })
	succeeded := rewritten(history.Orchestrated, func(e *history.Event) { e.From = execution.Completed })
	cut := []string{"partition: {cut: every worker, from: [broker]}, for: 60s"}
	ends := []badEnd{
		{reason: execution.QueueTimeout, profile: config.Documented, action: short, config: quick, faults: cut},
		{name: "counted", reason: execution.QueueTimeout, to: execution.Requested, action: short, config: quick, faults: cut},
		{reason: execution.DispatchTimeout, profile: config.Documented, action: short, config: quick, faults: []string{"deaf: every worker, for: 15s"}},
		{name: "sick", reason: execution.WorkerUnavailable, by: execution.Worker, action: short, faults: []string{"sick: every worker, for: 60s"}},
		{name: "gone", reason: execution.WorkerUnavailable, by: execution.Reconciler, profile: config.Documented, action: short, faults: []string{"deaf: every worker, for: 100s", "crash#: w-1"}},
		{reason: execution.NoWorkers, profile: config.Documented, action: short, faults: []string{"stop: every worker, restart_after: 100s"}},
		{reason: execution.Unroutable, profile: config.Documented, action: short, faults: []string{"unbind_queue: every worker, for: 60s"}},
		{reason: execution.WorkerLost, to: execution.Abandoned, action: long, faults: []string{"crash#: w-1"}},
		{reason: execution.WorkerShutdown, action: "takes: 100s", faults: []string{"stop#: w-1"}},
		{reason: execution.HeartbeatStale, action: "takes: 100s", faults: []string{"mute#: w-1, for: 40s"}},
		{reason: execution.RunTimeout, to: execution.Timeout, action: long + ", timeout: 5s", strip: endless},
		{
			reason: execution.CancelRequested, to: execution.Cancelled, action: long, strip: unasked,
			more: "  - cancel: {action: a, nth: 1, count: 4, after: {uniform: [1s, 2s]}}\n",
		},
		{
			reason: execution.ParentFailed, to: execution.Cancelled, action: short + ", fails: {rate: 100%, reason: validation}", strip: succeeded,
			more: "  - {action: b, parent: a, count: 1}\n",
		},
	}
	for _, own := range []execution.Reason{
		execution.Transient, execution.Connection, execution.Validation, execution.Permission, execution.ActionNotFound,
		execution.InvalidParameters, execution.Rejected, execution.Unknown,
	} {
		ends = append(ends, badEnd{reason: own, by: execution.Worker, action: fmt.Sprintf("%s, fails: {rate: 100%%, reason: %v}", short, own), strip: completed})
	}
	return ends
}

// scenario returns a scenario that leads to this end. Faults begin at 1 s, those marked # at 8 s; the work
// comes at 2 s.
func (b *badEnd) scenario(t *testing.T) *scenario.Scenario {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "name: bad-end\nabout: A bad end.\nworlds: [sim]\nprofile: %s\n", b.of())
	text.WriteString("cluster:\n  executors: 1\n  workers:\n    w-1: {runtimes: [shell], concurrency: 4}\n    w-2: {runtimes: [shell], concurrency: 4}\n")
	if b.config != "" {
		fmt.Fprintf(&text, "config:\n  %s\n", b.config)
	}
	fmt.Fprintf(&text, "actions:\n  a: {runtime: shell, %s}\n", b.action)
	if strings.Contains(b.more, "action: b") {
		text.WriteString("  b: {runtime: shell, takes: 1s}\n")
	}
	fmt.Fprintf(&text, "workload:\n  - {action: a, count: 4, every: 10ms, from: 2s}\n%s", b.more)
	for i, fault := range b.faults {
		if i == 0 {
			text.WriteString("faults:\n")
		}
		at := "1s"
		if strings.Contains(fault, "#") {
			at = "8s"
		}
		fmt.Fprintf(&text, "  - {when: {at: %s}, %s}\n", at, strings.Replace(fault, "#", "", 1))
	}
	text.WriteString("expect: {invariants: all, executions: {stuck: 0}}\n")
	s, err := scenario.Parse("bad-end.yaml", []byte(text.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	return s
}

func (b *badEnd) of() config.Profile {
	if b.profile == "" {
		return config.Hardened
	}
	return b.profile
}

// is reports whether an event is the transition to this bad end.
func (b *badEnd) is(e *history.Event) bool {
	to := b.to
	if to == execution.None {
		to = execution.Failed
	}
	return e.Kind == history.Transition && e.Reason == b.reason && e.To == to && (b.by == execution.NoPart || e.By == b.by)
}

// unearned judges a history by invariant 17 alone, and returns its first finding.
func unearned(events []history.Event, c config.Config) string {
	suite := invariant.New(c, []int{17})
	for i := range events {
		suite.Observe(&events[i])
	}
	for _, f := range suite.End(true) {
		return f.Message
	}
	return ""
}

// Invariant 17 accepts each bad end of a real run, and reports it once its cause is removed from the history.
func TestBadEndWithoutCauseIsViolation(t *testing.T) {
	tested := make(map[execution.Reason]bool)
	for _, b := range badEnds() {
		tested[b.reason] = true
		t.Run(strings.TrimSpace(b.reason.String()+" "+b.name), func(t *testing.T) {
			s := b.scenario(t)
			rec, _ := Record(t.Context(), Target{Scenario: s, Profile: b.of()}, 1, nil)
			reached := slices.ContainsFunc(rec.Events, func(e history.Event) bool { return b.is(&e) })
			if !reached {
				for _, e := range rec.Events {
					if e.Kind == history.Transition && e.Reason != execution.NoReason {
						t.Log(e.At, e.Execution, e.From, e.To, e.By, e.Reason)
					}
				}
				t.Fatalf("no execution ends so in this run")
			}
			if why := unearned(rec.Events, s.Config(b.of())); why != "" {
				t.Fatalf("the end is earned, but the invariant says: %s", why)
			}
			// Keep only the bad end under test, so that the invariant reports no other end first.
			strip := b.strip
			if strip == nil {
				strip = withoutFaults
			}
			why := unearned(b.alone(strip(slices.Clone(rec.Events))), s.Config(b.of()))
			if !strings.Contains(why, b.reason.String()) {
				t.Errorf("without its cause it still counts as earned; what was found: %q", why)
			}
		})
	}
	for _, name := range execution.Reasons() {
		if reason, _ := execution.ParseReason(name); !tested[reason] {
			t.Errorf("no test removes the cause of %s", name)
		}
	}
}

// alone removes the losses of workers, and the other executions with bad ends.
func (b *badEnd) alone(events []history.Event) []history.Event {
	other := make(map[execution.ID]bool)
	for i := range events {
		e := &events[i]
		bad := e.Kind == history.Transition && (e.To.Terminal() && e.To != execution.Completed || e.From == execution.Scheduled && e.To == execution.Requested)
		other[e.Execution] = other[e.Execution] || bad && !b.is(e)
	}
	return slices.DeleteFunc(events, func(e history.Event) bool {
		return e.Execution != 0 && other[e.Execution] || e.Kind == history.WorkerLifecycle && e.Lifecycle == execution.Lost
	})
}
