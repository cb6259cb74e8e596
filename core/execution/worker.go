package execution

import "fmt"

// Lifecycle is what a worker says of itself. Whether it is alive is another question, answered by
// its lease and never by this (defects D36, D37).
type Lifecycle uint8

// The lifecycle of one incarnation. Only the worker writes it, except Active → Lost and Draining →
// Lost, which the executor writes and which are final for that incarnation.
const (
	NoLifecycle Lifecycle = iota
	Starting
	Active
	Draining
	Stopped
	Lost
)

// Gone says that this incarnation will never own work again.
func (l Lifecycle) Gone() bool { return l == Stopped || l == Lost }

// String is the name in the database.
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
