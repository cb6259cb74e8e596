package simbroker

import (
	"slices"
	"testing"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/sim/kernel"
)

// hint returns a message with one change.
func hint(id string, c broker.Change) broker.Message {
	return broker.Message{RoutingKey: "q", Envelope: broker.Envelope{
		MessageID: id, Type: broker.ExecutionStatusChanged, Version: broker.WireVersion, Timestamp: time.Unix(1_700_000_000, 5), Changes: []broker.Change{c},
	}}
}

// A consumer receives the decoded body, not the envelope that was sent.
func TestConsumersReceiveDecodedBody(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("main", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain("quorum"))
		m := dispatch("", "q", 1)
		d := &m.Envelope.Dispatches[0]
		d.Action = execution.Action{Ref: "a", Runtime: "shell", Timeout: 1500 * time.Microsecond, Concurrency: 3, RetriedExitCodes: execution.NewExitCodes(7)}
		d.Parameters = []byte(`{ "text": "a<b" }`)
		// Publish enough messages that the sample skips some.
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
}

// A message that the core refuses to encode is Nacked, as by the real client, and arrives nowhere.
func TestUnencodableMessageIsNacked(t *testing.T) {
	w := newWorld(t, 1)
	w.spawn("main", func(_ *kernel.Process, s broker.Session) {
		w.declare(s, plain("quorum"))
		bad := dispatch("", "q", 1)
		bad.Envelope.Dispatches[0].Parameters = []byte("{")
		w.publish(s, broker.Nacked, bad)
		if got := s.Publish(background, []broker.Message{dispatch("", "q", 2), bad, dispatch("", "q", 3)}); !slices.Equal(got, []broker.Outcome{broker.Confirmed, broker.Nacked, broker.Confirmed}) {
			t.Errorf("outcomes %v", got)
		}
	})
	w.run(hour)
	if n := w.r.count(history.Published, ""); n != 2 {
		t.Errorf("%d messages arrived", n)
	}
}

// One of the first encodedEach messages of each shape is encoded, and then one in encodedEach. Only the
// sample determines which ones.
func TestEncodingSamplesEveryShape(t *testing.T) {
	m := hint("executor-1/1", broker.Change{Key: execution.Key{ID: 7, Epoch: 1}, To: execution.Requested}).Envelope
	handled := m
	handled.Changes = []broker.Change{{Key: execution.Key{ID: 7, Epoch: 1}, To: execution.Completed, Handled: true}}
	firsts := map[[2]int]bool{}
	for sample := range uint64(50) {
		w, again := newEncoding(sample), newEncoding(sample)
		var due, dueHandled []int
		for n := range 3 * encodedEach {
			if w.mustEncode(&m) {
				due = append(due, n)
			}
			if w.mustEncode(&handled) {
				dueHandled = append(dueHandled, n)
			}
			again.mustEncode(&m)
			again.mustEncode(&handled)
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
	}
	if len(firsts) < 40 {
		t.Errorf("50 samples encode %d different pairs of messages first", len(firsts))
	}
}

// Every copy, even a dead letter, has the decoded body of the publish.
func TestDeadLetterKeepsItsBody(t *testing.T) {
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

// A lossless message that is decoded differently from what was sent panics. Here, an envelope that changes
// after its encoding simulates a faulty encoder.
func TestMisreadMessagePanics(t *testing.T) {
	for name, spoil := range map[string]func(p *publish){
		"another change": func(p *publish) { p.envelope.Changes[0].To = execution.Failed },
		"another time":   func(p *publish) { p.envelope.Timestamp = p.envelope.Timestamp.Add(1) },
		"unreadable":     func(p *publish) { p.body.text = p.body.text[1:] },
		"":               func(*publish) {},
	} {
		p := &publish{envelope: hint("executor-1/1", broker.Change{Key: execution.Key{ID: 7, Epoch: 1}, From: execution.Running, To: execution.Completed}).Envelope}
		text, err := broker.Encode(&p.envelope)
		if err != nil {
			t.Fatal(err)
		}
		p.body = &body{text: text}
		spoil(p)
		func() {
			defer func() {
				if ended := recover() != nil; ended != (name != "") {
					t.Errorf("%q: the run ended: %v", name, ended)
				}
			}()
			p.decodeBody()
		}()
	}
}

// losesContent is true exactly for messages that are decoded differently or have parameters.
func TestLosesContentDetectsEveryLossyField(t *testing.T) {
	for name, change := range map[string]func(d *broker.Dispatch){
		"":                 func(*broker.Dispatch) {},
		"parameters":       func(d *broker.Dispatch) { d.Parameters = []byte(`{ "a": 1 }`) },
		"slots":            func(d *broker.Dispatch) { d.Action.Concurrency = 5 },
		"author":           func(d *broker.Dispatch) { d.Action.PutBy = "somebody" },
		"exit codes":       func(d *broker.Dispatch) { d.Action.RetriedExitCodes = execution.NewExitCodes(7) },
		"timeout":          func(d *broker.Dispatch) { d.Action.Timeout++ },
		"dispatch timeout": func(d *broker.Dispatch) { d.Action.DispatchTimeout-- },
	} {
		e := dispatch("", "q", 1).Envelope
		e.Dispatches[0].Action = execution.Action{Ref: "a", Runtime: "shell", Entrypoint: "e", Timeout: time.Second, DispatchTimeout: time.Minute, MaxRetries: 3}
		change(&e.Dispatches[0])
		text, err := broker.Encode(&e)
		if err != nil {
			t.Fatal(err)
		}
		read, err := broker.Decode(text)
		if err != nil || losesContent(&e) != (name != "") || sameEnvelope(&e, &read) != (name == "") {
			t.Errorf("%q: loses %v, read as %+v, %v", name, losesContent(&e), read, err)
		}
	}
}
