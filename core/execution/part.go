package execution

import "fmt"

// Part is a part of the system that writes statuses. The audit trail and a failed execution's
// result (`failed_by`) name it, so that a reader sees which part decided.
type Part uint8

// The parts that may write a status.
const (
	NoPart Part = iota
	API
	Scheduler
	TimeoutMonitor
	DeadLetterHandler
	Reconciler
	RetryManager
	ExecutionManager
	Worker
)

// Parts is the number of values of Part, including NoPart.
const Parts = int(Worker) + 1

// String returns the part's name in results and logs, as in the contract.
func (p Part) String() string {
	switch p {
	case NoPart:
		return "nobody"
	case API:
		return "api"
	case Scheduler:
		return "scheduler"
	case TimeoutMonitor:
		return "execution_timeout_monitor"
	case DeadLetterHandler:
		return "dead_letter_handler"
	case Reconciler:
		return "reconciler"
	case RetryManager:
		return "retry_manager"
	case ExecutionManager:
		return "execution_manager"
	case Worker:
		return "worker"
	}
	return fmt.Sprintf("part(%d)", uint8(p))
}

// ParsePart returns the part whose String is name. An unknown name is an error.
func ParsePart(name string) (Part, error) {
	for p := NoPart + 1; int(p) < Parts; p++ {
		if p.String() == name {
			return p, nil
		}
	}
	return NoPart, fmt.Errorf("unknown part %q", name)
}
