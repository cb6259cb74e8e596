package invariant

import (
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
)

// line is a session of the broker, open or not.
type line bool

func (l line) Closed() bool { return !bool(l) }

// Each story is about the hints of shell-1, which has claimed execution 1 at 165 seconds.
func TestHintsWhereTheyAreSent(t *testing.T) {
	hint := func(id string, changes int) *broker.Message {
		m := &broker.Message{RoutingKey: "execution.status_changed", Envelope: broker.Envelope{MessageID: id, Type: broker.ExecutionStatusChanged}}
		for i := range changes {
			m.Envelope.Changes = append(m.Envelope.Changes, broker.Change{
				Key: execution.Key{ID: execution.ID(i + 1), Epoch: 1}, From: execution.Scheduled, To: execution.Running,
			})
		}
		return m
	}
	other := hint("shell-1/1", 1)
	other.Envelope.Changes[0].Key.ID = 9
	for _, x := range []struct {
		name string
		send func(c *Conduct)
		want string
	}{
		{"under its name", func(c *Conduct) { c.Publishing("shell-1", hint("shell-1/1", 1), 165*second) }, ""},
		{"under its name, a second process of it", func(c *Conduct) { c.Publishing("shell-1 twin 0", hint("shell-1/1", 1), 165*second) }, ""},
		{"under another name", func(c *Conduct) { c.Publishing("shell-1", hint("shell-2/1", 1), 165*second) }, "does not begin with its name"},
		{"under the beginning of a name", func(c *Conduct) { c.Publishing("shell-1", hint("shell/1", 1), 165*second) }, "does not begin with its name"},
		{"returned, and sent again", func(c *Conduct) {
			m := hint("shell-1/1", 1)
			c.Publishing("shell-1", m, 165*second)
			c.Published("shell-1", line(true), m, broker.Returned, 165*second)
			c.Publishing("shell-1", m, 165*second+100*time.Millisecond)
			c.Published("shell-1", line(true), m, broker.Confirmed, 165*second+100*time.Millisecond)
		}, ""},
		{"returned, and not sent again", func(c *Conduct) {
			m := hint("shell-1/1", 1)
			c.Publishing("shell-1", m, 165*second)
			c.Published("shell-1", line(true), m, broker.Returned, 165*second)
		}, "has not sent it again"},
		{"not sent, because its session ended", func(c *Conduct) {
			m := hint("shell-1/1", 1)
			c.Publishing("shell-1", m, 165*second)
			c.Published("shell-1", line(false), m, broker.NotSent, 165*second)
		}, ""},
		{"given up after four attempts", func(c *Conduct) {
			m := hint("shell-1/1", 1)
			for i := range time.Duration(4) {
				c.Publishing("shell-1", m, 165*second+i)
				c.Published("shell-1", line(true), m, broker.Nacked, 165*second+i)
			}
		}, ""},
		{"after one that was not full, and known for long", func(c *Conduct) {
			c.Publishing("shell-1", other, 170*second)
			c.Publishing("shell-1", hint("shell-1/2", 1), 170*second)
		}, "that was not full"},
		{"after one that was not full, and known since then", func(c *Conduct) {
			c.Publishing("shell-1", other, 166*second)
			c.Publishing("shell-1", hint("shell-1/2", 1), 166*second)
		}, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := New(config.Default(config.Hardened), []int{26})
			submitted := history.Event{At: 160*second - 1, Kind: history.Created, Execution: 1, Chain: 1, To: execution.Requested, Action: "a", Text: "shell", Process: "client"}
			story := []history.Event{submitted, to(160*second, execution.Scheduling, execution.Scheduled, "executor-1"), to(165*second, execution.Scheduled, execution.Running, "shell-1")}
			for _, e := range slices.Concat(calmly(), story) {
				s.Observe(&e)
			}
			x.send(s.Conduct())
			s.Observe(&history.Event{At: 167 * second, Kind: history.Quiescent})
			found := ""
			for _, f := range s.Findings() {
				found += f.Message
			}
			if x.want == "" && found != "" || !strings.Contains(found, x.want) {
				t.Errorf("found %q, want %q", found, x.want)
			}
		})
	}
}
