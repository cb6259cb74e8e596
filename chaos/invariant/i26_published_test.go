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

// brokerSession is a broker session that is open if true.
type brokerSession bool

func (l brokerSession) Closed() bool { return !bool(l) }

func (l brokerSession) Usable() time.Duration { return 2 * second }

// openSession is an open session that became usable at this time.
type openSession time.Duration

func (openSession) Closed() bool { return false }

func (f openSession) Usable() time.Duration { return time.Duration(f) }

// Each story is about the hints of shell-1, which claimed execution 1 at 165 seconds.
func TestUnlawfulHintSendingBreaksInvariant(t *testing.T) {
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
		{"under its name, by a twin", func(c *Conduct) { c.Publishing("shell-1 twin 0", hint("shell-1/1", 1), 165*second) }, ""},
		{"under another name", func(c *Conduct) { c.Publishing("shell-1", hint("shell-2/1", 1), 165*second) }, "does not begin with its name"},
		{"under the beginning of a name", func(c *Conduct) { c.Publishing("shell-1", hint("shell/1", 1), 165*second) }, "does not begin with its name"},
		{"returned, and repeated", func(c *Conduct) {
			m := hint("shell-1/1", 1)
			c.Publishing("shell-1", m, 165*second)
			c.Published("shell-1", brokerSession(true), m, broker.Returned, 165*second)
			c.Publishing("shell-1", m, 165*second+100*time.Millisecond)
			c.Published("shell-1", brokerSession(true), m, broker.Confirmed, 165*second+100*time.Millisecond)
		}, ""},
		{"returned, and not repeated", func(c *Conduct) {
			m := hint("shell-1/1", 1)
			c.Publishing("shell-1", m, 165*second)
			c.Published("shell-1", brokerSession(true), m, broker.Returned, 165*second)
		}, "has not sent it again"},
		{"not sent, because its session ended", func(c *Conduct) {
			m := hint("shell-1/1", 1)
			c.Publishing("shell-1", m, 165*second)
			c.Published("shell-1", brokerSession(false), m, broker.NotSent, 165*second)
		}, ""},
		{"given up after four attempts", func(c *Conduct) {
			m := hint("shell-1/1", 1)
			for i := range time.Duration(4) {
				c.Publishing("shell-1", m, 165*second+i)
				c.Published("shell-1", brokerSession(true), m, broker.Nacked, 165*second+i)
			}
		}, ""},
		{"after one that was not full, and known for long", func(c *Conduct) {
			c.Publishing("shell-1", other, 170*second)
			c.Publishing("shell-1", hint("shell-1/2", 1), 170*second)
		}, "belonged in the previous"},
		{"after one that was not full, and known since then", func(c *Conduct) {
			c.Publishing("shell-1", other, 166*second)
			c.Publishing("shell-1", hint("shell-1/2", 1), 166*second)
		}, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := New(config.Default(config.Hardened), []int{26})
			submitted := history.Event{At: 160*second - 1, Kind: history.Created, Execution: 1, Chain: 1, To: execution.Requested, Action: "a", Text: "shell", Process: "client"}
			story := []history.Event{submitted, to(160*second, execution.Scheduling, execution.Scheduled, "executor-1"), to(165*second, execution.Scheduled, execution.Running, "shell-1")}
			for _, e := range slices.Concat(calmStory(), story) {
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

// Earlier attempts count even if the answer to an attempt comes late, or a fault delays the next attempt.
func TestLateAnswerKeepsHintAttemptCount(t *testing.T) {
	const tenth = 100 * time.Millisecond
	m := &broker.Message{RoutingKey: "execution.status_changed", Envelope: broker.Envelope{MessageID: "shell-1/1", Type: broker.ExecutionStatusChanged}}
	at := func(at time.Duration, kind history.Kind) func(*Suite) {
		return func(s *Suite) { s.Observe(&history.Event{At: at, Kind: kind, Process: "shell-1"}) }
	}
	sent := func(at time.Duration) func(*Suite) {
		return func(s *Suite) { s.Conduct().Publishing("shell-1", m, at) }
	}
	told := func(o broker.Outcome, at time.Duration) func(*Suite) {
		return func(s *Suite) { s.Conduct().Published("shell-1", brokerSession(true), m, o, at) }
	}
	over := func(session Open, at time.Duration) func(*Suite) {
		return func(s *Suite) { s.Conduct().Published("shell-1", session, m, broker.Returned, at) }
	}
	tried := func(n int) (all []func(*Suite)) {
		for i := range n {
			now := 165*second + time.Duration(i)*tenth
			all = append(all, sent(now), told(broker.Returned, now))
		}
		return all
	}
	const quiet = history.Logged
	for _, x := range []struct {
		name  string
		story []func(*Suite)
		want  string
	}{
		{"the last answer comes late", append(tried(3),
			sent(166*second), at(169*second, quiet), told(broker.Returned, 170*second), at(173*second, quiet)), ""},
		{"the third answer comes late, and the hint is not repeated", append(tried(2),
			sent(166*second), at(169*second, quiet), told(broker.Returned, 170*second), at(173*second, quiet)), "attempt 3, and has not sent it again"},
		{"the third answer comes late and is unknown, and the hint is not repeated", append(tried(2),
			sent(166*second), at(169*second, quiet), told(broker.Unknown, 170*second), at(173*second, quiet)), ""},
		{"its process is frozen before the last attempt", append(tried(3),
			at(166*second, history.ProcessFrozen), at(169*second, quiet), at(170*second, history.ProcessThawed),
			sent(171*second), told(broker.Returned, 171*second), at(174*second, quiet)), ""},
		{"its process is frozen before the third attempt, and the hint is not repeated", append(tried(2),
			at(166*second, history.ProcessFrozen), at(169*second, quiet), at(170*second, history.ProcessThawed),
			sent(171*second), told(broker.Returned, 171*second), at(174*second, quiet)), "attempt 3, and has not sent it again"},
		{"its session has just opened, and attempts without one are not seen", []func(*Suite){
			sent(165 * second), over(openSession(164*second+950*time.Millisecond), 165*second),
			sent(165*second + tenth), told(broker.Returned, 165*second+tenth), at(169*second, quiet),
		}, ""},
		{"its session has been open for a while, and the hint is not repeated", []func(*Suite){
			sent(165 * second), over(openSession(160*second), 165*second),
			sent(165*second + tenth), told(broker.Returned, 165*second+tenth), at(169*second, quiet),
		}, "attempt 2, and has not sent it again"},
		{"its process was paused just before, and attempts without a session are not seen", []func(*Suite){
			at(160*second, history.ProcessPaused), at(164*second, history.ProcessResumed),
			sent(165 * second), told(broker.Returned, 165*second), at(169*second, quiet),
		}, ""},
		{"its session ends after the first attempt, and attempts without one are not seen", []func(*Suite){
			sent(165 * second),
			func(s *Suite) { s.Conduct().Published("shell-1", brokerSession(false), m, broker.NotSent, 165*second) },
			sent(166 * second), told(broker.Returned, 166*second), at(169*second, quiet),
		}, ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := New(config.Default(config.Hardened), []int{26})
			for _, e := range calmStory() {
				s.Observe(&e)
			}
			for _, step := range x.story {
				step(s)
			}
			s.Observe(&history.Event{At: 180 * second, Kind: history.Quiescent})
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
