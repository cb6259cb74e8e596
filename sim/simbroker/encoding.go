package simbroker

import (
	"fmt"
	"reflect"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
)

// encoding decides which messages are encoded. An encoded message crosses the simulated broker as it
// crosses a real one: Publish encodes its body, and consumers receive the decoded body. The history shows
// the dispatches and changes that were sent.
//
// Encoding and decoding every message would cost a run a third of its time. So a message that does not
// carry all of its envelope (see losesContent) is always encoded, and most others cross as envelopes. Of
// each shape a run encodes one message of the first encodedWithin, and then each encodedEach-th. The first
// one depends on the run (Options.Sample), so a sweep also encodes messages of rare shapes. It is not drawn
// from a stream, because that would change other draws.
//
// core/broker tests that the codec keeps the contract, and that the fast reader of hints reads all hints.
// Here, a lossless message that is decoded differently from what was sent panics.
type encoding struct {
	sent [shapes]uint32
	// offset is the number of the first encoded message of each shape, counted from 0.
	offset [shapes]uint32
}

const (
	encodedWithin = 128
	encodedEach   = 512
)

// newEncoding derives the first encoded message of each shape from sample.
func newEncoding(sample uint64) (x encoding) {
	for i := range x.offset {
		sample = sample*6364136223846793005 + 1442695040888963407 // advance a linear congruential generator
		x.offset[i] = uint32(sample >> 32 % encodedWithin)        //nolint:gosec // below encodedWithin
	}
	return x
}

// shapes is the number of different shapes: the type, whether it has more than one dispatch or change, and
// whether the first change is a handled end of an execution.
const shapes = broker.Types * 4

func shapeOf(e *broker.Envelope) int {
	s := int(e.Type) * 4
	if len(e.Dispatches) > 1 || len(e.Changes) > 1 {
		s += 2
	}
	if len(e.Changes) > 0 && e.Changes[0].Handled {
		s++
	}
	return s
}

// mustEncode reports whether a message must be encoded, and counts it.
func (en *encoding) mustEncode(e *broker.Envelope) bool {
	at := shapeOf(e)
	n := en.sent[at]
	en.sent[at]++
	return n%encodedEach == en.offset[at] || losesContent(e)
}

// losesContent reports whether encoding loses or changes a part of the envelope: parameters, durations below
// a millisecond, or parts of an action.
func losesContent(e *broker.Envelope) bool {
	for i := range e.Dispatches {
		a := &e.Dispatches[i].Action
		if e.Dispatches[i].Parameters != nil || a.Concurrency != 0 || a.PutBy != "" || a.RetriedExitCodes != (execution.ExitCodes{}) ||
			a.Timeout%time.Millisecond != 0 || a.DispatchTimeout%time.Millisecond != 0 {
			return true
		}
	}
	return false
}

// body is the encoded form of a message. Its copies share it.
type body struct {
	text []byte
	// envelope and err are the results of Decode.
	envelope broker.Envelope
	err      error
}

// encodeIfDue encodes the message if it is due. It returns false if the core refuses to write it.
func (p *publish) encodeIfDue() bool {
	if !p.peer.b.encoding.mustEncode(&p.envelope) {
		return true
	}
	text, err := broker.Encode(&p.envelope)
	if err != nil {
		return false
	}
	p.body = &body{text: text}
	return true
}

// decodeBody reads the body of an encoded message that has arrived.
func (p *publish) decodeBody() {
	if p.body == nil {
		return
	}
	d := p.body
	d.envelope, d.err = broker.Decode(d.text)
	if !losesContent(&p.envelope) && (d.err != nil || !sameEnvelope(&p.envelope, &d.envelope)) {
		panic(fmt.Sprintf("the codec reads %s otherwise than it was sent: as %+v, error %v; see docs/queues.md", d.text, d.envelope, d.err))
	}
}

// sameEnvelope reports whether a message was decoded to the envelope that was sent.
func sameEnvelope(sent, read *broker.Envelope) bool {
	a := *sent
	a.Timestamp = read.Timestamp // times may be in another time zone
	return sent.Timestamp.Equal(read.Timestamp) && reflect.DeepEqual(&a, read)
}

// fillDelivery fills a delivery as the real client would read the message.
func (m *message) fillDelivery(d *broker.Delivery) {
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
