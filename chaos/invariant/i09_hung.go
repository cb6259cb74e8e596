package invariant

import (
	"slices"
	"strings"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/history"
)

// hungQueues records the queues that hang. An executor declares its queues whenever it connects, and RabbitMQ
// does not answer for a classic queue that hangs. So an executor that loses its session can't open another
// while the queue hangs, and dispatches nothing (docs/queues.md). Histories don't show ends of sessions.
type hungQueues struct {
	// names holds the executors' classic queues that hang.
	names []string
	// dispatched is when an executor last dispatched an execution, for which it needed a session.
	dispatched time.Duration
}

// noteFault notes the beginning or end of a fault that makes a queue hang. A queue that is deleted and
// recreated does not hang.
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

// connectedUntil returns the last time at which some executor certainly had a session.
func (h *hungQueues) connectedUntil(now time.Duration) time.Duration {
	if len(h.names) > 0 {
		return h.dispatched
	}
	return now
}
