package netproxy

import (
	"bytes"
	"encoding/binary"
)

// Publish is one message to a broker, in AMQP 0-9-1.
type Publish struct {
	Exchange, Key string
	// ID, Type and CorrelationID are properties of the message.
	ID, Type, CorrelationID string
	Body                    []byte
}

// Publishes rewrites the messages that a client publishes over one connection and passes everything else
// unchanged. change may replace the exchange, the key and bytes of the body, but not the body's length.
func Publishes(change func(*Publish)) Rewriter {
	return newMessages(basicPublish, greeting, func(c *partialMessage) []byte { return rewritePublish(c, change) }).rewriteChunk
}

// Deliveries holds back the messages that a broker delivers over one connection while hold returns true;
// everything else passes. It releases them with the next bytes after hold returns false, at the latest with
// the broker's next heartbeat.
func Deliveries(hold func() bool) Rewriter {
	d := &deliveries{hold: hold}
	d.messageParser = newMessages(basicDeliver, 0, d.passDelivery)
	return d.rewriteChunk
}

// Chain applies the rewriters in order, each to the output of the previous one.
func Chain(all ...Rewriter) Rewriter {
	return func(b []byte) []byte {
		for _, rewrite := range all {
			b = rewrite(b)
		}
		return b
	}
}

// Subscriptions holds back a client's subscriptions to queues over one connection while hold returns true for
// the queue; everything else passes. Frames that follow a held subscription on its channel are held too, in
// order. All are released with the client's next bytes after hold returns false, at the latest with its next
// heartbeat.
func Subscriptions(hold func(queue string) bool) Rewriter {
	s := &subscriptions{hold: hold}
	s.frameParser = frameParser{greet: greeting, each: s.passFrame}
	return s.rewriteChunk
}

type subscriptions struct {
	frameParser
	hold func(queue string) bool
	kept []keptChannel
}

// keptChannel holds the frames of a channel, beginning with a held subscription.
type keptChannel struct {
	channel uint16
	queue   string
	frames  []byte
}

// passFrame returns the frame, or nil while it is held.
func (s *subscriptions) passFrame(f []byte) []byte {
	channel, payload := binary.BigEndian.Uint16(f[1:3]), f[frameHeader:len(f)-1]
	for i := range s.kept {
		if s.kept[i].channel == channel {
			s.kept[i].frames = append(s.kept[i].frames, f...)
			return nil
		}
	}
	if f[0] != frameMethod || !bytes.HasPrefix(payload, basicConsume) || len(payload) < 6 {
		return f
	}
	// A reserved short follows class and method.
	if queue, _ := shortString(payload[6:]); s.hold(queue) {
		s.kept = append(s.kept, keptChannel{channel, queue, f})
		return nil
	}
	return f
}

func (s *subscriptions) rewriteChunk(b []byte) (out []byte) {
	kept := s.kept[:0]
	for _, k := range s.kept {
		if s.hold(k.queue) {
			kept = append(kept, k)
		} else {
			out = append(out, k.frames...)
		}
	}
	s.kept = kept
	return append(out, s.frameParser.rewriteChunk(b)...)
}

type deliveries struct {
	*messageParser
	hold func() bool
	kept []byte
}

func (d *deliveries) passDelivery(c *partialMessage) []byte {
	whole := bytes.Join(c.frames, nil)
	if d.hold() {
		d.kept = append(d.kept, whole...)
		return nil
	}
	return whole
}

func (d *deliveries) rewriteChunk(b []byte) []byte {
	out := d.messageParser.rewriteChunk(b)
	if len(d.kept) == 0 || d.hold() {
		return out
	}
	out = append(d.kept, out...)
	d.kept = nil
	return out
}

// messageParser collects frames into messages. An AMQP connection begins with a greeting of eight bytes from
// the client. Each frame after that consists of a type, a channel, a length, as many bytes, and an end mark.
// A message is a method frame, a header frame and any number of body frames; no other frame of its channel
// comes between these.
type messageParser struct {
	frameParser
	// begins is the prefix by which a method frame's payload is selected.
	begins []byte
	// pass returns the replacement for a whole message.
	pass func(*partialMessage) []byte
	open map[uint16]*partialMessage
}

func newMessages(begins []byte, greet int, pass func(*partialMessage) []byte) *messageParser {
	p := &messageParser{begins: begins, pass: pass, open: make(map[uint16]*partialMessage)}
	p.frameParser = frameParser{greet: greet, each: p.collectFrame}
	return p
}

// frameParser splits the bytes of a connection into frames, after the greeting.
type frameParser struct {
	greet int
	rest  []byte
	// each returns the replacement for a frame.
	each func(frame []byte) []byte
}

// partialMessage is an incomplete message.
type partialMessage struct {
	frames [][]byte
	left   uint64
	headed bool
}

const (
	greeting    = 8
	frameHeader = 7
	frameMethod = 1
	frameHead   = 2
	frameBody   = 3
)

// The payload of a method frame begins with its class and method: 60 and 40 for a publish, 60 and 60 for a
// delivery, 60 and 20 for a subscription.
var basicPublish, basicDeliver, basicConsume = []byte{0, 60, 0, 40}, []byte{0, 60, 0, 60}, []byte{0, 60, 0, 20}

func (f *frameParser) rewriteChunk(b []byte) []byte {
	f.rest = append(f.rest, b...)
	var out []byte
	if f.greet > 0 {
		if len(f.rest) < f.greet {
			return nil
		}
		out = append(out, f.rest[:f.greet]...)
		f.rest, f.greet = f.rest[f.greet:], 0
	}
	for {
		if len(f.rest) < frameHeader {
			return out
		}
		size := frameHeader + int(binary.BigEndian.Uint32(f.rest[3:7])) + 1
		if len(f.rest) < size {
			return out
		}
		out = append(out, f.each(bytes.Clone(f.rest[:size]))...)
		f.rest = f.rest[size:]
	}
}

// collectFrame returns what can be passed on after a frame: the frame itself, nothing, or a whole message.
func (m *messageParser) collectFrame(f []byte) []byte {
	kind, channel, payload := f[0], binary.BigEndian.Uint16(f[1:3]), f[frameHeader:len(f)-1]
	c := m.open[channel]
	switch {
	case c == nil && kind == frameMethod && bytes.HasPrefix(payload, m.begins):
		m.open[channel] = &partialMessage{frames: [][]byte{f}}
		return nil
	case c == nil:
		return f
	case kind == frameHead && len(payload) >= 12:
		c.left, c.headed = binary.BigEndian.Uint64(payload[4:12]), true
	case kind == frameBody:
		c.left -= min(c.left, uint64(len(payload)))
	}
	c.frames = append(c.frames, f)
	if !c.headed || c.left > 0 {
		return nil
	}
	delete(m.open, channel)
	return m.pass(c)
}

// rewritePublish applies change to a whole message.
func rewritePublish(c *partialMessage, change func(*Publish)) []byte {
	method := c.frames[0][frameHeader : len(c.frames[0])-1]
	// A reserved short follows class and method.
	exchange, rest := shortString(method[6:])
	key, flags := shortString(rest)
	m := &Publish{Exchange: exchange, Key: key}
	m.readProperties(c.frames[1])
	for _, f := range c.frames[2:] {
		m.Body = append(m.Body, f[frameHeader:len(f)-1]...)
	}
	size := len(m.Body)
	change(m)
	out := m.methodFrame(c.frames[0], flags)
	out = append(out, c.frames[1]...)
	if len(m.Body) != size {
		m.Body = append(m.Body, make([]byte, size)...)[:size]
	}
	for _, f := range c.frames[2:] {
		n := copy(f[frameHeader:len(f)-1], m.Body)
		m.Body = m.Body[n:]
		out = append(out, f...)
	}
	return out
}

// methodFrame builds the method frame with the message's exchange and key.
func (p *Publish) methodFrame(was, flags []byte) []byte {
	payload := append(bytes.Clone(basicPublish), 0, 0)
	for _, s := range []string{p.Exchange, p.Key} {
		payload = append(payload, byte(len(s)))
		payload = append(payload, s...)
	}
	payload = append(payload, flags...)
	out := bytes.Clone(was[:3])
	out = binary.BigEndian.AppendUint32(out, uint32(len(payload)))
	out = append(out, payload...)
	return append(out, was[len(was)-1])
}

// Flags of the AMQP properties that readProperties needs or must skip by a special length; all others are
// short strings. Properties are in the order of their flags, the highest first.
const (
	hasContentType   = 1 << 15
	hasHeaders       = 1 << 13
	hasDeliveryMode  = 1 << 12
	hasPriority      = 1 << 11
	hasCorrelationID = 1 << 10
	hasMessageID     = 1 << 7
	hasTimestamp     = 1 << 6
	hasType          = 1 << 5
)

// readProperties reads the message's properties from a header frame.
func (p *Publish) readProperties(frame []byte) {
	b := frame[frameHeader : len(frame)-1]
	if len(b) < 14 {
		return
	}
	flags, b := binary.BigEndian.Uint16(b[12:14]), b[14:]
	skip := func(n int) { b = b[min(n, len(b)):] }
	for flag := uint16(hasContentType); flag >= hasType; flag >>= 1 {
		if flags&flag == 0 {
			continue
		}
		var text string
		switch flag {
		case hasHeaders:
			if len(b) >= 4 {
				skip(4 + int(binary.BigEndian.Uint32(b)))
			}
			continue
		case hasDeliveryMode, hasPriority:
			skip(1)
			continue
		case hasTimestamp:
			skip(8)
			continue
		}
		text, b = shortString(b)
		switch flag {
		case hasCorrelationID:
			p.CorrelationID = text
		case hasMessageID:
			p.ID = text
		case hasType:
			p.Type = text
		}
	}
}

// shortString reads a length byte and a string of that length, and returns the string and the rest.
func shortString(b []byte) (text string, rest []byte) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:]
}
