package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/store"
	"handoff/core/unread"
)

// claimJudge is a database that answers each claim by its execution, and records which claims came together.
type claimJudge struct {
	store.Worker
	of  func(execution.ID) store.ClaimResult
	err func(cs []store.Claim) error

	mu    sync.Mutex // separate claims run in their own tasks
	asked []string
}

// Claim implements store.Worker.
func (c *claimJudge) Claim(_ context.Context, _ store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	var ids []execution.ID
	results := make([]store.ClaimResult, len(cs))
	for i := range cs {
		ids = append(ids, cs[i].Key.ID)
		results[i] = c.of(cs[i].Key.ID)
	}
	c.mu.Lock()
	c.asked = append(c.asked, fmt.Sprint(ids))
	c.mu.Unlock()
	if c.err != nil {
		if err := c.err(cs); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// Heartbeat implements store.Worker.
func (*claimJudge) Heartbeat(context.Context, store.Beat) (store.BeatReply, error) {
	return store.BeatReply{}, store.ErrUnavailable
}

// granted returns the result of a successful claim, tooLate that of a claim after its deadline, and stale
// that of a claim at an old epoch.
func granted(id execution.ID) store.ClaimResult {
	return store.ClaimResult{Outcome: store.Outcome{Applied: true, Row: execution.Execution{ID: id, Epoch: 1, Status: execution.Running, Incarnation: 1}}}
}

func tooLate(id execution.ID) store.ClaimResult {
	return store.ClaimResult{Outcome: store.Outcome{Row: execution.Execution{ID: id, Epoch: 1, Status: execution.Scheduled}}, DeadlinePassed: true}
}

func stale(id execution.ID) store.ClaimResult {
	return store.ClaimResult{Outcome: store.Outcome{Row: execution.Execution{ID: id, Epoch: 2, Status: execution.Requested}}}
}

// many returns a message with dispatches 1 to n that waits at a worker with the given number of slots.
func many(n, slots int, j *claimJudge) (*session, *settlementCounter, *message) {
	s := finishing(nil)
	s.store, s.lease = j, newLease(s.host, s.config.Worker, s.host.Monotonic())
	s.held.capacity = slots
	var ds []broker.Dispatch
	for id := range n {
		ds = append(ds, broker.Dispatch{Key: execution.Key{ID: execution.ID(id + 1), Epoch: 1}})
	}
	c := new(settlementCounter)
	m := newMessage(c, broker.Delivery{Envelope: broker.Envelope{Type: broker.ExecutionScheduled, Version: broker.VersionBlock, Dispatches: ds}})
	s.queueMessage(m)
	return s, c, m
}

// claims claims the dispatches that get a slot. It describes which of them run and how the message was
// settled.
func (s *session) claims(c *settlementCounter) string {
	taken, _, _ := s.nextWaiting()
	var ids []execution.ID
	for _, r := range s.claimRuns(taken) {
		ids = append(ids, r.e.key.ID)
		s.releaseSlot(r.e)
	}
	return fmt.Sprintf("runs %v, %d acknowledged, %d rejected, %d wait", ids, c.acked, c.rejected, len(s.waiting))
}

// A message is acknowledged only when all its dispatches are claimed or found to be futile.
func TestMessageIsAcknowledgedAfterLastClaim(t *testing.T) {
	j := &claimJudge{of: granted}
	s, c, _ := many(5, 2, j)
	for _, want := range []string{
		"runs [1 2], 0 acknowledged, 0 rejected, 3 wait",
		"runs [3 4], 0 acknowledged, 0 rejected, 1 wait",
		"runs [5], 1 acknowledged, 0 rejected, 0 wait",
	} {
		if got := s.claims(c); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	if got := fmt.Sprint(j.asked); got != "[[1 2] [3 4] [5]]" {
		t.Errorf("claimed in calls of %s", got)
	}
	s, c, _ = many(3, 3, &claimJudge{of: func(id execution.ID) store.ClaimResult {
		if id == 2 {
			return stale(id)
		}
		return granted(id)
	}})
	// Refused claims are settled in another task, while the granted executions run.
	taken, _, _ := s.nextWaiting()
	if runs := s.claimRuns(taken); len(runs) != 2 {
		t.Errorf("%d run", len(runs))
	}
	for s.held.isHeld(execution.Key{ID: 2, Epoch: 1}) {
		_, _ = s.held.changed.Wait(t.Context(), time.Minute)
	}
	if c.acked != 1 || c.rejected != 0 {
		t.Errorf("%d acknowledged, %d rejected", c.acked, c.rejected)
	}
}

// One statement claims all dispatches of the largest default message, if there are slots for them, but no
// more dispatches than that.
func TestLargestMessageNeedsOneClaimStatement(t *testing.T) {
	largest := config.Default(config.Hardened).Executor.DispatchesPerMessage
	s, _, _ := many(largest+1, largest+1, &claimJudge{of: granted})
	if taken, _, _ := s.nextWaiting(); len(taken) != largest {
		t.Errorf("%d are claimed in one statement, want %d", len(taken), largest)
	}
}

// A late dispatch is rejected at once, with the waiting dispatches of its message, which are too late as
// well. The dead letter handler skips the running ones.
func TestLateMessageIsRejectedOnce(t *testing.T) {
	j := &claimJudge{of: granted}
	s, c, _ := many(6, 2, j)
	if got := s.claims(c); got != "runs [1 2], 0 acknowledged, 0 rejected, 4 wait" {
		t.Error(got)
	}
	j.of = tooLate
	if got := s.claims(c); got != "runs [], 0 acknowledged, 1 rejected, 0 wait" {
		t.Error(got)
	}
	if held, _ := s.held.countHeld(); held != 0 {
		t.Errorf("%d slots are taken", held)
	}
}

// If dispatches wait for a slot until their deadline, their message is rejected once.
func TestMessageWaitingTooLongIsRejectedOnce(t *testing.T) {
	s, c, m := many(4, 1, &claimJudge{of: granted})
	s.held.addEntry(execution.Key{ID: 99, Epoch: 1})
	for i := range s.waiting {
		s.waiting[i].since -= s.slotPatience(execution.Action{})
	}
	other := newMessage(new(settlementCounter), broker.Delivery{Envelope: broker.Envelope{Dispatches: []broker.Dispatch{{Key: execution.Key{ID: 50, Epoch: 1}}}}})
	s.queueMessage(other)
	s.admitWaiting()
	if c.rejected != 1 || c.acked != 0 || len(s.waiting) != 1 || s.waiting[0].message != other || !m.settled {
		t.Errorf("%d rejected, %d acknowledged, %d wait", c.rejected, c.acked, len(s.waiting))
	}
}

// If the database refuses one execution, each of the others in its message is claimed alone.
func TestRefusedClaimDoesNotAffectOthers(t *testing.T) {
	wrong := errors.New("internal error (XX000)")
	began := make(chan execution.ID, 2)
	j := &claimJudge{of: stale}
	j.err = func(cs []store.Claim) error {
		if len(cs) > 1 || cs[0].Key.ID == 1 {
			return wrong
		}
		began <- cs[0].Key.ID
		return nil
	}
	s, c, _ := many(3, 3, j)
	taken, _, _ := s.nextWaiting()
	if runs := s.claimRuns(taken); len(runs) != 0 || c.rejected != 1 {
		t.Errorf("%d run, %d rejected", len(runs), c.rejected)
	}
	if a, b := <-began, <-began; a+b != 5 {
		t.Errorf("claimed alone: %d and %d, want 2 and 3", a, b)
	}
}

// After a call that was refused although each of its claims was answered, no claim is retried.
func TestFullyAnsweredRefusalNeedsOneClaimStatement(t *testing.T) {
	s, c, _ := many(2, 2, nil)
	j := &answeringJudge{claimJudge{of: stale}}
	s.store = j
	if got := s.claims(c); got != "runs [], 1 acknowledged, 0 rejected, 0 wait" {
		t.Error(got)
	}
	if got := fmt.Sprint(j.asked); got != "[[1 2]]" {
		t.Errorf("claimed in calls of %s, want one", got)
	}
	if held, _ := s.held.countHeld(); held != 0 {
		t.Errorf("%d slots are taken", held)
	}
}

// answeringJudge is a database that refuses calls but answers each of their claims.
type answeringJudge struct{ claimJudge }

// Claim implements store.Worker.
func (a *answeringJudge) Claim(ctx context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	results, _ := a.claimJudge.Claim(ctx, w, cs)
	return results, errors.New("internal error (XX000)")
}

// letterStore is a database that sends each stored dead letter to a channel.
type letterStore struct {
	store.Worker
	letters chan store.DeadLetter
}

// StoreDeadLetters implements store.Worker.
func (l *letterStore) StoreDeadLetters(_ context.Context, ds ...store.DeadLetter) error {
	for i := range ds {
		l.letters <- ds[i]
	}
	return nil
}

// A dispatch that can't be read is stored, and the message is acknowledged only after that.
func TestUnreadableDispatchIsStoredAlongsideOthers(t *testing.T) {
	j := &claimJudge{of: granted}
	s, c, m := many(2, 2, j)
	m.delivery.Envelope.Unread = []broker.UnreadDispatch{{Why: "no epoch", Body: []byte("{}")}}
	m.open++
	if got := s.claims(c); got != "runs [1 2], 0 acknowledged, 0 rejected, 0 wait" {
		t.Error(got)
	}
	m.ack()
	if c.acked != 1 {
		t.Errorf("%d acknowledged", c.acked)
	}
	if again := newMessage(c, m.delivery); again.open != 3 {
		t.Errorf("%d are open, want two dispatches and one that can't be read", again.open)
	}
}

func TestUnreadableDispatchIsStoredOnArrival(t *testing.T) {
	s, _, m := many(1, 0, nil)
	db := &letterStore{letters: make(chan store.DeadLetter, 1)}
	s.unread = unread.New(unread.Options{Host: s.host, Store: db, Log: s.log, Recorder: s.recorder, Timeout: time.Minute})
	c, d := new(settlementCounter), m.delivery
	s.waiting = nil
	d.Envelope.Unread = []broker.UnreadDispatch{{Why: "no epoch", Body: []byte("{}")}}
	if !s.receiveMessage(c, d) || len(s.waiting) != 1 {
		t.Fatalf("%d dispatches wait, want the one that can be read", len(s.waiting))
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := s.host.Go("unread", func() { s.unread.Run(ctx) })
	letter := <-db.letters
	stop()
	_ = ran.Wait(t.Context())
	if letter.Outcome != "no epoch" || string(letter.Body) != "{}" || letter.Queue != "worker.1.executions" || !letter.Open {
		t.Errorf("stored %+v", letter)
	}
	if open := s.waiting[0].message.open; open != 1 || c.acked != 0 {
		t.Errorf("%d parts of the message are open and it is acknowledged %d times; want that it waits for its other dispatch", open, c.acked)
	}
}
