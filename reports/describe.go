package reports

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// Describe describes one event in a line of plain English: when, which process or server, what.
//
//	12.402s  worker shell-1 (incarnation 3) claimed execution 7 at epoch 2: scheduled → running
func Describe(e *history.Event, workers map[execution.WorkerID]string) string {
	t := newTeller(workers)
	return FormatTime(e.At) + "  " + t.who(e) + " " + t.what(e)
}

// teller describes events. It knows the workers' names, by id and as names of processes.
type teller struct {
	workers map[execution.WorkerID]string
	named   map[string]bool
}

func newTeller(workers map[execution.WorkerID]string) teller {
	t := teller{workers: workers, named: make(map[string]bool, len(workers))}
	for _, name := range workers {
		t.named[name] = true
	}
	return t
}

// who is the subject of the sentence; what is its predicate.
func (t teller) who(e *history.Event) string {
	switch e.Kind {
	case history.FaultBegan, history.FaultEnded, history.FaultTouched:
		return "the fault “" + e.Fault + "”"
	case history.AlertFired, history.AlertResolved:
		return "the alert " + e.Fault
	case history.Created, history.Transition, history.StaleWrite:
		return t.writer(e)
	case history.CancelRequested, history.ActionDefined, history.KeyKnown:
		return t.or(e.Process, "the API")
	case history.Orchestrated, history.PublishedMarked, history.ChildStarted, history.SlotTaken, history.SlotFreed,
		history.Purged, history.WorkerPurged:
		return t.or(e.Process, "the executor")
	case history.RefusedResult:
		return "the database"
	case history.DeadLetterStored:
		return of("the dead letter handler", e.Process)
	case history.Observed:
		if e.Execution == 0 {
			return of("the health prober", e.Process)
		}
		return of("the "+e.By.String(), e.Process)
	case history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed, history.HealthReported,
		history.WorkerCordoned, history.ActionStarted, history.ActionEnded, history.EndAsked, history.ToldGone:
		return t.worker(e.Worker, e.Incarnation)
	case history.Published, history.PublishReturned, history.Delivered, history.Acked, history.Hinted, history.ConsumerTimedOut:
		return t.or(e.Process, "someone")
	case history.Enqueued, history.Requeued:
		return t.queue(e.Queue)
	case history.Expired, history.Rejected, history.ReturnedTooOften, history.DeadLettered, history.Dropped:
		return t.message(e)
	case history.DatabaseDown, history.DatabaseUp, history.ClockStepped, history.DatabaseRewound, history.RowUnreadable, history.RowLocked:
		return "the database"
	case history.BrokerDown, history.BrokerUp:
		return "the broker"
	case history.Quiescent:
		return "everything accepted"
	case history.MutantActed:
		return "the mutant in " + t.or(e.Process, "")
	}
	return t.or(e.Process, "someone")
}

func (t teller) what(e *history.Event) string {
	switch e.Kind {
	case history.ProcessStarted:
		return "started"
	case history.ProcessCrashed:
		return "crashed"
	case history.ProcessStopping:
		return "was asked to stop"
	case history.ProcessStopped:
		return "stopped by itself"
	case history.ProcessPaused:
		return "was paused: it does nothing, but its clocks and its actions go on"
	case history.ProcessResumed:
		return "goes on after its pause"
	case history.ProcessFrozen:
		return "was frozen with its whole machine, clocks and actions too"
	case history.ProcessThawed:
		return "was thawed"
	case history.FaultBegan:
		return "began" + toProcess(e.Process)
	case history.FaultEnded:
		return "ended" + toProcess(e.Process)
	case history.FaultTouched:
		return "made a difference" + t.touched(e)
	case history.DatabaseDown, history.BrokerDown:
		return "went down"
	case history.DatabaseUp, history.BrokerUp:
		return "is up again"
	case history.DatabaseRewound:
		return fmt.Sprintf("has lost everything since %v: a replica that had stopped following then has taken over", e.Due)
	case history.RowUnreadable:
		if e.Count == 0 {
			return fmt.Sprintf("has a readable row of execution %d again", e.Execution)
		}
		return fmt.Sprintf("has a row of execution %d that only a newer program can read", e.Execution)
	case history.RowLocked:
		if e.Count == 0 {
			return fmt.Sprintf("has released the lock of another program on the row of execution %d", e.Execution)
		}
		return fmt.Sprintf("has locked the row of execution %d for another program", e.Execution)
	case history.ClockStepped:
		return fmt.Sprintf("had its clock moved by %v", e.Due)
	case history.AlertFired:
		return "fired"
	case history.AlertResolved:
		return "was resolved"
	case history.Logged:
		return "logged: " + t.owned(e.Text)
	case history.MutantActed:
		if e.Execution != 0 {
			return fmt.Sprintf("acted on execution %d: %s", e.Execution, e.Text)
		}
		return "acted: " + e.Text
	case history.Quiescent:
		return "is finished and every queue is empty"
	case history.ActionDefined, history.KeyKnown, history.ChildStarted, history.CancelRequested, history.SlotTaken, history.SlotFreed:
		return chain(e)
	case history.Created, history.Transition, history.StaleWrite, history.Orchestrated,
		history.PublishedMarked, history.RefusedResult, history.DeadLetterStored:
		return t.row(e)
	case history.WorkerRegistered, history.WorkerLifecycle, history.HeartbeatRenewed, history.HealthReported,
		history.WorkerCordoned, history.ActionStarted, history.ActionEnded, history.EndAsked, history.ToldGone:
		return work(e)
	case history.Observed:
		return t.observed(e)
	case history.Purged:
		return fmt.Sprintf("deleted the chain of execution %d (%s), as it had ended at least %v ago", e.Execution, plural(e.Count, "row"), e.Due)
	case history.WorkerPurged:
		what := t.worker(e.Worker, e.Incarnation)
		if e.Count > 0 {
			what += " and the name with it"
		}
		return fmt.Sprintf("deleted %s, as its lease had ended at least %v ago", what, e.Due)
	}
	return t.transport(e)
}

// row describes what happened to an execution's row.
func (t teller) row(e *history.Event) string {
	switch e.Kind {
	case history.Created:
		return created(e)
	case history.Transition:
		return t.transition(e)
	case history.StaleWrite:
		act := fmt.Sprintf("write %s to", e.To)
		switch e.To {
		case execution.Running:
			act = "claim"
		case execution.None:
			act = "change"
		default:
		}
		return fmt.Sprintf("tried to %s execution %d at epoch %d and was refused: its epoch or status has changed since", act, e.Execution, e.Epoch)
	case history.Orchestrated:
		s := fmt.Sprintf("finished the handling of execution %d (%s)", e.Execution, e.From)
		if e.Related != 0 {
			s += fmt.Sprintf(": its retry is execution %d", e.Related)
		}
		return s
	case history.PublishedMarked:
		return fmt.Sprintf("noted that the dispatch of execution %d at epoch %d is published", e.Execution, e.Epoch)
	case history.RefusedResult:
		return fmt.Sprintf("refused the result %s of execution %d from epoch %d (incarnation %d), which does not own it",
			e.To, e.Execution, e.Epoch, e.Incarnation)
	}
	return fmt.Sprintf("stored the dead letter of execution %d at epoch %d%s", e.Execution, e.Epoch, because(e.Reason))
}

// chain describes an event about more than one execution: an action, a chain, a parent.
func chain(e *history.Event) string {
	switch e.Kind {
	case history.ActionDefined:
		if e.Count == 0 {
			return fmt.Sprintf("defined the action %s", e.Action)
		}
		return fmt.Sprintf("defined the action %s, with a limit of %d executions at a time", e.Action, e.Count)
	case history.KeyKnown:
		return fmt.Sprintf("answered a request under the idempotency key %q with execution %d, created %v before", e.Key, e.Execution, e.Due)
	case history.ChildStarted:
		return fmt.Sprintf("let execution %d begin: its parent, execution %d, has completed", e.Execution, e.Related)
	case history.CancelRequested:
		return fmt.Sprintf("filed a request to cancel the chain of execution %d, whose last one is execution %d (%s)", e.Chain, e.Execution, e.From)
	case history.SlotTaken:
		return fmt.Sprintf("gave slot %d of %s to execution %d", e.Count, e.Action, e.Execution)
	}
	return fmt.Sprintf("took slot %d of %s back from execution %d", e.Count, e.Action, e.Execution)
}

func created(e *history.Event) string {
	s := fmt.Sprintf("created execution %d", e.Execution)
	if e.Count > 0 || (e.Chain != 0 && e.Chain != e.Execution) {
		s += fmt.Sprintf(" as retry %d of execution %d", e.Count, e.Chain)
	}
	if e.Related != 0 {
		s += fmt.Sprintf(" as a child of execution %d", e.Related)
	}
	s += because(e.Reason)
	if e.Due > 0 {
		s += ", due at " + FormatTime(e.Due)
	}
	return fmt.Sprintf("%s: %s", s, e.To)
}

// transition describes a change of status with a verb, so that a reader need not know the table of
// statuses, and with the statuses, so that a reader who does can check.
func (t teller) transition(e *history.Event) string {
	owner := t.worker(e.Worker, e.Incarnation)
	x := fmt.Sprintf("execution %d", e.Execution)
	epoch := fmt.Sprintf(" at epoch %d", e.Epoch)
	var s string
	switch {
	case e.To == execution.Scheduling:
		s = "took up " + x + " to find a worker"
	case e.To == execution.Scheduled:
		s = "dispatched " + x + " to " + owner + epoch
	case e.To == execution.Running:
		s = "claimed " + x + epoch
	case e.From == execution.Scheduling && e.To == execution.Requested:
		s = "put " + x + " back: no dispatch yet"
	case e.To == execution.Requested && e.By == execution.Worker:
		s = "handed " + x + " back unclaimed"
	case e.To == execution.Requested:
		s = "took " + x + " back from " + owner
	case e.To == execution.Canceling:
		s = "asked " + owner + " to cancel " + x
	default:
		s = map[execution.Status]string{
			execution.Completed: "completed ", execution.Failed: "failed ", execution.Cancelled: "cancelled ",
			execution.Timeout: "ended on its run deadline ", execution.Abandoned: "gave up as abandoned ",
		}[e.To] + x + epoch
	}
	s += because(e.Reason)
	s += fmt.Sprintf(": %s → %s", e.From, e.To)
	if e.Text != "" {
		s += " (“" + e.Text + "”)"
	}
	if e.From.Claimed() && e.By != execution.Worker && e.To.Terminal() {
		s += ", while it belonged to " + owner
	}
	if e.By == execution.Worker && e.Worker != 0 && t.writer(e) != owner {
		s += ", though it belongs to " + owner
	}
	if e.Named != 0 && e.OldEpoch != 0 && e.Named != e.OldEpoch {
		s += fmt.Sprintf(", in the name of epoch %d when it was at %d", e.Named, e.OldEpoch)
	}
	return s
}

// observed describes what an observing part would have done.
func (t teller) observed(e *history.Event) string {
	switch {
	case e.Execution != 0:
		return fmt.Sprintf("observes only: it would mark execution %d at epoch %d %s%s", e.Execution, e.Epoch, e.To, because(e.Reason))
	case e.Count > 0:
		return "observes only: it would avoid " + t.worker(e.Worker, e.Incarnation) + ", which does not answer that it is ready"
	}
	return "observes only: " + t.worker(e.Worker, e.Incarnation) + " answers that it is ready again"
}

// work describes a worker's activity, except writes of statuses.
func work(e *history.Event) string {
	switch e.Kind {
	case history.WorkerRegistered:
		return "registered"
	case history.WorkerLifecycle:
		if e.Lifecycle == execution.Lost {
			return "was declared lost"
		}
		return "became " + e.Lifecycle.String()
	case history.HeartbeatRenewed:
		return fmt.Sprintf("renewed its lease by heartbeat %d until %s of the database's clock", e.Count, FormatTime(e.Due))
	case history.HealthReported:
		return fmt.Sprintf("reported that %d of its last %d runs failed by its own fault, the last %d in a row", e.Limit, e.Message, e.Count)
	case history.WorkerCordoned:
		if e.Count == 0 {
			return "may get new work again: an operator lifted its cordon"
		}
		return "gets no new work: an operator cordoned it"
	case history.ActionStarted:
		return fmt.Sprintf("started the action of execution %d at epoch %d", e.Execution, e.Epoch)
	case history.ToldGone:
		if e.Count > 0 {
			return "was told that another process has taken its name"
		}
		return "was told that it was declared lost"
	case history.EndAsked:
		return fmt.Sprintf("asked the action of execution %d at epoch %d to end within %v", e.Execution, e.Epoch, e.Due)
	}
	return fmt.Sprintf("ended the action of execution %d at epoch %d: %s%s", e.Execution, e.Epoch, e.To, because(e.Reason))
}

// message names a message by its subject and by its number, which distinguishes copies.
func (t teller) message(e *history.Event) string {
	name := messageType(e.Type)
	if name == "" {
		name = "message"
	}
	s := fmt.Sprintf("%s #%d", name, e.Message)
	if e.Execution != 0 {
		s += fmt.Sprintf(" for execution %d at epoch %d", e.Execution, e.Epoch)
	}
	if e.Limit > 0 {
		s += fmt.Sprintf(" (dispatch %d of its message)", e.Limit)
	}
	return s
}

func (t teller) writer(e *history.Event) string {
	switch e.By {
	case execution.Worker:
	case execution.API:
		return partName(e.By) // the process that called it is irrelevant
	default:
		return of(partName(e.By), e.Process)
	}
	incarnation := cmp.Or(e.Writer, e.Incarnation)
	if e.Process == "" || e.Process == t.workers[e.Worker] {
		return t.worker(e.Worker, incarnation)
	}
	who := t.or(e.Process, "a worker")
	if e.Writer != 0 {
		who += fmt.Sprintf(" (incarnation %d)", e.Writer)
	}
	return who
}

func (t teller) worker(id execution.WorkerID, incarnation execution.Incarnation) string {
	if id == 0 {
		return "no worker"
	}
	if incarnation == 0 {
		return "worker " + t.name(id)
	}
	return fmt.Sprintf("worker %s (incarnation %d)", t.name(id), incarnation)
}

// name is a worker's name, or its number if it has none.
func (t teller) name(id execution.WorkerID) string {
	if name := t.workers[id]; name != "" {
		return name
	}
	return "#" + strconv.FormatInt(int64(id), 10)
}

func (t teller) or(process, otherwise string) string {
	switch {
	case process == "":
		return otherwise
	case t.named[process]:
		return "worker " + process
	}
	return process
}

// queue names a queue and, for a worker's queue, the worker: with "worker.3.executions" alone a
// reader would have to look the number up.
func (t teller) queue(name string) string {
	worker, what := t.queueOwner(name)
	switch {
	case worker != "" && what == "executions":
		return "the queue of worker " + worker
	case worker != "":
		return "the queue of " + what + " of worker " + worker
	case name == "":
		return "a queue"
	}
	return "queue " + name
}

// workerQueue is the name of a worker's queue: with the number of the worker, and what is in it.
var workerQueue = regexp.MustCompile(`\bworker\.(\d+)\.(executions|cancels)\b`)

// queueOwner is the name of the worker that owns a queue, and what is in the queue; empty for a queue
// of others.
func (t teller) queueOwner(queue string) (worker, what string) {
	m := workerQueue.FindStringSubmatch(queue)
	if len(m) == 0 || m[0] != queue {
		return "", ""
	}
	id, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return "", ""
	}
	return t.workers[execution.WorkerID(id)], m[2]
}

// owned adds the names of workers to the names of their queues in a text.
func (t teller) owned(text string) string {
	return workerQueue.ReplaceAllStringFunc(text, func(queue string) string {
		if worker, _ := t.queueOwner(queue); worker != "" {
			return queue + " (" + worker + ")"
		}
		return queue
	})
}

func (t teller) touched(e *history.Event) string {
	switch {
	case e.Message != 0:
		return " to " + t.message(e)
	case e.Execution != 0:
		return fmt.Sprintf(" to execution %d", e.Execution)
	case e.Queue != "":
		return " to " + t.queue(e.Queue)
	}
	return toProcess(e.Process)
}

func toProcess(name string) string {
	if name == "" {
		return ""
	}
	return " for " + name
}

func of(part, process string) string {
	if process == "" {
		return part
	}
	return part + " of " + process
}

// partName is the name of a part in a sentence.
func partName(p execution.Part) string {
	switch p {
	case execution.API:
		return "the API"
	case execution.TimeoutMonitor:
		return "the timeout monitor"
	case execution.NoPart:
		return "someone"
	}
	return "the " + strings.ReplaceAll(p.String(), "_", " ")
}

func because(r execution.Reason) string {
	if r == execution.NoReason {
		return ""
	}
	return " because of " + r.String()
}
