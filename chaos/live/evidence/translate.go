package evidence

import (
	"math"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/oracle"
	"handoff/core/execution"
)

// row is a row of any of the tables, as the trigger wrote it. Columns that a table lacks are zero.
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

// healthFigures are a worker's figures of its runs, from a heartbeat.
type healthFigures struct {
	Total       int64      `json:"total_executions"`
	Failed      int64      `json:"failed_executions"`
	Consecutive int64      `json:"consecutive_failures"`
	LastFailure *time.Time `json:"last_failure"`
}

// bad says that they contain a failure.
func (f *healthFigures) bad() bool { return f.Consecutive+f.Failed > 0 }

// differs says that they are new information, by the rule of the database's model.
func (f *healthFigures) differs(was *healthFigures) bool {
	return f.Consecutive != was.Consecutive || f.Failed != was.Failed || f.bad() && f.Total != was.Total
}

// translation turns one row's change into events.
type translation struct {
	start   time.Time
	at      time.Time
	process string
	was     *row
	*row
}

// since is a time as time since the start; 0 for none.
func (x *translation) since(t *time.Time) time.Duration {
	if t == nil {
		return 0
	}
	return t.Sub(x.start)
}

// moment is when the database decided the change, if the row says so; the trigger fires slightly
// later.
func (x *translation) moment(t *time.Time) time.Duration {
	if t == nil || t.After(x.at) {
		return x.at.Sub(x.start)
	}
	return t.Sub(x.start)
}

func (x *translation) event(kind history.Kind) history.Event {
	return history.Event{At: x.at.Sub(x.start), Kind: kind, Process: x.process}
}

func (x *translation) chain() execution.ID {
	if x.Original != 0 {
		return execution.ID(x.Original)
	}
	return execution.ID(x.ID)
}

func (x *translation) execution() ([]history.Event, error) {
	var events []history.Event
	status, err := execution.ParseStatus(x.Status)
	if err != nil {
		return nil, err
	}
	if x.was == nil {
		e, err := x.created(status)
		return []history.Event{e}, err
	}
	// A claim that marks its dispatch does so first, as in the model.
	if x.was.PublishedAt == nil && x.PublishedAt != nil {
		e := x.event(history.PublishedMarked)
		e.At = x.moment(x.PublishedAt)
		e.Execution, e.Epoch = execution.ID(x.ID), execution.Epoch(x.Epoch)
		events = append(events, e)
	}
	if x.was.Status != x.Status {
		e, err := x.transition(status)
		if err != nil {
			return nil, err
		}
		if e.From == execution.Requested && e.To == execution.Scheduled {
			// One update made both transitions (migration 00012). A row shows only its last state.
			claim := e
			claim.To, claim.At = execution.Scheduling, x.moment(x.SchedulingAt)
			claim.Epoch, claim.Worker, claim.Incarnation, claim.Due = e.OldEpoch, 0, 0, 0
			e.From = execution.Scheduling
			events = append(events, claim)
		}
		events = append(events, e)
	}
	if x.was.Awaits && !x.Awaits && x.was.Status == x.Status {
		e := x.event(history.ChildStarted)
		e.Execution, e.Related = execution.ID(x.ID), execution.ID(x.Parent)
		events = append(events, e)
	}
	if x.was.Cancel == nil && x.Cancel != nil {
		// Order fills in the chain's last row and its status.
		e := x.event(history.CancelRequested)
		e.Execution, e.Chain, e.Action = execution.ID(x.ID), x.chain(), x.Action
		events = append([]history.Event{e}, events...)
	}
	// A mark that changes is a second handling.
	if x.Orchestrated != nil && (x.was.Orchestrated == nil || !x.was.Orchestrated.Equal(*x.Orchestrated)) {
		e := x.event(history.Orchestrated)
		e.At = x.moment(x.Orchestrated)
		e.Execution, e.Chain, e.From = execution.ID(x.ID), x.chain(), status
		e.Count = x.RetryCount // Order finds the retry by it
		if e.Reason, err = execution.ParseReason(x.FailureReason); err != nil {
			return nil, err
		}
		if x.Ended != nil {
			e.Due = x.Orchestrated.Sub(*x.Ended)
		}
		events = append(events, e)
	}
	return events, nil
}

func (x *translation) created(status execution.Status) (e history.Event, err error) {
	e = x.event(history.Created)
	e.At = x.moment(x.Created)
	e.Execution, e.Chain, e.To = execution.ID(x.ID), x.chain(), status
	e.Count, e.Limit, e.Due = x.RetryCount, x.MaxRetries, x.since(x.RetryAt)
	e.Action, e.Key, e.Worker, e.Text = x.Action, x.Key, execution.WorkerID(x.Pinned), x.Runtime
	e.RunTimeout, e.DispatchTimeout = oracle.DefaultRunTimeout, seconds(x.WaitTimeout)
	if x.RunTimeout > 0 {
		e.RunTimeout = seconds(x.RunTimeout)
	}
	if x.Awaits {
		e.Related = execution.ID(x.Parent)
	}
	if e.By, err = execution.ParsePart(x.By); err != nil {
		return e, err
	}
	e.Reason, err = execution.ParseReason(x.RetryReason)
	return e, err
}

// seconds converts the database's number of seconds, exact to the microsecond.
func seconds(s float64) time.Duration { return time.Duration(math.Round(s*1e6)) * time.Microsecond }

func (x *translation) transition(to execution.Status) (e history.Event, err error) {
	e = x.event(history.Transition)
	e.Execution, e.Chain, e.To = execution.ID(x.ID), x.chain(), to
	e.Epoch, e.OldEpoch, e.Named = execution.Epoch(x.Epoch), execution.Epoch(x.was.Epoch), execution.Epoch(x.Named)
	e.Worker, e.Incarnation = execution.WorkerID(x.Worker), execution.Incarnation(x.Incarnation)
	if x.Incarnation == 0 {
		e.Worker, e.Incarnation = execution.WorkerID(x.was.Worker), execution.Incarnation(x.was.Incarnation)
	}
	e.Writer, e.Count = execution.Incarnation(x.Writer), x.Dispatches
	switch to {
	case execution.Requested:
		e.Due = x.since(x.RetryAt)
	case execution.Scheduling:
		e.At = x.moment(x.SchedulingAt)
	case execution.Scheduled:
		e.At, e.Due = x.moment(x.ScheduledAt), x.since(x.Deadline)
	case execution.Running:
		e.At, e.Due = x.moment(x.StartedAt), x.since(x.RunDeadline)
	case execution.Canceling:
		e.Due = x.since(x.RunDeadline)
	case execution.Failed:
		e.At, e.Text = x.moment(x.Ended), x.Error
	default:
		if oracle.Terminal(to) {
			e.At = x.moment(x.Ended)
		}
	}
	if e.From, err = execution.ParseStatus(x.was.Status); err != nil {
		return e, err
	}
	if e.By, err = execution.ParsePart(x.By); err != nil {
		return e, err
	}
	e.Reason, err = execution.ParseReason(x.WrittenReason)
	return e, err
}

func (x *translation) worker() ([]history.Event, error) {
	e := x.event(history.WorkerRegistered)
	e.Worker, e.Incarnation = execution.WorkerID(x.Worker), execution.Incarnation(x.Incarnation)
	if x.was == nil {
		e.At, e.Due = x.moment(x.Registered), x.since(x.Lease)
		e.Limit, e.Text = x.Capacity, strings.Join(x.Runtimes, " ")
		return []history.Event{e}, nil
	}
	var events []history.Event
	if x.was.Beat != x.Beat {
		e.Kind, e.Count, e.Due = history.HeartbeatRenewed, x.Beat, x.since(x.Lease)
		e.At = x.moment(x.LastBeat)
		if x.ConsumerAlive {
			e.Limit = 1
		}
		events = append(events, e)
		if f := &x.Capabilities.Health; f.differs(&x.was.Capabilities.Health) {
			events = append(events, x.health(f))
		}
	}
	if x.was.Lifecycle != x.Lifecycle {
		life, err := execution.ParseLifecycle(x.Lifecycle)
		if err != nil {
			return nil, err
		}
		e := x.event(history.WorkerLifecycle)
		e.Worker, e.Incarnation, e.Lifecycle = execution.WorkerID(x.Worker), execution.Incarnation(x.Incarnation), life
		events = append(events, e)
	}
	return events, nil
}

func (x *translation) health(f *healthFigures) history.Event {
	e := x.event(history.HealthReported)
	e.At = x.moment(x.LastBeat)
	e.Worker, e.Incarnation = execution.WorkerID(x.Worker), execution.Incarnation(x.Incarnation)
	e.Count, e.Limit, e.Message = f.Consecutive, f.Failed, uint64(max(0, f.Total))
	if f.bad() {
		e.Due = x.since(f.LastFailure)
	}
	return e
}

// cordon is an operator's change of a worker.
func (x *translation) cordon() []history.Event {
	e := x.event(history.WorkerCordoned)
	e.Worker = execution.WorkerID(x.ID)
	if x.Cordoned != nil {
		e.Count = 1
	}
	return []history.Event{e}
}

// slot is a concurrency slot that is freed, taken, or passed on.
func (x *translation) slot() []history.Event {
	var events []history.Event
	note := func(kind history.Kind, id int64) {
		if id == 0 {
			return
		}
		e := x.event(kind)
		e.Execution, e.Action, e.Count = execution.ID(id), x.Action, x.Number
		events = append(events, e)
	}
	note(history.SlotFreed, x.was.Execution)
	note(history.SlotTaken, x.Execution)
	return events
}

func (x *translation) refused() ([]history.Event, error) {
	e := x.event(history.RefusedResult)
	e.Execution, e.Epoch, e.Incarnation = execution.ID(x.Execution), execution.Epoch(x.Epoch), execution.Incarnation(x.Incarnation)
	var err error
	e.To, err = execution.ParseStatus(x.Status)
	return []history.Event{e}, err
}

func (x *translation) deadLetter() ([]history.Event, error) {
	e := x.event(history.DeadLetterStored)
	e.Execution, e.Epoch = execution.ID(x.Execution), execution.Epoch(x.Epoch)
	return []history.Event{e}, nil
}

// observation is what an observing part would have done.
func (x *translation) observation() ([]history.Event, error) {
	e := x.event(history.Observed)
	e.At = x.moment(x.At)
	e.Worker, e.Incarnation = execution.WorkerID(x.Worker), execution.Incarnation(x.Incarnation)
	if x.Execution == 0 {
		e.Count = 1
		if x.EndedAt != nil {
			e.At, e.Count = x.moment(x.EndedAt), 0
		}
		return []history.Event{e}, nil
	}
	e.Execution, e.Epoch = execution.ID(x.Execution), execution.Epoch(x.Epoch)
	var err error
	if e.To, err = execution.ParseStatus(x.Would); err != nil {
		return nil, err
	}
	if e.By, err = execution.ParsePart(x.Part); err != nil {
		return nil, err
	}
	e.Reason, err = execution.ParseReason(x.Reason)
	return []history.Event{e}, err
}
