package run

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"handoff/chaos/scenario"
	"handoff/core/execution"
	"handoff/core/host"
)

// Client is the workload's access to the system under test. Its methods retry until they get an
// answer or ctx ends; a returned error is final. They are safe for concurrent use.
type Client interface {
	// Submit submits executions in one request. The answers have the order of requests.
	Submit(ctx context.Context, requests []Request) ([]Answer, error)
	// Cancel requests the cancellation of an execution. If it has already ended, Cancel returns no error.
	Cancel(ctx context.Context, id execution.ID) error
	// Registered reports whether a worker has ever registered under this name, so that an execution can be
	// pinned to it.
	Registered(worker string) bool
}

// Request is a request for one execution.
type Request struct {
	Action string
	// Key is the idempotency key: only one of all requests with the same key creates an execution.
	Key string
	// Parent is the execution whose workflow child this execution is, or 0 for none.
	Parent execution.ID
	// Pin is the name of the only worker that may run it, empty for any.
	Pin    string
	Limits execution.Limits
}

// Answer is the result of a request.
type Answer struct {
	// ID is the execution, or 0 if there is none.
	ID execution.ID
	// Existed reports whether an earlier request with the same key had created the execution.
	Existed bool
	// Refused is the reason why there is no execution; empty if there is one.
	Refused string
}

// WorkloadOptions configures a Workload. All fields but Known and Refused are required.
type WorkloadOptions struct {
	Scenario *scenario.Scenario
	Clock    Clock
	// Host is the machine of the submitting process. It starts the tasks; Clock gives the time of
	// the scenario.
	Host   host.Host
	Client Client
	// Draws returns the source of the delays of a cancel step, by its index among the cancel steps.
	// The simulator returns the same source for all, because the seed determines the order in which
	// its tasks draw. In other worlds each step has its own.
	Draws func(cancel int) scenario.Drawer
	// Batch is the largest number of requests that one call of the client submits.
	Batch int
	// Known is called, in a task, for each answer that returns the execution of an earlier request with the
	// same key; may be nil.
	Known func(r *Request, id execution.ID)
	// Refused is called, in a task, for a request that created no execution; the request is not repeated.
	// May be nil. In both cases, Judges then finds that not everything was accepted.
	Refused func(why string)
}

// Workload submits and cancels executions as the scenario specifies, like users of the API: with
// idempotency keys, from many tasks, and knowing an execution only from the answer to a request.
type Workload struct {
	o WorkloadOptions

	mu sync.Mutex
	// left counts the unfinished steps.
	left atomic.Int64
	// accepted holds the executions of each action by their number, counted from 0; an execution that is not
	// accepted yet is 0.
	accepted map[string][]execution.ID
	// waiting wakes the tasks that wait for an execution to be accepted.
	waiting []host.Signal
}

// NewWorkload returns a workload that has not begun. Until Start it counts as submitting, unless
// the scenario submits nothing.
func NewWorkload(o WorkloadOptions) *Workload {
	w := &Workload{o: o, accepted: make(map[string][]execution.ID)}
	w.left.Store(int64(len(o.Scenario.Workload) + len(o.Scenario.Cancels)))
	for _, a := range o.Scenario.Actions {
		w.accepted[a.Ref] = make([]execution.ID, o.Scenario.SubmissionsOf(a.Ref))
	}
	return w
}

// Start starts one task for each step of the workload, and returns. The tasks end with ctx.
func (w *Workload) Start(ctx context.Context) {
	first := make(map[string]int)
	for i, l := range w.o.Scenario.Workload {
		number := first[l.Action]
		first[l.Action] += l.Count
		w.o.Host.Go("load", func() { w.submitLoad(ctx, i, number, l) })
	}
	for i, c := range w.o.Scenario.Cancels {
		w.o.Host.Go("cancel", func() { w.runCancelStep(ctx, i, c) })
	}
}

// Submitting reports whether a step is unfinished.
func (w *Workload) Submitting() bool {
	return w.left.Load() > 0
}

// Abandon records that the submitting process has died, so that nothing more is submitted.
func (w *Workload) Abandon() {
	w.left.Store(0)
}

func (w *Workload) finishStep() { w.left.Add(-1) }

// pinPoll is how often a load checks whether the worker to which it is pinned has registered. Before that,
// a real user would get errors.
const pinPoll = 100 * time.Millisecond

// submitLoad submits one load; first is the number of its first execution. Items due at the same time go
// in one request.
func (w *Workload) submitLoad(ctx context.Context, index, first int, l scenario.Load) {
	for n := 0; n < l.Count; {
		if w.o.Host.Sleep(ctx, dueTime(l, n)-w.o.Clock.Now()) != nil {
			return
		}
		for l.Pin != "" && !w.o.Client.Registered(l.Pin) {
			if w.o.Host.Sleep(ctx, pinPoll) != nil {
				return
			}
		}
		began := n
		var requests []Request
		for ; n < l.Count && dueTime(l, n) <= w.o.Clock.Now() && len(requests) < w.o.Batch; n++ {
			r := Request{Action: l.Action, Key: l.Key(index, n), Pin: l.Pin, Limits: l.Limits}
			if l.Parent != "" {
				if r.Parent = w.awaitAccepted(ctx, l.Parent, l.ParentOf(n)); r.Parent == 0 {
					return
				}
			}
			requests = append(requests, r)
		}
		if len(requests) > 0 {
			w.submitRequest(ctx, l, first+began, requests)
		}
	}
	w.finishStep()
}

// submitRequest sends one request and its copies. from is the number of its first execution.
func (w *Workload) submitRequest(ctx context.Context, l scenario.Load, from int, requests []Request) {
	var copies []host.Task
	for range l.Copies - 1 {
		// Nothing reads the answers to copies: a user who sends a request twice has lost the first
		// answer.
		copies = append(copies, w.o.Host.Go("copy", func() { _, _ = w.o.Client.Submit(ctx, slices.Clone(requests)) }))
	}
	var answers []Answer
	w.retryRequest(ctx, func() (err error) {
		answers, err = w.o.Client.Submit(ctx, requests)
		return err
	})
	for i, a := range answers {
		switch {
		case a.ID == 0:
			w.reportRefusal(a.Refused)
		case a.Existed && w.o.Known != nil:
			w.o.Known(&requests[i], a.ID)
		}
	}
	w.recordAccepted(l.Action, from, answers)
	for _, c := range copies {
		_ = c.Wait(ctx)
	}
}

// A user repeats a request that fails, unless it is refused as wrong: after userPause, later (from attempt
// userHurries on) after ten times that, and userAttempts times in all. That is longer than any outage in a
// scenario or a varied run, so a request that is never accepted is the system's fault.
const (
	userPause    = time.Second
	userHurries  = 60
	userAttempts = 300
)

// retryRequest repeats a user's request until there is an answer, at most userAttempts times.
func (w *Workload) retryRequest(ctx context.Context, ask func() error) {
	for attempt := 1; ; attempt++ {
		err := ask()
		if err == nil || ctx.Err() != nil {
			return
		}
		if attempt == userAttempts {
			w.reportRefusal(err.Error())
			return
		}
		pause := userPause
		if attempt >= userHurries {
			pause *= 10
		}
		if w.o.Host.Sleep(ctx, pause) != nil {
			return
		}
	}
}

func (w *Workload) reportRefusal(why string) {
	if w.o.Refused != nil {
		w.o.Refused(why)
	}
}

func (w *Workload) recordAccepted(action string, from int, answers []Answer) {
	w.mu.Lock()
	for i, a := range answers {
		w.accepted[action][from+i] = a.ID
	}
	waiting := w.waiting
	w.mu.Unlock()
	for _, s := range waiting {
		s.Set()
	}
}

// awaitAccepted waits until the n-th execution of an action, counted from 0, is accepted; it returns 0 if ctx
// ends first.
func (w *Workload) awaitAccepted(ctx context.Context, action string, number int) execution.ID {
	var accepted host.Signal
	for {
		w.mu.Lock()
		id := w.accepted[action][number]
		w.mu.Unlock()
		if id != 0 {
			return id
		}
		if accepted == nil {
			accepted = w.o.Host.NewSignal()
			w.mu.Lock()
			w.waiting = append(w.waiting, accepted)
			w.mu.Unlock()
			continue // it may have been accepted meanwhile
		}
		if _, err := accepted.Wait(ctx, host.Forever); err != nil {
			return 0
		}
	}
}

// runCancelStep performs one cancel step of the workload, each cancellation with its own delay.
func (w *Workload) runCancelStep(ctx context.Context, index int, c scenario.Cancel) {
	draws := w.o.Draws(index)
	left := c.Count
	for i := range c.Count {
		after := scenario.Draw(draws, c.AfterMin, c.AfterMax, c.AfterLog)
		w.o.Host.Go("cancel one", func() {
			if !w.cancelOne(ctx, c, i, after) {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if left--; left == 0 {
				w.left.Add(-1)
			}
		})
	}
}

// cancelOne cancels the i-th execution of a cancel step, counted from 0; it returns false if ctx ends first.
func (w *Workload) cancelOne(ctx context.Context, c scenario.Cancel, i int, after time.Duration) bool {
	if c.Timed && w.o.Host.Sleep(ctx, c.At-w.o.Clock.Now()) != nil {
		return false
	}
	id := w.awaitAccepted(ctx, c.Action, c.Nth-1+i)
	if id == 0 || w.o.Host.Sleep(ctx, after) != nil {
		return false
	}
	w.retryRequest(ctx, func() error { return w.o.Client.Cancel(ctx, id) })
	return true
}

// dueTime returns the time at which the n-th item of a load is submitted.
func dueTime(l scenario.Load, n int) time.Duration { return l.From + time.Duration(n)*l.Every }
