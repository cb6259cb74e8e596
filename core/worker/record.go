package worker

import (
	"sync"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
)

// slots is the number of parts of the window. Old runs are dropped one part at a time, so memory use does not
// depend on the rate of runs.
const slots = 60

// runRecord counts how the runs of one incarnation ended, over a sliding window on the worker's monotonic
// clock. It drops old runs, so that no failure counts forever (defect D43).
type runRecord struct {
	host host.Host
	slot time.Duration

	mu    sync.Mutex
	parts [slots]recordSlot
	// consecutive counts the latest runs in a row whose failures blame the worker. lastFailure is when the
	// latest such failure was.
	consecutive int
	lastFailure time.Duration
}

// recordSlot is one slot of the window.
type recordSlot struct {
	// number is the index of the slot, counted from the start of the clock.
	number        int64
	total, failed int
	took          time.Duration
}

func newRunRecord(h host.Host, window time.Duration) *runRecord {
	return &runRecord{host: h, slot: max(1, window/slots)}
}

// noteEnd records the end of a run. It ignores runs that ended by a stop of the worker, which prove nothing
// about its health.
func (r *runRecord) noteEnd(reason execution.Reason, took time.Duration) {
	if reason == execution.WorkerShutdown {
		return
	}
	now := r.host.Monotonic()
	r.mu.Lock()
	defer r.mu.Unlock()
	number := int64(now / r.slot)
	p := &r.parts[number%slots]
	if p.number != number {
		*p = recordSlot{number: number}
	}
	p.total++
	p.took += took
	if !reason.BlamesWorker() {
		r.consecutive = 0
		return
	}
	p.failed++
	r.consecutive++
	r.lastFailure = now
}

// sumFigures returns the totals of the current window.
func (r *runRecord) sumFigures() execution.Figures {
	now := r.host.Monotonic()
	r.mu.Lock()
	defer r.mu.Unlock()
	f := execution.Figures{Consecutive: r.consecutive}
	oldest := int64(now/r.slot) - slots + 1
	var took time.Duration
	for i := range r.parts {
		if p := &r.parts[i]; p.number >= oldest {
			f.Total += p.total
			f.Failed += p.failed
			took += p.took
		}
	}
	if f.Total > 0 {
		f.Average = took / time.Duration(f.Total)
	}
	if f.Failed+f.Consecutive > 0 {
		f.LastFailure = now - r.lastFailure
	}
	return f
}
