package execution

import "fmt"

// Lifecycle is the state that a worker reports about itself. It does not show whether the worker is alive:
// only the lease decides that (defects D36, D37).
type Lifecycle uint8

// The lifecycle of one incarnation. Only the worker writes it, with two exceptions: the executor
// writes Active → Lost and Draining → Lost, and both are final for that incarnation.
const (
	NoLifecycle Lifecycle = iota
	Starting
	Active
	Draining
	Stopped
	Lost
)

// Gone reports whether this incarnation has permanently ceased to own work.
func (l Lifecycle) Gone() bool { return l == Stopped || l == Lost }

// String returns the name in the database.
func (l Lifecycle) String() string {
	switch l {
	case NoLifecycle:
		return ""
	case Starting:
		return "starting"
	case Active:
		return "active"
	case Draining:
		return "draining"
	case Stopped:
		return "stopped"
	case Lost:
		return "lost"
	}
	return fmt.Sprintf("lifecycle(%d)", uint8(l))
}

// ParseLifecycle returns the lifecycle whose String is name. An unknown name is an error.
func ParseLifecycle(name string) (Lifecycle, error) {
	for l := Starting; l <= Lost; l++ {
		if l.String() == name {
			return l, nil
		}
	}
	return NoLifecycle, fmt.Errorf("unknown lifecycle %q", name)
}
