package rabbitmq

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
)

// lane is the channel that publishes the messages of one route, in the order of the calls.
//
// A stuck queue never confirms, and it blocks its whole channel. On the first publish of a channel to a
// quorum queue, RabbitMQ asks the queue and waits. About 400 publishes that wait for one queue would block
// the connection too. So each queue has its own channel, with few publishes in flight. No caller waits for a
// stuck queue: publishes in flight get Unknown, and later messages are not sent.
//
// One task writes and another waits for confirms. So a slow confirm does not stop the writing, and
// a write that the broker does not accept does not hold up callers whose context has ended.
//
// A lane that has been idle for a while closes its channel. While it has no message, it may also be assigned
// to another route.
type lane struct {
	p  *publisher
	ch *amqp.Channel
	// pending counts the messages in the lane's queue and window. It grows only under the publisher's lock.
	pending atomic.Int64
	retired chan struct{} // closed when the lane gets no more messages
	// window holds an entry for each publish without an outcome. inFlight holds the written ones,
	// oldest first.
	window   chan struct{}
	inFlight chan inFlightPublish
	// returns has room for more than can be in flight, because the library drops a return that finds no room.
	returns chan amqp.Return
	// behind holds publishes taken from inFlight that wait behind a stuck publish. Only settleInFlight uses
	// it.
	behind []inFlightPublish
	// more signals that items were added.
	more chan struct{}

	mu    sync.Mutex
	items []batchItem
	// stuck reports whether the oldest publish is stuck. While it is, no message is added.
	stuck bool
}

// batchItem is one message of a batch.
type batchItem struct {
	batch *batch
	index int
}

// inFlightPublish is one publish without an outcome.
type inFlightPublish struct {
	batchItem
	sequence     int64
	written      time.Time
	confirmation *amqp.DeferredConfirmation
}

// stuckAfter defines a stuck publish: the broker has not answered it, but has answered another one that was
// written this much later.
const stuckAfter = time.Second

// newLane returns a lane whose channel is not open yet.
func (p *publisher) newLane() *lane {
	window := p.s.b.opts.Window
	return &lane{
		p: p, retired: make(chan struct{}),
		window: make(chan struct{}, window), inFlight: make(chan inFlightPublish, window), more: make(chan struct{}, 1),
	}
}

// openChannel opens the channel.
func (l *lane) openChannel() error {
	s := l.p.s
	ch, err := s.publishing.amqp.Channel()
	if err != nil {
		return err
	}
	s.endWhenClosed("publishing channel", ch.NotifyClose(make(chan *amqp.Error, 1)))
	l.ch, l.returns = ch, ch.NotifyReturn(make(chan amqp.Return, cap(l.window)+2))
	return ch.Confirm(false)
}

// publishUntilRetired opens the channel, publishes over it until the lane retires or the session ends, and
// closes it. Callers wait for the opening no longer than their contexts allow.
func (l *lane) publishUntilRetired() {
	if err := l.openChannel(); err != nil {
		l.p.s.end(fmt.Errorf("publish: opening a channel: %w", err))
		return
	}
	go l.writeItems()
	l.settleInFlight()
	if l.p.s.Closed() {
		return
	}
	// If this fails, the channel or its connection has already ended, which ends the session.
	_ = l.ch.Close()
	l.p.noteChannelClosed()
}

// addItem queues a message for writing. If the lane is stuck, it settles the message as not sent.
func (l *lane) addItem(it batchItem) {
	l.mu.Lock()
	stuck := l.stuck
	if !stuck {
		l.items = append(l.items, it)
	}
	l.mu.Unlock()
	if stuck {
		it.batch.setOutcome(it.index, broker.NotSent)
		l.pending.Add(-1)
		return
	}
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// nextItem waits for a message to write. It returns false when the lane has retired or the session has ended.
func (l *lane) nextItem() (it batchItem, ok bool) {
	for {
		l.mu.Lock()
		if len(l.items) > 0 {
			it = l.items[0]
			l.items[0] = batchItem{}
			if l.items = l.items[1:]; len(l.items) == 0 {
				l.items = nil
			}
			l.mu.Unlock()
			return it, true
		}
		l.mu.Unlock()
		select {
		case <-l.more:
		case <-l.retired:
			return batchItem{}, false
		case <-l.p.s.done:
			return batchItem{}, false
		}
	}
}

// writeItems writes queued messages until the lane retires or the session ends.
func (l *lane) writeItems() {
	s := l.p.s
	for sequence := int64(1); ; sequence++ {
		select {
		case l.window <- struct{}{}:
		case <-s.done:
			return
		}
		it, ok := l.nextItem()
		if !ok || !l.p.alarm.awaitOpen(s.done) || s.Closed() {
			return
		}
		e, wanted := it.batch.takeEntry(it.index)
		if !wanted {
			<-l.window
			l.pending.Add(-1)
			continue
		}
		e.publishing.Headers = amqp.Table{sequenceHeader: sequence}
		confirmation, err := l.ch.PublishWithDeferredConfirm(e.exchange, e.key, true, false, e.publishing)
		if err != nil {
			// A part of the message may have been written.
			s.end(fmt.Errorf("publish: %w", err))
			return
		}
		l.inFlight <- inFlightPublish{it, sequence, time.Now(), confirmation}
	}
}

// settleInFlight determines the outcomes, in the order of the publishes, until the lane retires or the
// session ends.
func (l *lane) settleInFlight() {
	returned := make(map[int64]struct{})
	late := time.NewTimer(stuckAfter)
	defer late.Stop()
	for {
		f, ok := l.oldestInFlight(late)
		if !ok {
			return
		}
		late.Reset(stuckAfter)
		if !l.awaitConfirm(&f, late) {
			return
		}
		l.collectReturns(returned)
		_, wasReturned := returned[f.sequence]
		switch {
		case wasReturned:
			delete(returned, f.sequence)
			f.batch.setOutcome(f.index, broker.Returned)
		case f.confirmation.Acked():
			f.batch.setOutcome(f.index, broker.Confirmed)
		case l.ch.IsClosed() || l.p.s.Closed():
			// When the channel closes, the library resolves open confirms as not acknowledged. That
			// is not a nack: the broker may have stored the message.
			l.p.s.end(fmt.Errorf("publish: channel closed before the confirm"))
			return
		default:
			f.batch.setOutcome(f.index, broker.Nacked)
		}
		l.p.noteAnswer(f.written)
		if l == l.p.prober {
			l.p.probing.Store(false)
		}
		<-l.window
		l.mu.Lock()
		l.stuck = false
		l.mu.Unlock()
		l.pending.Add(-1)
	}
}

// oldestInFlight waits for the oldest publish without an outcome. It returns false when the lane has retired
// because there was none for too long, or the session has ended.
func (l *lane) oldestInFlight(idle *time.Timer) (f inFlightPublish, ok bool) {
	if len(l.behind) > 0 {
		f = l.behind[0]
		l.behind = l.behind[1:]
		return f, true
	}
	for {
		idle.Reset(l.p.s.b.opts.IdleChannel)
		select {
		case f = <-l.inFlight:
			return f, true
		case <-l.p.s.done:
			return f, false
		case <-idle.C:
		}
		if l.p.retireLane(l) {
			return f, false
		}
	}
}

// awaitConfirm waits for the confirm of the oldest publish. It returns false when the session has ended.
func (l *lane) awaitConfirm(f *inFlightPublish, late *time.Timer) bool {
	s := l.p.s
	oldest := s.b.opts.OldestConfirm
	// During an alarm the broker does not read, so it confirms nothing; that time does not count.
	since := f.written
	for {
		select {
		case <-f.confirmation.Done():
			return true
		case <-s.done:
			return false
		case <-late.C:
		}
		late.Reset(stuckAfter / 4)
		if s.blocked.Load() {
			since = time.Now()
			continue
		}
		if time.Since(since) > oldest {
			s.end(fmt.Errorf("a publish to %q was not confirmed within %v", f.batch.entries[f.index].key, oldest))
			return false
		}
		if l.p.answeredSince(f.written) < stuckAfter {
			l.p.sendProbe()
			continue
		}
		l.settleStuckLane(f)
	}
}

// settleStuckLane settles every message of a stuck lane, so that no caller keeps waiting.
func (l *lane) settleStuckLane(f *inFlightPublish) {
	l.mu.Lock()
	l.stuck = true
	items := l.items
	l.items = nil
	l.mu.Unlock()
	for _, it := range items {
		it.batch.setOutcome(it.index, broker.NotSent)
	}
	l.pending.Add(-int64(len(items)))
	f.batch.setOutcome(f.index, broker.Unknown)
	for {
		select {
		case f := <-l.inFlight:
			f.batch.setOutcome(f.index, broker.Unknown)
			l.behind = append(l.behind, f)
		default:
			return
		}
	}
}

// collectReturns takes all returns that have arrived. The broker returns a message before it confirms it, so
// the return has arrived once the confirm is read.
func (l *lane) collectReturns(returned map[int64]struct{}) {
	for {
		select {
		case r, ok := <-l.returns:
			if !ok {
				return
			}
			if sequence, ok := r.Headers[sequenceHeader].(int64); ok {
				returned[sequence] = struct{}{}
			}
		default:
			return
		}
	}
}

// noteAnswer records that the broker has answered a publish that was written at this time.
func (p *publisher) noteAnswer(written time.Time) {
	at := int64(written.Sub(p.began))
	for {
		known := p.answered.Load()
		if known >= at || p.answered.CompareAndSwap(known, at) {
			return
		}
	}
}

// answeredSince returns how much later than written the latest answered publish was written.
func (p *publisher) answeredSince(written time.Time) time.Duration {
	return time.Duration(p.answered.Load()) - written.Sub(p.began)
}

// sendProbe publishes a message that the broker answers without involving a queue, unless an earlier probe is
// still unanswered.
func (p *publisher) sendProbe() {
	if p.probing.CompareAndSwap(false, true) {
		p.prober.pending.Add(1)
		p.prober.addItem(batchItem{probeBatch(), 0})
	}
}
