package verdict

import (
	"testing"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// A situation must describe its near miss if it can have one, and only then.
func TestNearMissSituationsDescribeTheirConditions(t *testing.T) {
	near, hit := map[string]bool{}, map[string]bool{}
	kinds := []history.Kind{
		history.Transition, history.Created, history.StaleWrite, history.RefusedResult, history.WorkerRegistered, history.WorkerLifecycle,
		history.SlotTaken, history.CancelRequested, history.ChildStarted, history.HealthReported, history.WorkerCordoned, history.Observed,
		history.Orchestrated, history.Delivered, history.Expired, history.ReturnedTooOften, history.DeadLettered, history.PublishReturned,
		history.Published,
	}
	for _, kind := range kinds {
		for from := execution.Status(0); int(from) < execution.Statuses; from++ {
			for to := execution.Status(0); int(to) < execution.Statuses; to++ {
				for _, by := range []execution.Part{execution.Worker, execution.Scheduler, execution.Reconciler, execution.ExecutionManager, execution.TimeoutMonitor} {
					for _, id := range []execution.ID{0, 1} {
						for n := range int64(2) {
							p := NewProbes(0)
							p.Observe(&history.Event{Kind: kind, From: from, To: to, By: by, Execution: id, Count: n, Due: -1})
							for name := range p.Near() {
								near[name] = true
							}
							for name := range p.Hits() {
								hit[name] = true
							}
						}
					}
				}
			}
		}
	}
	for _, s := range situationTable() {
		if (s.event == "") != (s.missing == "") || near[s.Name] != (s.event != "") {
			t.Errorf("%s can be missed narrowly: %v; its conditions are %q and %q", s.Name, near[s.Name], s.event, s.missing)
		}
		if !near[s.Name] && !hit[s.Name] {
			t.Errorf("no event of this test concerns %s", s.Name)
		}
	}
}

// A slot is taken while no execution waits for it, and a cancellation comes while it is held.
func TestProbesCountNearMisses(t *testing.T) {
	p := NewProbes(0)
	p.Observe(&history.Event{Kind: history.ActionDefined, Action: "a", Count: 2})
	p.Observe(&history.Event{Kind: history.SlotTaken, Action: "a", Execution: 1})
	p.Observe(&history.Event{Kind: history.CancelRequested, Action: "a", From: execution.Requested, Execution: 2, Chain: 1})
	near := p.Near()
	if near["slot_passed_on"] != 1 || near["cancelled_waiting_for_slot"] != 1 {
		t.Errorf("near: %v", near)
	}
	if _, reached := near["cancelled_pending_retry"]; reached || near["parked"] != 0 {
		t.Errorf("a situation that was reached, or never possible, counts as near: %v", near)
	}
}
