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

// WorkerRow is a worker as the database's clock judges it at the moment of the call.
type WorkerRow struct {
	WorkerKey
	Name          string
	Lifecycle     execution.Lifecycle
	Runtimes      []string
	Capacity      int
	ConsumerAlive bool
	// Beat is the number of its latest heartbeat.
	Beat uint64
	// LastBeat is the time of its latest heartbeat, zero before the first. It is for display, not
	// for comparisons.
	LastBeat time.Time
	// SinceBeat is the time since its latest heartbeat or, before the first, since its
	// registration.
	SinceBeat time.Duration
	// LeaseOverFor is how long ago the lease ended; zero or less while it is valid.
	LeaseOverFor time.Duration
	// Load counts the rows that are scheduled at this incarnation or run on it. Queued counts only
	// the scheduled ones.
	Load, Queued int
	// FullFor is how long every slot of the incarnation has been taken, since the claim that took
	// the last one; 0 while a slot is free. A dispatch that waits at this worker may have to wait
	// as long again.
	FullFor time.Duration
	// Cordoned says that an operator keeps new work away, for the reason CordonReason.
	// CordonChangedBy is the Actor of the latest Cordon, set or lifted.
	Cordoned        bool
	CordonReason    string
	CordonChangedBy string
	// Figures are the latest figures that the incarnation reported. Their ages are brought up to
	// the present.
	Figures execution.Figures
	// Expired lists dispatches that were taken back because the incarnation left them unclaimed
	// past their deadline while it stayed active (Reclaim.Counts): how long ago each was taken
	// back, latest first, a hundred at most. The worker can't report those itself.
	Expired []time.Duration
	// HealthURL is the address of its health endpoint; empty for none.
	HealthURL string
	// Messages is the latest version of a dispatch message that the worker says it reads. 0 means
	// that it does not say, and reads the first version.
	Messages int
	// Unreadable says which values of the row this program can't read; their fields are left at
	// zero. Empty if there are none.
	Unreadable string
}

// LeaseValid says whether now ≤ lease_expires_at (defect D34).
func (w *WorkerRow) LeaseValid() bool { return w.LeaseOverFor <= 0 }

// Evidence returns all known failures of the worker within the window: those that it reports, and
// the dispatches that it left unclaimed, which it can't report. The unclaimed ones count as
// consecutive failures, whatever the worker has run since: a successful run says nothing about the
// dispatches that it does not pick up.
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

// Fits says whether the worker may get an execution of this runtime now, whatever its health.
func (w *WorkerRow) Fits(runtime string) bool {
	if w.Unreadable != "" || w.Lifecycle != execution.Active || !w.LeaseValid() || !w.ConsumerAlive || w.Cordoned {
		return false
	}
	return w.Runs(runtime)
}

// Runs says whether the worker offers a runtime.
func (w *WorkerRow) Runs(runtime string) bool {
	for _, r := range w.Runtimes {
		if r == runtime {
			return true
		}
	}
	return false
}

// Cordon is an operator's order to keep new work from a worker, or to lift that. It belongs to the
// worker's name and outlives the incarnation.
type Cordon struct {
	Worker execution.WorkerID
	// On sets the cordon; false lifts it.
	On     bool
	Reason string
	// Drain also asks the process of the present incarnation to drain and stop. Its next heartbeat
	// tells it, even if that belongs to a later incarnation of the process.
	Drain bool
	// Actor asks for it, as in Reclaim.Actor.
	Actor string
}
