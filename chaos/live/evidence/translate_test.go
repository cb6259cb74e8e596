package evidence

import (
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// The triggers' rows about a worker become the same events as in the simulated database.
func TestWorkerRowsBecomeModelEvents(t *testing.T) {
	d := NewDatabase("", start)
	const before = `{"worker": 1, "incarnation": 7, "name": "w", "lifecycle": "active", "beat": 3, "consumer_alive": true,
		"capabilities": {"health": {"total_executions": 4, "failed_executions": 0, "consecutive_failures": 0}}}`
	for _, c := range []struct {
		name, source, was, became string
		want                      []history.Event
	}{
		{
			"a registration", "worker_incarnation", "", `{"worker": 1, "incarnation": 7, "name": "w", "runtimes": ["shell", "python"], "capacity": 3}`,
			[]history.Event{{Kind: history.WorkerRegistered, Limit: 3, Text: "shell python"}},
		},
		{
			"a heartbeat of a worker that consumes", "worker_incarnation", before,
			`{"worker": 1, "incarnation": 7, "lifecycle": "active", "beat": 4, "consumer_alive": true}`,
			[]history.Event{{Kind: history.HeartbeatRenewed, Count: 4, Limit: 1}},
		},
		{
			"a heartbeat of a deaf worker with failures", "worker_incarnation", before,
			`{"worker": 1, "incarnation": 7, "lifecycle": "active", "beat": 4, "capabilities": {"health":
				{"total_executions": 6, "failed_executions": 2, "consecutive_failures": 1, "last_failure": "2026-01-01T00:00:03Z"}}}`,
			[]history.Event{
				{Kind: history.HeartbeatRenewed, Count: 4},
				{Kind: history.HealthReported, Count: 1, Limit: 2, Message: 6, Due: 3 * time.Second},
			},
		},
		{
			"an outage of its health endpoint begins", "observation", "", `{"part": "health_prober", "worker": 1, "would": "unreachable", "reason": "refused", "at": "2026-01-01T00:00:03Z"}`,
			[]history.Event{{Kind: history.Observed, Count: 1}},
		},
		{
			"the outage ends", "observation", `{"part": "health_prober", "worker": 1}`, `{"part": "health_prober", "worker": 1, "ended_at": "2026-01-01T00:00:03Z"}`,
			[]history.Event{{Kind: history.Observed}},
		},
		{
			"a dispatch that would be reclaimed", "observation", "",
			`{"part": "execution_timeout_monitor", "worker": 1, "execution": 5, "epoch": 2, "would": "requested", "reason": "dispatch_timeout"}`,
			[]history.Event{{Kind: history.Observed, Execution: 5, Epoch: 2, To: execution.Requested, By: execution.TimeoutMonitor, Reason: execution.DispatchTimeout}},
		},
		{
			"a cordon", "worker", `{"id": 1}`, `{"id": 1, "cordoned_at": "2026-01-01T00:00:03Z"}`,
			[]history.Event{{Kind: history.WorkerCordoned, Count: 1}},
		},
		{
			"a cordon that is lifted", "worker", `{"id": 1, "cordoned_at": "2026-01-01T00:00:03Z"}`, `{"id": 1}`,
			[]history.Event{{Kind: history.WorkerCordoned}},
		},
	} {
		events, err := d.translateRow(&evidenceRow{at: start.Add(5 * time.Second), source: c.source, was: []byte(c.was), became: []byte(c.became)})
		if err != nil || len(events) != len(c.want) {
			t.Errorf("%s: %v, %v", c.name, events, err)
			continue
		}
		for i, e := range events {
			want := c.want[i]
			want.At, want.Worker = e.At, 1
			if c.source == "worker_incarnation" {
				want.Incarnation = 7
			}
			if e != want {
				t.Errorf("%s: %+v, want %+v", c.name, e, want)
			}
		}
	}
}

// If one statement ends an execution and handles the end, there are two simultaneous events: first the change
// of status, then the handling.
func TestHandledEndBecomesTwoEvents(t *testing.T) {
	d := NewDatabase("", start)
	const was = `{"id": 5, "status": "running", "epoch": 1, "worker": 1, "incarnation": 7}`
	const ended = `{"id": 5, "status": "completed", "epoch": 1, "worker": 1, "incarnation": 7, "written_by": "worker", "ended": "2026-01-01T00:00:03Z", "orchestrated_at": "2026-01-01T00:00:03Z"}`
	events, err := d.translateRow(&evidenceRow{at: start.Add(5 * time.Second), source: "execution", was: []byte(was), became: []byte(ended)})
	if err != nil || len(events) != 2 {
		t.Fatalf("%+v, %v", events, err)
	}
	if e := events[0]; e.Kind != history.Transition || e.To != execution.Completed || e.From != execution.Running {
		t.Errorf("first %+v", e)
	}
	if e := events[1]; e.Kind != history.Orchestrated || e.From != execution.Completed || e.Due != 0 || e.At != events[0].At {
		t.Errorf("then %+v, after a change at %v", e, events[0].At)
	}
}

// A dispatch that also claims, in the same update, becomes two simultaneous transitions, as in the audit. The
// first has no worker yet, and the old epoch.
func TestOneStepDispatchBecomesTwoTransitions(t *testing.T) {
	d := NewDatabase("", start)
	const was = `{"id": 5, "status": "requested", "epoch": 1}`
	const became = `{"id": 5, "status": "scheduled", "epoch": 2, "worker": 1, "incarnation": 7, "written_by": "scheduler", "written_epoch": 1,
		"scheduling_at": "2026-01-01T00:00:03Z", "scheduled_at": "2026-01-01T00:00:03Z", "dispatch_deadline": "2026-01-01T00:02:03Z"}`
	events, err := d.translateRow(&evidenceRow{at: start.Add(5 * time.Second), source: "execution", was: []byte(was), became: []byte(became)})
	if err != nil || len(events) != 2 {
		t.Fatalf("%+v, %v", events, err)
	}
	claim, dispatch := events[0], events[1]
	if claim.From != execution.Requested || claim.To != execution.Scheduling || claim.Epoch != 1 || claim.Incarnation != 0 || claim.Due != 0 {
		t.Errorf("first %+v", claim)
	}
	if dispatch.From != execution.Scheduling || dispatch.To != execution.Scheduled || dispatch.Epoch != 2 || dispatch.Incarnation != 7 || dispatch.At != claim.At {
		t.Errorf("then %+v", dispatch)
	}
}
