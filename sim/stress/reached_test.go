package stress

import "fmt"

// goesRound holds the minimum count of each name in counts; below that, the run proves nothing. The numbers
// are a small part of what a run of a few seconds does on a busy machine.
var goesRound = []struct {
	least int
	what  []string
}{
	{30, []string{
		"loop completion_listener", "loop figures", "loop health_probes", "loop heartbeat", "loop lease_monitor",
		"loop reconciler_of_cancellations", "loop reconciler_of_children", "loop reconciler_of_claims",
		"loop reconciler_of_dispatches", "loop reconciler_of_owners", "loop reconciler_of_terminal_executions", "loop scheduler",
		"loop timeout_monitor", "probe", "task execution", "call Claim", "call Finish", "call Dispatch", "call Publish", "call Receive",
	}},
	{5, []string{
		"call Connect", "call Consume", "call Reclaim", "call Register", "call StoreDeadLetters", "call Orchestrate",
		"call QueueState", "call Cancel", "call Park", "task fence", "task cancel consumer", "task waiting deliveries",
	}},
	{2, []string{
		"call Cancel consumer", "call Release", "call DeleteIdle", "call ForgetKeys", "call FreeSlots", "call SettleChildren",
		"loop purge_of_dead_letters", "loop purge_of_observations", "loop reconciler_of_idle_queues", "loop reconciler_of_slots",
		"loop reconciler_of_idempotency_keys", "worker superseded",
	}},
	{1, []string{"lease fenced"}},
}

// missing lists the names whose count is below its minimum.
func (c *counts) missing() (all []string) {
	for _, group := range goesRound {
		for _, what := range group.what {
			if n := c.of(what); n < group.least {
				all = append(all, fmt.Sprintf("%s, %d times, want at least %d", what, n, group.least))
			}
		}
	}
	return all
}
