package worker

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host/daemon"
	"handoff/core/store"
	"handoff/core/telemetry"
)

// pickyStore is a database that refuses every result with an output.
type pickyStore struct {
	store.Worker
	refuses func(store.Finish) bool
	asked   []store.Finish
}

// Finish implements store.Worker.
func (p *pickyStore) Finish(_ context.Context, w store.WorkerKey, fs []store.Finish) ([]store.Outcome, error) {
	p.asked = append(p.asked, fs...)
	if p.refuses(fs[0]) {
		return nil, errors.New("value too long (54000)")
	}
	return []store.Outcome{{Applied: true, Row: execution.Execution{ID: fs[0].Key.ID, Incarnation: w.Incarnation, Status: fs[0].To}}}, nil
}

func finishing(p *pickyStore) *session {
	h := daemon.New(daemon.Options{Clock: clock.New()})
	c := config.Default(config.Hardened)
	log := slog.New(slog.DiscardHandler)
	client := broker.NewClient(h, nil, broker.Topology{}, c.MessageQueue.RabbitMQ, log)
	return newSession(&Service{
		host: h, store: p, config: c, log: log, limited: log, recorder: telemetry.Discard{}, closing: context.Background(),
		notifier: broker.NewNotifier(h, client, "w", log), topology: func(execution.WorkerID) broker.Topology { return broker.Topology{} },
	}, store.WorkerKey{ID: 1, Incarnation: 1}, 0)
}

// A completed run stays completed when the database refuses its output permanently. It is neither lost nor
// repeated.
func TestRefusedOutputKeepsCompletedStatus(t *testing.T) {
	p := &pickyStore{refuses: func(f store.Finish) bool { return f.Result.Output != nil }}
	finishing(p).finishes(store.Finish{Key: execution.Key{ID: 7, Epoch: 1}, To: execution.Completed, Result: execution.Result{Output: []byte(`"\u0000"`)}})
	last := p.asked[len(p.asked)-1]
	if len(p.asked) != 2 || last.To != execution.Completed || last.Result.Output != nil || last.Result.Message == "" {
		t.Errorf("the database was asked %d times, the last time for %+v", len(p.asked), last)
	}
}

// A refusal of the whole result may be temporary, whatever the error says. The result exists nowhere else, so
// the worker retries until the database accepts it.
func TestRefusedResultIsRetriedUntilAccepted(t *testing.T) {
	p := &pickyStore{}
	p.refuses = func(store.Finish) bool { return len(p.asked) < 4 }
	finishing(p).finishes(store.Finish{Key: execution.Key{ID: 7, Epoch: 1}, To: execution.Failed})
	if last := p.asked[len(p.asked)-1]; len(p.asked) != 4 || last.To != execution.Failed || last.Result.Message == "" {
		t.Errorf("the database was asked %d times, want 4, the last time for %+v", len(p.asked), last)
	}
}

// A failed start is the machine's fault only while there is time left to run. If the worker stalls during the
// start until its fence or the run deadline, its machine is not to blame.
func TestFailedStartBlamesMachineBeforeDeadlineOnly(t *testing.T) {
	for name, c := range map[string]struct {
		fenced, late bool
		why          execution.Reason
		to           execution.Status
		reason       execution.Reason
	}{
		"in time":          {to: execution.Failed, reason: execution.WorkerUnavailable},
		"past the fence":   {fenced: true, to: execution.Failed, reason: execution.HeartbeatStale},
		"past the end":     {late: true, to: execution.Timeout, reason: execution.RunTimeout},
		"cancelled":        {why: execution.CancelRequested, to: execution.Cancelled, reason: execution.CancelRequested},
		"past both":        {fenced: true, late: true, to: execution.Failed, reason: execution.HeartbeatStale},
		"ended meanwhile":  {fenced: true, why: execution.HeartbeatStale, to: execution.Failed, reason: execution.HeartbeatStale},
		"late, not fenced": {late: true, why: execution.WorkerShutdown, to: execution.Timeout, reason: execution.RunTimeout},
	} {
		s := finishing(&pickyStore{})
		now := s.host.Monotonic()
		s.lease = newLease(s.host, s.config.Worker, now)
		if c.fenced {
			s.lease = newLease(s.host, s.config.Worker, now-s.config.Worker.Lease())
		}
		deadline := now + time.Hour
		if c.late {
			deadline = now
		}
		f := store.Finish{Key: execution.Key{ID: 7, Epoch: 1}, To: execution.Failed, Result: execution.Result{FailedBy: execution.Worker}}
		f = s.notStarted(f, c.why, deadline, errors.New("no process"))
		if f.To != c.to || f.Reason != c.reason || f.Result.Error == "" || f.Key.ID != 7 {
			t.Errorf("%s: ends as %v for %v: %+v; want %v for %v", name, f.To, f.Reason, f.Result, c.to, c.reason)
		}
	}
}

// max_retries suggests a retry. So if an action's own failure ends the chain early, the message explains why.
func TestFailureMessageExplainsMissingRetry(t *testing.T) {
	for name, c := range map[string]struct {
		reason  execution.Reason
		code    int
		message string
		retry   int
		why     execution.Reason
		want    string
	}{
		"by its code":     {reason: execution.Unknown, code: 1, message: "exit status 1: oops", want: "exit status 1: oops\nNot retried, with 3 of 3 retries left, because exit code 1 is not retried. If a later attempt may succeed, declare retried_exit_codes: [1] in the action (docs/actions.md, What is retried)."},
		"by the table":    {reason: execution.Validation, code: 65, retry: 2, want: "Not retried, with 1 of 3 retries left, because exit code 65 is not retried. If a later attempt may succeed, declare retried_exit_codes: [65] in the action (docs/actions.md, What is retried)."},
		"unknown":         {reason: execution.Unknown, message: "ended by signal: killed", want: "ended by signal: killed\nNot retried, with 3 of 3 retries left, because the reason is unknown, and only what an action reports as a failure for now is retried, for example exit code 75 (docs/actions.md, What is retried)."},
		"said, second":    {reason: execution.Validation, message: "no such customer", retry: 1, want: "no such customer\nNot retried, with 2 of 3 retries left, because the reason is validation, which is never retried (docs/actions.md, What is retried)."},
		"without a text":  {reason: execution.Rejected, retry: 2, want: "Not retried, with 1 of 3 retries left, because the reason is rejected, which is never retried (docs/actions.md, What is retried)."},
		"the last":        {reason: execution.Unknown, message: "exit status 1", retry: 3, want: "exit status 1"},
		"retried":         {reason: execution.Transient, message: "exit status 75", want: "exit status 75"},
		"to be cancelled": {reason: execution.Unknown, message: "exit status 1", why: execution.CancelRequested, want: "exit status 1"},
	} {
		row := &execution.Execution{Action: execution.Action{MaxRetries: 3}, RetryCount: c.retry}
		f := finishing(&pickyStore{}).exitVerdict(store.Finish{To: execution.Failed}, row, Exit{Reason: c.reason, Code: c.code, Message: c.message}, c.why, false)
		if f.Result.Message != c.want || f.Result.Error != "Action failed" || f.Reason != c.reason || f.To != execution.Failed {
			t.Errorf("%s: %v for %v, %+v\nwant %q", name, f.To, f.Reason, f.Result, c.want)
		}
	}
}

// finishes writes the end of a run that holds a slot.
func (s *session) finishes(f store.Finish) { s.finishRun(s.held.addEntry(f.Key), f, 0) }
