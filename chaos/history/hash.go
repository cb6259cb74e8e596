package history

import (
	"encoding/binary"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Hasher is a sink that hashes a history. Two runs of one seed must get the same number: in one process or
// two, under any GOMAXPROCS, with and without the race detector. It reads only numbers and names, never texts
// or the output of a formatter.
type Hasher struct {
	digest *xxhash.Digest
	buffer []byte
	events uint64
}

// NewHasher returns a hasher that has received no events.
func NewHasher() *Hasher {
	return &Hasher{digest: xxhash.New(), buffer: make([]byte, 0, hashedAtOnce+512)}
}

// hashedAtOnce is the number of bytes that are buffered and hashed together: for short writes, a digest has
// as much overhead as work.
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

// Sum returns the hash of the events so far.
func (h *Hasher) Sum() uint64 {
	h.flush()
	return h.digest.Sum64()
}

// Events returns the number of events so far.
func (h *Hasher) Events() uint64 { return h.events }

// AppendBinary appends the canonical form of an event: every field except Text, and the exit code of
// an action, in a fixed order, each name after its length.
func (e *Event) AppendBinary(b []byte) []byte {
	count := e.Count
	if e.Kind == ActionEnded {
		count = 0
	}
	kind := uint64(e.Kind)
	if e.Kind >= ToldGone {
		// This number belonged to a kind that was removed. The later kinds keep their numbers in hashes, so
		// hashes stay valid.
		kind++
	}
	// All numbers are written in one place without a loop, because this code handles every event of a run.
	const numbers = 18
	at := len(b)
	b = slices.Grow(b, 8*numbers)[:at+8*numbers]
	to := (*[8 * numbers]byte)(b[at:])
	binary.LittleEndian.PutUint64(to[0:], uint64(e.At))
	binary.LittleEndian.PutUint64(to[8:], e.Step)
	binary.LittleEndian.PutUint64(to[16:], kind)
	binary.LittleEndian.PutUint64(to[24:], uint64(e.Execution))
	binary.LittleEndian.PutUint64(to[32:], uint64(e.Chain))
	binary.LittleEndian.PutUint64(to[40:], uint64(e.Related))
	binary.LittleEndian.PutUint64(to[48:], uint64(e.Epoch))
	binary.LittleEndian.PutUint64(to[56:], uint64(e.OldEpoch))
	binary.LittleEndian.PutUint64(to[64:], uint64(e.Named))
	binary.LittleEndian.PutUint64(to[72:], uint64(e.From)<<16|uint64(e.To)<<8|uint64(e.By))
	binary.LittleEndian.PutUint64(to[80:], uint64(e.Reason)<<16|uint64(e.Lifecycle)<<8|uint64(e.Type))
	binary.LittleEndian.PutUint64(to[88:], uint64(e.Worker))
	binary.LittleEndian.PutUint64(to[96:], uint64(e.Incarnation))
	binary.LittleEndian.PutUint64(to[104:], uint64(e.Writer))
	binary.LittleEndian.PutUint64(to[112:], e.Message)
	binary.LittleEndian.PutUint64(to[120:], uint64(count))
	binary.LittleEndian.PutUint64(to[128:], uint64(e.Limit))
	binary.LittleEndian.PutUint64(to[136:], uint64(e.Due))
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
