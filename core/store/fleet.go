package store

import (
	"time"

	"handoff/core/execution"
)

// WorkerKey names one incarnation of one worker.
type WorkerKey struct {
	ID          execution.WorkerID
	Incarnation execution.Incarnation
}

// WorkerRow is a worker's state at the time of the call, by the database's clock.
type WorkerRow struct {
	WorkerKey
	Name          string
	Lifecycle     execution.Lifecycle
	Runtimes      []string
	Capacity      int
	ConsumerAlive bool
	// Beat is the number of its latest heartbeat.
	Beat uint64
	// LastBeat is the time of its latest heartbeat, zero before the first. It is only for display.
	LastBeat time.Time
	// SinceBeat is the time since its latest heartbeat or, before the first, since its registration.
	SinceBeat time.Duration
	// LeaseOverFor is the time since the lease ended; zero or less while it is valid.
	LeaseOverFor time.Duration
	// Load counts the rows that are scheduled at this incarnation or run on it. Queued counts only
	// the scheduled ones.
	Load, Queued int
	// FullFor is the time since a claim took the last free slot; 0 while a slot is free. A dispatch that
	// waits at this worker may have to wait about as long again.
	FullFor time.Duration
	// Cordoned reports whether an operator has excluded the worker from new work, for the reason
	// CordonReason. CordonChangedBy is the Actor of the latest Cordon, set or lifted.
	Cordoned        bool
	CordonReason    string
	CordonChangedBy string
	// Figures are the figures that the incarnation reported last, with their ages brought up to date.
	Figures execution.Figures
	// Expired holds the ages of reclaims of dispatches that the incarnation, although active, did not claim
	// by their deadline (Reclaim.Counts). The latest is first, and there are at most a hundred. The worker
	// can't report these itself.
	Expired []time.Duration
	// HealthURL is the address of its health endpoint; empty for none.
	HealthURL string
	// Messages is the latest version of a dispatch message that the worker reports it can read. 0 means that
	// it reports none and reads the first version.
	Messages int
	// Unreadable names the values of the row that this program can't read; their fields are left at
	// zero. Empty if there are none.
	Unreadable string
}

// LeaseValid reports whether now ≤ lease_expires_at (defect D34).
func (w *WorkerRow) LeaseValid() bool { return w.LeaseOverFor <= 0 }

// Evidence returns all known failures of the worker within the window: those that it reports, and the
// dispatches that it left unclaimed, which it can't report. The unclaimed dispatches count as consecutive
// failures even if the worker has run others since: a successful run does not show that it receives every
// dispatch.
func (w *WorkerRow) Evidence(window time.Duration) execution.Figures {
	f := w.Figures
	for i, ago := range w.Expired {
		if ago > window {
			break
		}
		if i == 0 && (f.Failed+f.Consecutive == 0 || ago < f.LastFailure) {
			f.LastFailure = ago
		}
		f.Total++
		f.Failed++
		f.Consecutive++
	}
	return f
}

// Fits reports whether the worker may get an execution of this runtime now, regardless of its health.
func (w *WorkerRow) Fits(runtime string) bool {
	if w.Unreadable != "" || w.Lifecycle != execution.Active || !w.LeaseValid() || !w.ConsumerAlive || w.Cordoned {
		return false
	}
	return w.Runs(runtime)
}

// Runs reports whether the worker offers a runtime.
func (w *WorkerRow) Runs(runtime string) bool {
	for _, r := range w.Runtimes {
		if r == runtime {
			return true
		}
	}
	return false
}

// Cordon is an operator's request to exclude a worker from new work, or to include it again. It belongs to
// the worker's name and outlives the incarnation.
type Cordon struct {
	Worker execution.WorkerID
	// On sets the cordon; false lifts it.
	On     bool
	Reason string
	// Drain also asks the process of the present incarnation to drain and stop. The reply to its next
	// heartbeat carries the request, even if a later incarnation of the process sends it.
	Drain bool
	// Actor is the requester, as in Reclaim.Actor.
	Actor string
}
