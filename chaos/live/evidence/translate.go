package evidence

import (
	"math"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// row is a row of any table, as the trigger wrote it. Columns that its table lacks are zero.
type row struct {
	ID            int64      `json:"id"`
	Execution     int64      `json:"execution"`
	Status        string     `json:"status"`
	Epoch         int64      `json:"epoch"`
	Worker        int64      `json:"worker"`
	Incarnation   int64      `json:"incarnation"`
	Dispatches    int64      `json:"dispatches"`
	Original      int64      `json:"original_execution"`
	RetryCount    int64      `json:"retry_count"`
	MaxRetries    int64      `json:"max_retries"`
	RunTimeout    float64    `json:"timeout_seconds"`
	WaitTimeout   float64    `json:"dispatch_timeout_seconds"`
	FailureReason string     `json:"failure_reason"`
	RetryReason   string     `json:"retry_reason"`
	Reason        string     `json:"reason"`
	Error         string     `json:"error"`
	By            string     `json:"written_by"`
	Writer        int64      `json:"written_incarnation"`
	Named         int64      `json:"written_epoch"`
	WrittenReason string     `json:"written_reason"`
	RetryAt       *time.Time `json:"retry_at"`
	Deadline      *time.Time `json:"dispatch_deadline"`
	RunDeadline   *time.Time `json:"run_deadline"`
	SchedulingAt  *time.Time `json:"scheduling_at"`
	ScheduledAt   *time.Time `json:"scheduled_at"`
	StartedAt     *time.Time `json:"started_at"`
	PublishedAt   *time.Time `json:"published_at"`
	Ended         *time.Time `json:"ended"`
	Orchestrated  *time.Time `json:"orchestrated_at"`
	Created       *time.Time `json:"created"`
	Cancel        *time.Time `json:"cancel_requested_at"`
	Action        string     `json:"action_ref"`
	Key           string     `json:"idempotency_key"`
	Parent        int64      `json:"parent"`
	Awaits        bool       `json:"awaits_parent"`
	Number        int64      `json:"number"`
	Part          string     `json:"part"`
	Would         string     `json:"would"`
	At            *time.Time `json:"at"`
	EndedAt       *time.Time `json:"ended_at"`

	Runtime       string   `json:"runtime"`
	Pinned        int64    `json:"pinned_worker"`
	Runtimes      []string `json:"runtimes"`
	Capacity      int64    `json:"capacity"`
	ConsumerAlive bool     `json:"consumer_alive"`
	Capabilities  struct {
		Health healthFigures `json:"health"`
	} `json:"capabilities"`
	Cordoned *time.Time `json:"cordoned_at"`

	Name       string     `json:"name"`
	Lifecycle  string     `json:"lifecycle"`
	Beat       int64      `json:"beat"`
	Lease      *time.Time `json:"lease_expires_at"`
	LastBeat   *time.Time `json:"last_heartbeat"`
	Registered *time.Time `json:"registered_at"`
}

// healthFigures holds a worker's statistics about its runs, as reported in a heartbeat.
type healthFigures struct {
	Total       int64      `json:"total_executions"`
	Failed      int64      `json:"failed_executions"`
	Consecutive int64      `json:"consecutive_failures"`
	LastFailure *time.Time `json:"last_failure"`
}

// hasFailure reports whether the statistics contain a failure.
func (h *healthFigures) hasFailure() bool { return h.Consecutive+h.Failed > 0 }

// differsFrom reports whether the statistics are new information, by the same rule as in the database's model.
func (h *healthFigures) differsFrom(was *healthFigures) bool {
	return h.Consecutive != was.Consecutive || h.Failed != was.Failed || h.hasFailure() && h.Total != was.Total
}

// translation turns one row change into events.
type translation struct {
	start   time.Time
	at      time.Time
	process string
	was     *row
	*row
}

// sinceStart returns the time since the start; 0 for nil.
func (tr *translation) sinceStart(t *time.Time) time.Duration {
	if t == nil {
		return 0
	}
	return t.Sub(tr.start)
}

// decisionTime returns the time at which the database decided the change, if the row has it. Otherwise it
// returns the time of the trigger, which fires slightly later.
func (tr *translation) decisionTime(t *time.Time) time.Duration {
	if t == nil || t.After(tr.at) {
		return tr.at.Sub(tr.start)
	}
	return t.Sub(tr.start)
}

func (tr *translation) newEvent(kind history.Kind) history.Event {
	return history.Event{At: tr.at.Sub(tr.start), Kind: kind, Process: tr.process}
}

func (tr *translation) chainID() execution.ID {
	if tr.Original != 0 {
		return execution.ID(tr.Original)
	}
	return execution.ID(tr.ID)
}

func (tr *translation) executionEvents() ([]history.Event, error) {
	var events []history.Event
	status, err := execution.ParseStatus(tr.Status)
	if err != nil {
		return nil, err
	}
	if tr.was == nil {
		e, err := tr.creationEvent(status)
		return []history.Event{e}, err
	}
	// A claim that also marks its dispatch as published does so first, as in the model.
	if tr.was.PublishedAt == nil && tr.PublishedAt != nil {
		e := tr.newEvent(history.PublishedMarked)
		e.At = tr.decisionTime(tr.PublishedAt)
		e.Execution, e.Epoch = execution.ID(tr.ID), execution.Epoch(tr.Epoch)
		events = append(events, e)
	}
	if tr.was.Status != tr.Status {
		e, err := tr.transitionEvent(status)
		if err != nil {
			return nil, err
		}
		if e.From == execution.Requested && e.To == execution.Scheduled {
			// One update made both transitions (migration 00012). A row shows only its last state.
			claim := e
			claim.To, claim.At = execution.Scheduling, tr.decisionTime(tr.SchedulingAt)
			claim.Epoch, claim.Worker, claim.Incarnation, claim.Due = e.OldEpoch, 0, 0, 0
			e.From = execution.Scheduling
			events = append(events, claim)
		}
		events = append(events, e)
	}
	if tr.was.Awaits && !tr.Awaits && tr.was.Status == tr.Status {
		e := tr.newEvent(history.ChildStarted)
		e.Execution, e.Related = execution.ID(tr.ID), execution.ID(tr.Parent)
		events = append(events, e)
	}
	if tr.was.Cancel == nil && tr.Cancel != nil {
		// Order fills in the chain's last row and its status.
		e := tr.newEvent(history.CancelRequested)
		e.Execution, e.Chain, e.Action = execution.ID(tr.ID), tr.chainID(), tr.Action
		events = append([]history.Event{e}, events...)
	}
	// A changed mark means that the end was handled twice.
	if tr.Orchestrated != nil && (tr.was.Orchestrated == nil || !tr.was.Orchestrated.Equal(*tr.Orchestrated)) {
		e := tr.newEvent(history.Orchestrated)
		e.At = tr.decisionTime(tr.Orchestrated)
		e.Execution, e.Chain, e.From = execution.ID(tr.ID), tr.chainID(), status
		e.Count = tr.RetryCount // Order finds the retry by this count
		if e.Reason, err = execution.ParseReason(tr.FailureReason); err != nil {
			return nil, err
		}
		if tr.Ended != nil {
			e.Due = tr.Orchestrated.Sub(*tr.Ended)
		}
		events = append(events, e)
	}
	return events, nil
}

func (tr *translation) creationEvent(status execution.Status) (e history.Event, err error) {
	e = tr.newEvent(history.Created)
	e.At = tr.decisionTime(tr.Created)
	e.Execution, e.Chain, e.To = execution.ID(tr.ID), tr.chainID(), status
	e.Count, e.Limit, e.Due = tr.RetryCount, tr.MaxRetries, tr.sinceStart(tr.RetryAt)
	e.Action, e.Key, e.Worker, e.Text = tr.Action, tr.Key, execution.WorkerID(tr.Pinned), tr.Runtime
	e.RunTimeout, e.DispatchTimeout = oracle.DefaultRunTimeout, secondsToDuration(tr.WaitTimeout)
	if tr.RunTimeout > 0 {
		e.RunTimeout = secondsToDuration(tr.RunTimeout)
	}
	if tr.Awaits {
		e.Related = execution.ID(tr.Parent)
	}
	if e.By, err = execution.ParsePart(tr.By); err != nil {
		return e, err
	}
	e.Reason, err = execution.ParseReason(tr.RetryReason)
	return e, err
}

// secondsToDuration converts seconds from the database, rounded to microseconds.
func secondsToDuration(s float64) time.Duration {
	return time.Duration(math.Round(s*1e6)) * time.Microsecond
}

func (tr *translation) transitionEvent(to execution.Status) (e history.Event, err error) {
	e = tr.newEvent(history.Transition)
	e.Execution, e.Chain, e.To = execution.ID(tr.ID), tr.chainID(), to
	e.Epoch, e.OldEpoch, e.Named = execution.Epoch(tr.Epoch), execution.Epoch(tr.was.Epoch), execution.Epoch(tr.Named)
	e.Worker, e.Incarnation = execution.WorkerID(tr.Worker), execution.Incarnation(tr.Incarnation)
	if tr.Incarnation == 0 {
		e.Worker, e.Incarnation = execution.WorkerID(tr.was.Worker), execution.Incarnation(tr.was.Incarnation)
	}
	e.Writer, e.Count = execution.Incarnation(tr.Writer), tr.Dispatches
	switch to {
	case execution.Requested:
		e.Due = tr.sinceStart(tr.RetryAt)
	case execution.Scheduling:
		e.At = tr.decisionTime(tr.SchedulingAt)
	case execution.Scheduled:
		e.At, e.Due = tr.decisionTime(tr.ScheduledAt), tr.sinceStart(tr.Deadline)
	case execution.Running:
		e.At, e.Due = tr.decisionTime(tr.StartedAt), tr.sinceStart(tr.RunDeadline)
	case execution.Canceling:
		e.Due = tr.sinceStart(tr.RunDeadline)
	case execution.Failed:
		e.At, e.Text = tr.decisionTime(tr.Ended), tr.Error
	default:
		if oracle.Terminal(to) {
			e.At = tr.decisionTime(tr.Ended)
		}
	}
	if e.From, err = execution.ParseStatus(tr.was.Status); err != nil {
		return e, err
	}
	if e.By, err = execution.ParsePart(tr.By); err != nil {
		return e, err
	}
	e.Reason, err = execution.ParseReason(tr.WrittenReason)
	return e, err
}

func (tr *translation) workerEvents() ([]history.Event, error) {
	e := tr.newEvent(history.WorkerRegistered)
	e.Worker, e.Incarnation = execution.WorkerID(tr.Worker), execution.Incarnation(tr.Incarnation)
	if tr.was == nil {
		e.At, e.Due = tr.decisionTime(tr.Registered), tr.sinceStart(tr.Lease)
		e.Limit, e.Text = tr.Capacity, strings.Join(tr.Runtimes, " ")
		return []history.Event{e}, nil
	}
	var events []history.Event
	if tr.was.Beat != tr.Beat {
		e.Kind, e.Count, e.Due = history.HeartbeatRenewed, tr.Beat, tr.sinceStart(tr.Lease)
		e.At = tr.decisionTime(tr.LastBeat)
		if tr.ConsumerAlive {
			e.Limit = 1
		}
		events = append(events, e)
		if f := &tr.Capabilities.Health; f.differsFrom(&tr.was.Capabilities.Health) {
			events = append(events, tr.healthEvent(f))
		}
	}
	if tr.was.Lifecycle != tr.Lifecycle {
		life, err := execution.ParseLifecycle(tr.Lifecycle)
		if err != nil {
			return nil, err
		}
		e := tr.newEvent(history.WorkerLifecycle)
		e.Worker, e.Incarnation, e.Lifecycle = execution.WorkerID(tr.Worker), execution.Incarnation(tr.Incarnation), life
		events = append(events, e)
	}
	return events, nil
}

func (tr *translation) healthEvent(f *healthFigures) history.Event {
	e := tr.newEvent(history.HealthReported)
	e.At = tr.decisionTime(tr.LastBeat)
	e.Worker, e.Incarnation = execution.WorkerID(tr.Worker), execution.Incarnation(tr.Incarnation)
	e.Count, e.Limit, e.Message = f.Consecutive, f.Failed, uint64(max(0, f.Total))
	if f.hasFailure() {
		e.Due = tr.sinceStart(f.LastFailure)
	}
	return e
}

// cordonEvents returns the event for an operator's change of a worker.
func (tr *translation) cordonEvents() []history.Event {
	e := tr.newEvent(history.WorkerCordoned)
	e.Worker = execution.WorkerID(tr.ID)
	if tr.Cordoned != nil {
		e.Count = 1
	}
	return []history.Event{e}
}

// slotEvents returns the events of a concurrency slot that is freed, taken, or passed on.
func (tr *translation) slotEvents() []history.Event {
	var events []history.Event
	note := func(kind history.Kind, id int64) {
		if id == 0 {
			return
		}
		e := tr.newEvent(kind)
		e.Execution, e.Action, e.Count = execution.ID(id), tr.Action, tr.Number
		events = append(events, e)
	}
	note(history.SlotFreed, tr.was.Execution)
	note(history.SlotTaken, tr.Execution)
	return events
}

func (tr *translation) refusedResultEvents() ([]history.Event, error) {
	e := tr.newEvent(history.RefusedResult)
	e.Execution, e.Epoch, e.Incarnation = execution.ID(tr.Execution), execution.Epoch(tr.Epoch), execution.Incarnation(tr.Incarnation)
	var err error
	e.To, err = execution.ParseStatus(tr.Status)
	return []history.Event{e}, err
}

func (tr *translation) deadLetterEvents() ([]history.Event, error) {
	e := tr.newEvent(history.DeadLetterStored)
	e.Execution, e.Epoch = execution.ID(tr.Execution), execution.Epoch(tr.Epoch)
	return []history.Event{e}, nil
}

// observationEvents returns an event for the action that an observe-only part would have taken.
func (tr *translation) observationEvents() ([]history.Event, error) {
	e := tr.newEvent(history.Observed)
	e.At = tr.decisionTime(tr.At)
	e.Worker, e.Incarnation = execution.WorkerID(tr.Worker), execution.Incarnation(tr.Incarnation)
	if tr.Execution == 0 {
		e.Count = 1
		if tr.EndedAt != nil {
			e.At, e.Count = tr.decisionTime(tr.EndedAt), 0
		}
		return []history.Event{e}, nil
	}
	e.Execution, e.Epoch = execution.ID(tr.Execution), execution.Epoch(tr.Epoch)
	var err error
	if e.To, err = execution.ParseStatus(tr.Would); err != nil {
		return nil, err
	}
	if e.By, err = execution.ParsePart(tr.Part); err != nil {
		return nil, err
	}
	e.Reason, err = execution.ParseReason(tr.Reason)
	return []history.Event{e}, err
}
