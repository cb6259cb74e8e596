package reports

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"text/template"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// Describe describes one event in a line of plain English: the time, the process or server, and the action.
//
//	12.402s  worker shell-1 (incarnation 3) claimed execution 7 at epoch 2: scheduled → running
func Describe(e *history.Event, workers map[execution.WorkerID]string) string {
	t := newDescriber(workers)
	return FormatTime(e.At) + "  " + t.subject(e) + " " + t.predicate(e)
}

// describer describes events. named holds the names of the workers' processes.
type describer struct {
	workers map[execution.WorkerID]string
	named   map[string]bool
}

func newDescriber(workers map[execution.WorkerID]string) describer {
	t := describer{workers: workers, named: make(map[string]bool, len(workers))}
	for _, name := range workers {
		t.named[name] = true
	}
	return t
}

// subject returns the subject of an event's sentence, and predicate its predicate.
func (d describer) subject(e *history.Event) string { return d.fillSentence(e, "who") }

func (d describer) predicate(e *history.Event) string { return d.fillSentence(e, "what") }

func (d describer) fillSentence(e *history.Event, part string) string {
	k := e.Kind
	if int(k) >= history.Kinds {
		k = history.NoKind
	}
	var b strings.Builder
	if err := sentences().ExecuteTemplate(&b, k.String()+part, clause{e, d}); err != nil {
		return err.Error()
	}
	return b.String()
}

// sentences returns the parsed templates of kindRows.
var sentences = sync.OnceValue(func() *template.Template { //nolint:gochecknoglobals // as constant as kindRows
	all := template.New("")
	for k, row := range kindRows {
		name := history.Kind(k).String()
		template.Must(all.New(name + "who").Parse(cmp.Or(row.who, "{{.Actor `someone`}}")))
		template.Must(all.New(name + "what").Parse(row.what))
	}
	return all
})

// clause is the data for the templates of kindRows: an event's fields, and the phrases that the methods below
// return.
type clause struct {
	*history.Event
	t describer
}

// Actor returns the process, or otherwise if the process is unknown.
func (c clause) Actor(otherwise string) string { return c.t.processOr(c.Process, otherwise) }

// Author returns the part or worker that wrote the change.
func (c clause) Author() string { return c.t.describeWriter(c.Event) }

// Owner returns the description of the worker.
func (c clause) Owner() string { return c.t.describeWorker(c.Worker, c.Incarnation) }

// QueueName describes the queue.
func (c clause) QueueName() string { return c.t.describeQueue(c.Queue) }

// Letter describes the message.
func (c clause) Letter() string { return c.t.describeMessage(c.Event) }

// Many returns the count with its noun.
func (c clause) Many(noun string) string { return plural(c.Count, noun) }

// Moment formats Due as a time of the run.
func (c clause) Moment() string { return FormatTime(c.Due) }

// Log returns the logged line, with the names of queue owners.
func (c clause) Log() string { return c.t.nameQueueOwners(c.Text) }

// Because returns a phrase with the reason, if there is one.
func (c clause) Because() string { return becauseOf(c.Reason) }

// Touched names what a fault affected.
func (c clause) Touched() string { return c.t.touchedText(c.Event) }

// Change describes a change of status.
func (c clause) Change() string { return c.t.describeTransition(c.Event) }

// Write returns the verb for a refused write.
func (c clause) Write() string {
	switch c.To {
	case execution.Running:
		return "claim"
	case execution.None:
		return "change"
	default:
		return "write " + c.To.String() + " to"
	}
}

// describeTransition describes a change of status with a verb, for readers who don't know the table of
// statuses. It adds the statuses for those who do.
func (d describer) describeTransition(e *history.Event) string {
	owner := d.describeWorker(e.Worker, e.Incarnation)
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
	s += becauseOf(e.Reason)
	s += fmt.Sprintf(": %s → %s", e.From, e.To)
	if e.Text != "" {
		s += " (“" + e.Text + "”)"
	}
	if e.From.Claimed() && e.By != execution.Worker && e.To.Terminal() {
		s += ", while it belonged to " + owner
	}
	if e.By == execution.Worker && e.Worker != 0 && d.describeWriter(e) != owner {
		s += ", though it belongs to " + owner
	}
	if e.Named != 0 && e.OldEpoch != 0 && e.Named != e.OldEpoch {
		s += fmt.Sprintf(", in the name of epoch %d when it was at %d", e.Named, e.OldEpoch)
	}
	return s
}

// describeMessage names a message by its type and by its number, which distinguishes copies.
func (d describer) describeMessage(e *history.Event) string {
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

func (d describer) describeWriter(e *history.Event) string {
	switch e.By {
	case execution.Worker:
	case execution.API:
		return partName(e.By) // the event's process is irrelevant
	default:
		return partName(e.By) + prefixName(" of ", e.Process)
	}
	incarnation := cmp.Or(e.Writer, e.Incarnation)
	if e.Process == "" || e.Process == d.workers[e.Worker] {
		return d.describeWorker(e.Worker, incarnation)
	}
	who := d.processOr(e.Process, "a worker")
	if e.Writer != 0 {
		who += fmt.Sprintf(" (incarnation %d)", e.Writer)
	}
	return who
}

func (d describer) describeWorker(id execution.WorkerID, incarnation execution.Incarnation) string {
	if id == 0 {
		return "no worker"
	}
	if incarnation == 0 {
		return "worker " + d.workerName(id)
	}
	return fmt.Sprintf("worker %s (incarnation %d)", d.workerName(id), incarnation)
}

// workerName returns a worker's name, or its number if it has no name.
func (d describer) workerName(id execution.WorkerID) string {
	if name := d.workers[id]; name != "" {
		return name
	}
	return "#" + strconv.FormatInt(int64(id), 10)
}

func (d describer) processOr(process, otherwise string) string {
	switch {
	case process == "":
		return otherwise
	case d.named[process]:
		return "worker " + process
	}
	return process
}

// describeQueue names a queue and, for a worker's queue, the worker, so that readers of "worker.3.executions"
// need not look up the number.
func (d describer) describeQueue(name string) string {
	worker, what := d.queueOwner(name)
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

// workerQueue matches the name of a worker's queue: the number of the worker, and the content of the queue.
var workerQueue = regexp.MustCompile(`\bworker\.(\d+)\.(executions|cancels)\b`)

// queueOwner returns the name of the worker that owns a queue, and the content of the queue; empty for other
// queues.
func (d describer) queueOwner(queue string) (worker, what string) {
	m := workerQueue.FindStringSubmatch(queue)
	if len(m) == 0 || m[0] != queue {
		return "", ""
	}
	id, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return "", ""
	}
	return d.workers[execution.WorkerID(id)], m[2]
}

// nameQueueOwners adds workers' names to the names of their queues in a text.
func (d describer) nameQueueOwners(text string) string {
	return workerQueue.ReplaceAllStringFunc(text, func(queue string) string {
		if worker, _ := d.queueOwner(queue); worker != "" {
			return queue + " (" + worker + ")"
		}
		return queue
	})
}

func (d describer) touchedText(e *history.Event) string {
	switch {
	case e.Message != 0:
		return " to " + d.describeMessage(e)
	case e.Execution != 0:
		return fmt.Sprintf(" to execution %d", e.Execution)
	case e.Queue != "":
		return " to " + d.describeQueue(e.Queue)
	}
	return prefixName(" for ", e.Process)
}

// prefixName puts words in front of a name. It returns an empty text for an empty name.
func prefixName(words, name string) string {
	if name == "" {
		return ""
	}
	return words + name
}

// partName returns a part's name for use in a sentence.
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

func becauseOf(r execution.Reason) string {
	if r == execution.NoReason {
		return ""
	}
	return " because of " + r.String()
}
