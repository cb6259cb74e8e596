package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"handoff/core/broker"
	"handoff/core/execution"
	"handoff/core/store"
)

// failingClaims is a database that answers claims with the given errors, one by one. Then it answers that the
// row runs here.
type failingClaims struct {
	store.Worker
	errs []error
	// applied reports whether the last claim took effect, and none before it.
	applied bool
	now     func() time.Duration
	asked   []time.Duration
}

// Claim implements store.Worker.
func (f *failingClaims) Claim(_ context.Context, w store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	if f.now != nil {
		f.asked = append(f.asked, f.now())
	}
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return nil, err
	}
	row := execution.Execution{ID: cs[0].Key.ID, Epoch: cs[0].Key.Epoch, Status: execution.Running, Incarnation: w.Incarnation}
	return []store.ClaimResult{{Outcome: store.Outcome{Row: row, Applied: f.applied}}}, nil
}

// settlementCounter is a consumer that counts its settlements. It calls rejecting, unless that is nil, during
// a rejection.
type settlementCounter struct {
	broker.Consumer
	acked, rejected int
	rejecting       func()
}

// Ack implements broker.Consumer.
func (s *settlementCounter) Ack(broker.Delivery) { s.acked++ }

// Reject implements broker.Consumer.
func (s *settlementCounter) Reject(broker.Delivery, bool) {
	if s.rejected++; s.rejecting != nil {
		s.rejecting()
	}
}

// After a refused claim, the message is rejected, unless an earlier claim may have taken effect: then the row
// is already this worker's, and no other worker would run it.
func TestUncertainClaimIsNotAbandoned(t *testing.T) {
	wrong := errors.New("internal error (XX000)")
	for _, c := range []struct {
		name            string
		errs            []error
		acked, rejected int
	}{
		{"refused at once", []error{wrong}, 0, 1},
		{"refused after it got no answer", []error{store.ErrUnknownOutcome, wrong, wrong}, 1, 0},
		{"refused after it could not be asked", []error{store.ErrUnavailable, wrong}, 0, 1},
	} {
		s := finishing(nil)
		s.store = &failingClaims{errs: c.errs}
		s.lease = newLease(s.host, s.config.Worker, s.host.Monotonic())
		key := execution.Key{ID: 7, Epoch: 1}
		e := s.held.addEntry(key)
		consumer := new(settlementCounter)
		claimed := len(s.claimRuns([]*run{{delivery: alone(consumer, key), e: e}})) == 1
		if claimed != (c.acked == 1) || consumer.acked != c.acked || consumer.rejected != c.rejected {
			t.Errorf("%s: claimed is %v, %d acknowledged, %d rejected", c.name, claimed, consumer.acked, consumer.rejected)
		}
	}
}

// A run's time counts from its effective claim, so an outage of the database before it costs nothing. If an
// earlier claim may have been the effective one, the time counts from that claim, as the database's deadline
// may do.
func TestRunTimeCountsFromEffectiveClaim(t *testing.T) {
	for _, c := range []struct {
		name    string
		errs    []error
		applied bool
		from    int
	}{
		{"asked once", nil, true, 0},
		{"could not be asked before", []error{store.ErrUnavailable, store.ErrUnavailable}, true, 2},
		{"got no answer, and took no effect then", []error{store.ErrUnknownOutcome}, true, 1},
		{"got no answer, and took effect", []error{store.ErrUnavailable, store.ErrUnknownOutcome, store.ErrUnavailable}, false, 1},
	} {
		s := finishing(nil)
		g := &failingClaims{errs: c.errs, applied: c.applied, now: s.host.Monotonic}
		s.store, s.lease = g, newLease(s.host, s.config.Worker, s.host.Monotonic())
		key := execution.Key{ID: 7, Epoch: 1}
		e := s.held.addEntry(key)
		runs := s.claimRuns([]*run{{delivery: alone(new(settlementCounter), key), e: e}})
		before, sent, claimed := time.Duration(0), time.Duration(0), len(runs) == 1
		if claimed {
			sent = runs[0].sent
		}
		if c.from > 0 {
			before = g.asked[c.from-1]
		}
		if !claimed || sent <= before || sent > g.asked[c.from] {
			t.Errorf("%s: claimed is %v, its time counts from %v, and it was asked for at %v; want that of number %d", c.name, claimed, sent, g.asked, c.from)
		}
	}
}

// alone returns a delivery whose message carries only one dispatch.
func alone(c broker.Consumer, key execution.Key) delivery {
	m := newMessage(c, broker.Delivery{Envelope: broker.Envelope{Type: broker.ExecutionScheduled, Dispatches: []broker.Dispatch{{Key: key}}}})
	return delivery{Dispatch: &m.delivery.Envelope.Dispatches[0], message: m}
}

// lateClaims is a database for which every claim is too late. It calls meanwhile during a claim, and beaten during
// a heartbeat.
type lateClaims struct {
	store.Worker
	row               execution.Execution
	meanwhile, beaten func()
}

// Claim implements store.Worker.
func (l *lateClaims) Claim(_ context.Context, _ store.WorkerKey, cs []store.Claim) ([]store.ClaimResult, error) {
	l.meanwhile()
	row := l.row
	row.ID, row.Epoch, row.Status = cs[0].Key.ID, cs[0].Key.Epoch, execution.Scheduled
	return []store.ClaimResult{{Outcome: store.Outcome{Row: row}, DeadlinePassed: true}}, nil
}

// Heartbeat implements store.Worker.
func (l *lateClaims) Heartbeat(context.Context, store.Beat) (store.BeatReply, error) {
	if l.beaten != nil {
		l.beaten()
	}
	return store.BeatReply{}, store.ErrUnavailable
}

// The worker may claim a dispatch that it found as a row, and the message may arrive during the claim. Then
// the claim must settle that message.
func TestDuplicateDuringLateClaimIsRejected(t *testing.T) {
	s := finishing(nil)
	s.lease = newLease(s.host, s.config.Worker, s.host.Monotonic())
	consumer := new(settlementCounter)
	d := alone(consumer, execution.Key{ID: 7, Epoch: 1})
	s.store = &lateClaims{meanwhile: func() { s.receiveMessage(consumer, d.message.delivery) }}
	e := s.held.addEntry(d.Key)
	// Another dispatch was also found as a row, and waits for the slot.
	s.held.capacity = 1
	s.waiting = []delivery{{Dispatch: &broker.Dispatch{Key: execution.Key{ID: 8, Epoch: 1}}, since: s.host.Monotonic()}}
	s.claimRuns([]*run{{delivery: delivery{Dispatch: d.Dispatch, since: s.host.Monotonic()}, e: e}})
	if len(s.waiting) != 1 {
		t.Error("a dispatch that has no message left with the one that was too late")
	}
	if consumer.rejected != 1 || consumer.acked != 0 {
		t.Errorf("%d rejected, %d acknowledged", consumer.rejected, consumer.acked)
	}
}

// doubleDelivery is a message that is delivered to a session twice, the second time while the first is being settled.
type doubleDelivery struct {
	t            *testing.T
	s            *session
	d            delivery
	first, again *settlementCounter
	when         string
}

func deliveredTwice(t *testing.T, when string) *doubleDelivery {
	x := &doubleDelivery{t: t, s: finishing(nil), first: new(settlementCounter), again: new(settlementCounter), when: when}
	x.s.lease = newLease(x.s.host, x.s.config.Worker, x.s.host.Monotonic())
	x.d = alone(x.first, execution.Key{ID: 7, Epoch: 1})
	x.first.rejecting = x.at("while the first delivery is rejected")
	return x
}

// at returns a function that makes the second delivery if moment is the one that the case tests.
func (dd *doubleDelivery) at(moment string) func() {
	return func() {
		if moment == dd.when {
			dd.s.receiveMessage(dd.again, dd.d.message.delivery)
		}
	}
}

// dies lets the session claim the message, and asserts that both deliveries are rejected. Only the second one
// can still be settled. If the session acknowledged it, only the timeout monitor would reclaim the execution.
func (dd *doubleDelivery) dies(since time.Duration, e *entry) {
	dd.t.Helper()
	dd.d.since = since
	dd.s.claimRuns([]*run{{delivery: dd.d, e: e}})
	if dd.first.rejected != 1 || dd.again.rejected != 1 || dd.first.acked+dd.again.acked != 0 || dd.s.held.isHeld(dd.d.Key) {
		dd.t.Errorf("%s: the first delivery was rejected %d times and acknowledged %d times, the second one %d and %d times, want one rejection of each",
			dd.when, dd.first.rejected, dd.first.acked, dd.again.rejected, dd.again.acked)
	}
}

// While the worker settles the message of a claim that came too late, its connection may end. Then the broker
// redelivers the message, and the worker must reject it again.
func TestRedeliveryAfterLateClaimIsRejected(t *testing.T) {
	for _, when := range []string{"before the worker reports that it was full", "while it does", "while the first delivery is rejected"} {
		x := deliveredTwice(t, when)
		s := x.s
		s.held.capacity = 2
		since, other, e := s.host.Monotonic(), s.held.addEntry(execution.Key{ID: 8, Epoch: 1}), s.held.addEntry(x.d.Key)
		s.store = &lateClaims{meanwhile: func() {
			s.held.removeEntries(s.host.Monotonic(), other)
			x.at("before the worker reports that it was full")()
		}, beaten: x.at("while it does")}
		x.dies(since, e)
	}
}

// brokenClaims is a database that answers each claim with a permanent error. It calls meanwhile during the claim.
type brokenClaims struct {
	store.Worker
	meanwhile func()
}

// Claim implements store.Worker.
func (b *brokenClaims) Claim(context.Context, store.WorkerKey, []store.Claim) ([]store.ClaimResult, error) {
	b.meanwhile()
	return nil, errors.New("internal error (XX000)")
}

// If the broker redelivers a message whose claim the database permanently refuses, both deliveries are
// rejected.
func TestRedeliveryDuringPermanentRefusalIsRejected(t *testing.T) {
	for _, when := range []string{"while the database is asked", "while the first delivery is rejected"} {
		x := deliveredTwice(t, when)
		x.s.held.capacity = 1
		x.s.store = &brokenClaims{meanwhile: x.at("while the database is asked")}
		x.dies(x.s.host.Monotonic(), x.s.held.addEntry(x.d.Key))
	}
}

// A dispatch may reach the worker late, because a message ahead of it waited for a slot. The worker reports
// that it was full at some time since the dispatch, even if only before the message came, so that the
// dispatch does not count. It reports nothing if it was full only before the dispatch.
func TestLateClaimReportsWorkerWasFull(t *testing.T) {
	for _, c := range []struct {
		name     string
		lifetime time.Duration
		reports  int
	}{
		{"full since the dispatch", time.Hour, 1},
		{"full before the dispatch", time.Nanosecond, 0},
	} {
		s := finishing(nil)
		s.lease = newLease(s.host, s.config.Worker, s.host.Monotonic())
		s.held.capacity = 1
		s.held.removeEntries(s.host.Monotonic(), s.held.addEntry(execution.Key{ID: 6, Epoch: 1}))
		_ = s.host.Sleep(context.Background(), time.Millisecond)
		reports, made := 0, time.Now()
		row := execution.Execution{ScheduledAt: made, DispatchDeadline: made.Add(c.lifetime)}
		s.store = &lateClaims{row: row, meanwhile: func() {}, beaten: func() { reports++ }}
		d := alone(new(settlementCounter), execution.Key{ID: 7, Epoch: 1})
		d.since = s.host.Monotonic()
		s.claimRuns([]*run{{delivery: d, e: s.held.addEntry(d.Key)}})
		if reports != c.reports {
			t.Errorf("%s: the worker reported %d times that it was full, want %d", c.name, reports, c.reports)
		}
	}
}
