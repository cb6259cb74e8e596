package simbroker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/sim/kernel"
)

// hint is a message with one change.
func hint(id string, c broker.Change) broker.Message {
	return broker.Message{RoutingKey: "q", Envelope: broker.Envelope{
		MessageID: id, Type: broker.ExecutionStatusChanged, Version: broker.WireVersion, Timestamp: time.Unix(1_700_000_000, 5), Changes: []broker.Change{c},
	}}
}

// wrongs are the reports of messages that were read otherwise than they were sent.
func (r *record) wrongs() (texts []string) {
	for _, e := range r.events {
		if e.Kind == history.PoliciesAsked {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// A consumer gets what a body carries, and not the envelope that was sent.
func TestConsumersGetWhatTheBodyCarries(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("main", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain("quorum"))
		m := dispatch("", "q", 1)
		d := &m.Envelope.Dispatches[0]
		d.Action = execution.Action{Ref: "a", Runtime: "shell", Timeout: 1500 * time.Microsecond, Concurrency: 3, RetriedExitCodes: execution.NewExitCodes(7)}
		d.Parameters = []byte(`{ "text": "a<b" }`)
		// More than those of which one is encoded anyway.
		ms := slices.Repeat([]broker.Message{m}, encodedWithin)
		w.publish(s, broker.Confirmed, ms...)
		c := w.consume(s, "q", 0)
		for range ms {
			got, ok := w.receive(c)
			if !ok || got.Malformed != nil {
				t.Errorf("%v, received %v", got.Malformed, ok)
				return
			}
			read := got.Envelope.Dispatches[0]
			if want := (execution.Action{Ref: "a", Runtime: "shell", Timeout: 2 * time.Millisecond}); read.Action != want {
				t.Errorf("the action is read as %+v, want %+v", read.Action, want)
			}
			if string(read.Parameters) != `{"text":"a<b"}` {
				t.Errorf("the parameters are read as %s", read.Parameters)
			}
		}
	})
	w.run(hour)
	if wrongs := w.r.wrongs(); len(wrongs) > 0 {
		t.Errorf("reported: %v", wrongs)
	}
}

// What the core refuses to write is Nacked as by the real client, and arrives nowhere. From then on
// every message of the run is encoded.
func TestWhatCanNotBeWrittenIsNacked(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("main", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain("quorum"))
		bad := dispatch("", "q", 1)
		bad.Envelope.Dispatches[0].Parameters = []byte("{")
		w.publish(s, broker.Nacked, bad)
		if got := s.Publish(background, []broker.Message{dispatch("", "q", 2), bad, dispatch("", "q", 3)}); !slices.Equal(got, []broker.Outcome{broker.Confirmed, broker.Nacked, broker.Confirmed}) {
			t.Errorf("outcomes %v", got)
		}
		w.publish(s, broker.Confirmed, dispatches("", "q", 4, 4+encodedWithin)...)
		for _, m := range w.b.queue("q").ready {
			if m.body == nil {
				t.Errorf("message %d was not encoded", m.id)
			}
		}
	})
	w.run(hour)
	if n := w.r.count(history.Published, ""); n != 2+encodedWithin {
		t.Errorf("%d messages arrived", n)
	}
}

// Of each shape one of the first messages is encoded, and then one in encodedEach. The sample decides
// which ones, and nothing else.
func TestWhichMessagesAreEncoded(t *testing.T) {
	m := hint("executor-1/1", broker.Change{Key: execution.Key{ID: 7, Epoch: 1}, To: execution.Requested}).Envelope
	handled := m
	handled.Changes = []broker.Change{{Key: execution.Key{ID: 7, Epoch: 1}, To: execution.Completed, Handled: true}}
	firsts := map[[2]int]bool{}
	for sample := range uint64(50) {
		w, again := newEncoding(sample), newEncoding(sample)
		var due, dueHandled []int
		for n := range 3 * encodedEach {
			if w.due(&m) {
				due = append(due, n)
			}
			if w.due(&handled) {
				dueHandled = append(dueHandled, n)
			}
			again.due(&m)
			again.due(&handled)
		}
		for _, numbers := range [][]int{due, dueHandled} {
			if len(numbers) != 3 || numbers[0] >= encodedWithin || numbers[1] != numbers[0]+encodedEach || numbers[2] != numbers[1]+encodedEach {
				t.Fatalf("sample %d: encoded are %v", sample, numbers)
			}
		}
		if w != again {
			t.Fatalf("sample %d: %v, and again %v", sample, w, again)
		}
		firsts[[2]int{due[0], dueHandled[0]}] = true
		if w.suspect = true; !w.due(&m) {
			t.Fatal("a run with a mistake does not encode everything")
		}
	}
	if len(firsts) < 40 {
		t.Errorf("50 samples encode %d different pairs of messages first", len(firsts))
	}
}

// A copy, also a dead letter, is what the body of the publish carries.
func TestADeadLetterHasTheBodyOfItsMessage(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("main", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, mortal("quorum", broker.Topic, 0))
		m := dispatch("x", "work", 1)
		m.Envelope.Dispatches[0].Action.Timeout = time.Nanosecond
		w.publish(s, broker.Confirmed, m)
		c := w.consume(s, "q", 0)
		d, _ := w.receive(c)
		c.Reject(d, false)
		dead, ok := w.receive(w.consume(s, "dead", 0))
		if !ok || dead.Envelope.Dispatches[0].Action.Timeout != time.Millisecond {
			t.Errorf("%v, received %v", dead.Envelope, ok)
		}
	})
	w.run(hour)
}

// A body that can't be read reaches the consumer as it is, and a difference is reported. An
// envelope that changes after it was encoded stands in here for a core that writes it badly.
func TestAMessageThatIsReadOtherwiseIsReported(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(p *publish)
	}{
		{"another change", "arrives with the change", func(p *publish) { p.envelope.Changes[0].To = execution.Failed }},
		{"unreadable", "can't be read", func(p *publish) { p.body.text = p.body.text[1:] }},
		{"not as hints are written", "the fast reader of hints leaves", func(p *publish) { p.body.text = append([]byte(" "), p.body.text...) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1)
			w.spawn("main", func(_ *kernel.Process, s broker.Session) {
				w.declare(s, plain("quorum"))
				w.b.encoding.offset = [shapes]uint32{}
				p := &publish{peer: s.(*session).peer, key: "q", batch: &batch{outcomes: make([]broker.Outcome, 1)}}
				p.envelope = hint("executor-1/1", broker.Change{Key: execution.Key{ID: 7, Epoch: 1}, From: execution.Running, To: execution.Completed}).Envelope
				p.batch.wait = w.k.NewWait()
				if !p.encode() {
					t.Error("not written")
					return
				}
				c.spoil(p)
				s.(*session).conn.SendToServer(p)
				got, ok := w.receive(w.consume(s, "q", 0))
				if unreadable := c.want == "can't be read"; !ok || (got.Malformed != nil) != unreadable || (string(got.Body) == string(p.body.text)) != unreadable {
					t.Errorf("received %+v, %v", got, ok)
				}
			})
			w.run(hour)
			if wrongs := w.r.wrongs(); len(wrongs) != 1 || !strings.Contains(wrongs[0], c.want) {
				t.Errorf("reported %q, want %q in it", wrongs, c.want)
			}
			if !w.b.encoding.suspect {
				t.Error("the run does not encode everything from now on")
			}
		})
	}
}
