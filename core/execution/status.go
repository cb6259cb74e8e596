package execution

import "fmt"

// Status is the stage that an execution has reached. The zero value is none of these: it is the "from" of a
// creation.
type Status uint8

// The ten statuses. From Completed on they are terminal: no row ever leaves them (defect D16).
const (
	None Status = iota
	Requested
	Scheduling
	Scheduled
	Running
	Canceling
	Completed
	Failed
	Cancelled
	Timeout
	Abandoned
)

// Statuses is the number of values of Status, including None: the length of a table indexed by Status.
const Statuses = int(Abandoned) + 1

// Terminal reports whether the status is final.
func (s Status) Terminal() bool { return s >= Completed }

// Claimed reports whether a worker owns the execution.
func (s Status) Claimed() bool { return s == Running || s == Canceling }

// String returns the name in the database, in messages and in scenario files; "none" for None.
func (s Status) String() string {
	switch s {
	case None:
		return "none"
	case Requested:
		return "requested"
	case Scheduling:
		return "scheduling"
	case Scheduled:
		return "scheduled"
	case Running:
		return "running"
	case Canceling:
		return "canceling"
	case Completed:
		return "completed"
	case Failed:
		return "failed"
	case Cancelled:
		return "cancelled"
	case Timeout:
		return "timeout"
	case Abandoned:
		return "abandoned"
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// ParseStatus returns the status whose String is name. An unknown name is an error that quotes it.
func ParseStatus(name string) (Status, error) {
	for s := Requested; s <= Abandoned; s++ {
		if s.String() == name {
			return s, nil
		}
	}
	return None, fmt.Errorf("unknown execution status %q", name)
}
