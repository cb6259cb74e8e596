package simbroker

import (
	"handoff/chaos/history"
	"handoff/chaos/policies"
	"handoff/core/broker"
)

// encoding decides which messages are encoded. An encoded message crosses the simulated broker as it
// crosses a real one: Publish writes its body, and consumers receive what Decode makes of the body.
// Dispatches and changes in the history are those that were sent.
//
// Encoding and decoding every message would cost a run a third of its time. So most messages cross
// as envelopes. The codec keeps nothing from one message to the next, so a mistake in it concerns
// all messages of a shape, and a sweep has thousands of runs:
//
//   - Of each shape a run encodes one message of the first encodedWithin, and then each
//     encodedEach-th. Which one is the first depends on the run (Options.Sample), so a sweep also
//     encodes messages of rare shapes. No stream is asked, because its other draws would change.
//   - A message that does not carry all of its envelope (policies.Loses) is always encoded. So it
//     does not depend on its number whether a consumer sees what no message carries.
//   - After the first message that could not be written, or was read otherwise than it was sent,
//     every message of the run is encoded. So a core with such a mistake meets it as in production.
//
// Each encoded message is compared with what the core's readers make of it (policies.Misread). A
// difference is an event of the history, which violates invariant 31.
type encoding struct {
	sent [shapes]uint32
	// offset is the number of the first encoded message of each shape, counted from 0.
	offset [shapes]uint32
	// suspect says that a message of this run was not carried as it should be.
	suspect bool
}

const (
	encodedWithin = 128
	encodedEach   = 512
)

// newEncoding decides by sample which messages are encoded.
func newEncoding(sample uint64) (x encoding) {
	lots := policies.Lots(sample, "encoded")
	for i := range x.offset {
		x.offset[i] = uint32(lots(encodedWithin)) //nolint:gosec // below encodedWithin
	}
	return x
}

// shapes is the number of different shapes: a type, whether it carries more than one dispatch or
// change, and whether the first change is the end of an execution that was handled.
const shapes = broker.Types * 4

func shape(e *broker.Envelope) int {
	s := int(e.Type) * 4
	if len(e.Dispatches) > 1 || len(e.Changes) > 1 {
		s += 2
	}
	if len(e.Changes) > 0 && e.Changes[0].Handled {
		s++
	}
	return s
}

// due says whether a message has to be encoded, and counts it.
func (x *encoding) due(e *broker.Envelope) bool {
	at := shape(e)
	n := x.sent[at]
	x.sent[at]++
	return x.suspect || n%encodedEach == x.offset[at] || policies.Loses(e)
}

// body is the encoded form of a message. Its copies share it.
type body struct {
	text []byte
	// envelope is what Decode made of it; err is its error.
	envelope broker.Envelope
	err      error
}

// encode encodes the message if it is due. It returns false if the core refuses to write it.
func (p *publish) encode() bool {
	x := &p.peer.b.encoding
	if !x.due(&p.envelope) {
		return true
	}
	text, err := broker.Encode(&p.envelope)
	if err != nil {
		x.suspect = true
		return false
	}
	p.body = &body{text: text}
	return true
}

// decode reads the body of an encoded message that has arrived, and compares it with what was sent.
func (p *publish) decode() {
	if p.body == nil {
		return
	}
	d := p.body
	d.envelope, d.err = broker.Decode(d.text)
	if wrong := policies.Misread(&p.envelope, &d.envelope, d.err, func() policies.Readers { return policies.BothReaders(d.text) }); wrong != "" {
		b := p.peer.b
		b.encoding.suspect = true
		b.observe(&history.Event{
			Kind: history.PoliciesAsked, Process: p.peer.process, Message: p.id, Type: uint8(p.envelope.Type), Count: 1, Text: wrong + "; see docs/queues.md",
		})
	}
}

// show puts the message into a delivery, as the real client would read it.
func (m *message) show(d *broker.Delivery) {
	switch {
	case m.corrupt != "":
		d.Malformed = errMalformed
		if m.hostile {
			d.Malformed = errHostile
		}
		d.Body = []byte("{\"message_type\": \xff")
		if m.size > len(d.Body) {
			d.Body = append(d.Body, make([]byte, m.size-len(d.Body))...)
		}
	case m.body == nil:
		d.Envelope = *m.envelope
	case m.body.err != nil:
		d.Malformed, d.Body = m.body.err, m.body.text
	default:
		d.Envelope = m.body.envelope
	}
}
