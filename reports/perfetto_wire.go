package reports

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// The fields of Perfetto's trace format that are written, and the types of its events. The names are
// those of perfetto_trace.proto; a test decodes a trace with that schema.
const (
	tracePacket = 1

	packetTimestamp  protowire.Number = 8
	packetSequence   protowire.Number = 10
	packetTrackEvent protowire.Number = 11
	packetTrack      protowire.Number = 60

	trackUUID     protowire.Number = 1
	trackName     protowire.Number = 2
	trackProcess  protowire.Number = 3
	trackParent   protowire.Number = 5
	trackChildren protowire.Number = 11
	trackRank     protowire.Number = 12

	processPID  protowire.Number = 1
	processSort protowire.Number = 3
	processName protowire.Number = 6

	eventNotes        protowire.Number = 4
	eventType         protowire.Number = 9
	eventTrack        protowire.Number = 11
	eventCategories   protowire.Number = 22
	eventName         protowire.Number = 23
	eventFlows        protowire.Number = 47
	eventFlowsThatEnd protowire.Number = 48

	noteUint protowire.Number = 3
	noteText protowire.Number = 6
	noteName protowire.Number = 10

	childrenByRank = 3
	sliceBegin     = 1
	sliceEnd       = 2
	instant        = 3
)

// perfettoText limits a text in bytes.
const perfettoText = 300

// perfettoNote is an argument of an event: a text, or a number other than 0.
type perfettoNote struct {
	name, text string
	number     uint64
}

// perfettoEvent is one event of a track.
type perfettoEvent struct {
	kind     uint64
	at       time.Duration
	track    uint64
	name     string
	category string
	// flow joins the events of one message; 0 for none. ends says that it goes no further.
	flow  uint64
	ends  bool
	notes []perfettoNote
}

// perfettoWriter writes packets one by one. The first error stays.
type perfettoWriter struct {
	out                *bufio.Writer
	err                error
	packet, part, note []byte
}

func newPerfettoWriter(w io.Writer) *perfettoWriter { return &perfettoWriter{out: bufio.NewWriter(w)} }

// write ends the present packet. Everything is of one sequence, so packets keep their order where
// their times are equal.
func (w *perfettoWriter) write() {
	w.packet = number(w.packet, packetSequence, 1)
	head := protowire.AppendTag(nil, tracePacket, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(len(w.packet)))
	for _, part := range [][]byte{head, w.packet} {
		if _, err := w.out.Write(part); err != nil && w.err == nil {
			w.err = fmt.Errorf("writing the trace: %w", err)
		}
	}
	w.packet = w.packet[:0]
}

// close writes what is left.
func (w *perfettoWriter) close() error {
	if err := w.out.Flush(); err != nil && w.err == nil {
		w.err = fmt.Errorf("writing the trace: %w", err)
	}
	return w.err
}

// process declares the track of a process.
func (w *perfettoWriter) process(uuid uint64, name string) {
	w.note = number(w.note[:0], processPID, uuid)
	w.note = number(w.note, processSort, uuid)
	w.note = text(w.note, processName, name)
	w.part = number(w.part[:0], trackUUID, uuid)
	w.part = message(w.part, trackProcess, w.note)
	w.packet = message(w.packet, packetTrack, w.part)
	w.write()
}

// track declares any other track. Children with a rank stand in its order.
func (w *perfettoWriter) track(uuid, parent uint64, name string, rank uint64) {
	w.part = number(w.part[:0], trackUUID, uuid)
	w.part = text(w.part, trackName, name)
	if parent != 0 {
		w.part = number(w.part, trackParent, parent)
	} else {
		w.part = number(w.part, trackChildren, childrenByRank)
	}
	if rank != 0 {
		w.part = number(w.part, trackRank, rank)
	}
	w.packet = message(w.packet, packetTrack, w.part)
	w.write()
}

func (w *perfettoWriter) event(e *perfettoEvent) {
	w.part = number(w.part[:0], eventType, e.kind)
	w.part = number(w.part, eventTrack, e.track)
	if e.kind != sliceEnd {
		w.part = text(w.part, eventName, e.name)
		w.part = text(w.part, eventCategories, e.category)
	}
	for _, n := range e.notes {
		w.note = text(w.note[:0], noteName, n.name)
		if n.text != "" {
			w.note = text(w.note, noteText, n.text)
		} else {
			w.note = number(w.note, noteUint, n.number)
		}
		w.part = message(w.part, eventNotes, w.note)
	}
	if e.flow != 0 {
		field := eventFlows
		if e.ends {
			field = eventFlowsThatEnd
		}
		w.part = protowire.AppendTag(w.part, field, protowire.Fixed64Type)
		w.part = protowire.AppendFixed64(w.part, e.flow)
	}
	w.packet = number(w.packet, packetTimestamp, uint64(max(0, e.at)))
	w.packet = message(w.packet, packetTrackEvent, w.part)
	w.write()
}

func number(b []byte, field protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), value)
}

func text(b []byte, field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), firstBytes(clean(firstBytes(value, 4*perfettoText)), perfettoText))
}

func message(b []byte, field protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), value)
}
