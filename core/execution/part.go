package execution

import "fmt"

// Part is a part of the system that writes statuses. It stands in the audit trail and in a failed
// execution's result (`failed_by`), so that a reader sees who decided.
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

// Parts is how many values Part has, NoPart included.
const Parts = int(Worker) + 1

// String is the name in results and logs, as the contract spells it.
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
