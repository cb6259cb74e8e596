package history

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Hasher is a sink that condenses a history to one number. Two runs of one seed must get the same
// number: in one process or two, under any GOMAXPROCS, with and without the race detector. It reads
// only numbers and names, never texts or the output of a formatter.
type Hasher struct {
	digest *xxhash.Digest
	buffer []byte
	events uint64
}

// NewHasher returns a hasher that has seen no event.
func NewHasher() *Hasher {
	return &Hasher{digest: xxhash.New(), buffer: make([]byte, 0, hashedAtOnce+512)}
}

// hashedAtOnce is how many bytes of events are hashed together: a digest spends as much time on the
// beginning and the end of a short piece as on the piece.
const hashedAtOnce = 2048

// Observe implements Sink.
func (h *Hasher) Observe(e *Event) {
	if e.Kind.ForReaders() {
		return
	}
	h.events++
	h.buffer = e.AppendBinary(h.buffer)
	if len(h.buffer) >= hashedAtOnce {
		h.flush()
	}
}

func (h *Hasher) flush() {
	_, _ = h.digest.Write(h.buffer)
	h.buffer = h.buffer[:0]
}

// Sum is the hash of the events seen so far.
func (h *Hasher) Sum() uint64 {
	h.flush()
	return h.digest.Sum64()
}

// Events is the number of events seen so far.
func (h *Hasher) Events() uint64 { return h.events }

// AppendBinary appends the canonical form of an event: every field except Text, and the exit code of
// an action, in a fixed order, each name after its length.
func (e *Event) AppendBinary(b []byte) []byte {
	count := e.Count
	if e.Kind == ActionEnded {
		count = 0
	}
	numbers := [...]uint64{
		uint64(e.At), e.Step, uint64(e.Kind), uint64(e.Execution), uint64(e.Chain), uint64(e.Related), uint64(e.Epoch), uint64(e.OldEpoch),
		uint64(e.Named), uint64(e.From)<<16 | uint64(e.To)<<8 | uint64(e.By), uint64(e.Reason)<<16 | uint64(e.Lifecycle)<<8 | uint64(e.Type),
		uint64(e.Worker), uint64(e.Incarnation), uint64(e.Writer), e.Message, uint64(count), uint64(e.Limit), uint64(e.Due),
	}
	at := len(b)
	b = append(b, make([]byte, 8*len(numbers))...)
	for i, n := range numbers {
		binary.LittleEndian.PutUint64(b[at+8*i:], n)
	}
	if e.Kind == Created {
		b = binary.LittleEndian.AppendUint64(b, uint64(e.RunTimeout))
		b = binary.LittleEndian.AppendUint64(b, uint64(e.DispatchTimeout))
	}
	for _, s := range [...]string{e.Process, e.Action, e.Key, e.Queue, e.Fault} {
		b = append(b, byte(len(s)))
		b = append(b, s...)
	}
	return b
}
