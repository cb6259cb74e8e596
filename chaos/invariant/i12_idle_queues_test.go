package invariant

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
)

// idleWorld is a world in which every queue is empty and unused.
type idleWorld struct{}

func (idleWorld) Statements(func(string, bool, uint64)) {}
func (idleWorld) Idle(string) bool                      { return true }

// If a worker has been gone for five minutes, its queues must be deleted after the dead letter path has
// worked for five.
func TestIdleQueuesMustBeDeleted(t *testing.T) {
	spoiled := func(kind, messages string) []history.Event {
		return []history.Event{
			{At: time.Minute, Kind: history.FaultBegan, Fault: "spoils", Text: kind, Process: "broker", Queue: messages},
			{At: 8 * time.Minute, Kind: history.FaultEnded, Fault: "spoils", Text: kind, Process: "broker", Queue: messages},
		}
	}
	for _, c := range []struct {
		name   string
		until  time.Duration
		broken bool
		faults []history.Event
	}{
		{"soon", 11 * time.Minute, false, nil},
		{"late", 13 * time.Minute, true, nil},
		{"soon after a fault has held messages of its tests", 13 * time.Minute, false, spoiled("reorder_messages", "*")},
		{"soon after a fault has dropped messages of its tests", 13 * time.Minute, false, spoiled("drop_messages", "*")},
		{"late after a fault has held messages of its tests", 16 * time.Minute, true, spoiled("reorder_messages", "*")},
		{"late, during a fault that has held dispatches", 13 * time.Minute, true, spoiled("reorder_messages", "execution.scheduled")},
		{"late, during a fault that has repeated messages of its tests", 13 * time.Minute, true, spoiled("duplicate_messages", "*")},
	} {
		story := []history.Event{
			{Kind: history.ProcessStarted, Process: "executor-1"},
			registered(1, 1, "shell"), beat(0, 1),
			worker(0, execution.Active), worker(second, execution.Draining), worker(second, execution.Stopped),
		}
		faults := c.faults
		for at := 10 * second; at <= c.until; at += 10 * second {
			for len(faults) > 0 && faults[0].At <= at {
				story, faults = append(story, faults[0]), faults[1:]
			}
			story = append(story, history.Event{
				At: at, Kind: history.Delivered, Process: "executor-1", Message: uint64(at), Type: uint8(broker.DeadLetterCanary), Queue: "arrival",
			})
		}
		x := config.Default(config.Hardened)
		x.Executor.QueueRetention = 5 * time.Minute
		s := New(x, []int{12})
		s.SetWork(idleWorld{})
		for i := range story {
			story[i].Step = uint64(i)
			s.Observe(&story[i])
		}
		broken := slices.ContainsFunc(s.End(false), func(f Finding) bool { return f.Invariant.Number == 12 })
		if broken != c.broken {
			t.Errorf("deleted %s: broken is %v, want %v", c.name, broken, c.broken)
		}
	}
}
