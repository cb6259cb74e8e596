// Package telemetry is the narrow seam through which the core reports figures. A daemon counts
// them for Prometheus; a simulated run discards them and pays one interface call.
package telemetry

// Counter names something that the core counts.
type Counter uint8

// The counters of the core.
const (
	// StaleWrites counts guarded writes that matched no row.
	StaleWrites Counter = iota
	// RefusedResults counts results of workers that had lost the execution.
	RefusedResults
	// DispatchesConfirmed, DispatchesReturned, DispatchesRefused and DispatchesUnknown count
	// dispatches by the outcome of their publish.
	DispatchesConfirmed
	DispatchesReturned
	DispatchesRefused
	DispatchesUnknown
	// DispatchesRepublished counts dispatches published again at the same epoch.
	DispatchesRepublished
	// DeadLettersHandled and DeadLettersMalformed count dead letters.
	DeadLettersHandled
	DeadLettersMalformed
	// WorkersReaped counts incarnations marked lost.
	WorkersReaped
	// LeasesFenced counts how often a worker ended its actions because it could not renew.
	LeasesFenced
	// RetriesCreated counts retries.
	RetriesCreated
)

// Recorder takes figures.
type Recorder interface {
	Add(c Counter, n int)
}

// Discard is a Recorder that keeps nothing.
type Discard struct{}

// Add implements Recorder.
func (Discard) Add(Counter, int) {}
