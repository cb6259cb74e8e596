package invariant

import (
	"slices"
	"strings"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
)

// hungQueues is what placement knows of queues that hang. An executor declares its queues whenever
// it connects, and RabbitMQ does not answer for a classic queue that hangs. So an executor that loses
// its session has none until the hang is over, and dispatches nothing (docs/queues.md). It is not
// known when a session ends.
type hungQueues struct {
	// names are the classic queues of executors that hang.
	names []string
	// dispatched is when an executor last dispatched something, which takes a session.
	dispatched time.Duration
}

// noteFault notes the beginning or end of a fault that makes a queue hang. A queue that is deleted,
// and made anew, does not hang.
func (h *hungQueues) noteFault(e *history.Event) {
	kind := fault.Find(e.Text)
	if kind == nil {
		return
	}
	for name := range strings.SplitSeq(e.Process, ",") {
		at := slices.Index(h.names, name)
		switch {
		case kind.Name == "delete_queue" && e.Kind == history.FaultBegan:
			h.names = slices.DeleteFunc(h.names, func(other string) bool { return other == name })
		case !slices.Contains(kind.Excuses, fault.WorkerQueueStuck):
		case e.Kind == history.FaultBegan && slices.Contains(fault.ExecutorQueues(), name):
			h.names = append(h.names, name)
		case e.Kind == history.FaultEnded && at >= 0:
			h.names = slices.Delete(h.names, at, at+1)
		}
	}
}

// connectedUntil is until when an executor surely had a session.
func (h *hungQueues) connectedUntil(now time.Duration) time.Duration {
	if len(h.names) > 0 {
		return h.dispatched
	}
	return now
}
