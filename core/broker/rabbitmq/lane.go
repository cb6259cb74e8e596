package rabbitmq

import (
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
)

// lane is the channel over which the messages of one route are published, in the order of the calls.
//
// A queue that is stuck never confirms, and holds up its whole channel: on the first publish of a channel to a quorum
// queue RabbitMQ asks the queue, and waits. It would also hold up the connection if some 400 publishes waited for it. So a
// queue has a channel to itself, few publishes at a time, and nobody waits for one that is stuck: its callers get
// Unknown, and what comes later is not sent.
//
// One task writes and another one waits for confirms, so that neither a slow confirm stops the writing nor a write that
// the broker does not take holds up callers whose context has ended.
type lane struct {
	p    *publisher
	name routeName
	ch   *amqp.Channel
	// window holds an entry for each publish without an outcome, inFlight what was written, oldest first.
	window   chan struct{}
	inFlight chan inFlight
	// returns holds more than can be in flight: the library drops a return that nobody takes.
	returns chan amqp.Return
	// behind was taken from inFlight behind a publish that is stuck. Used only by settle.
	behind []inFlight
	// more says that something was added.
	more chan struct{}

	mu    sync.Mutex
	items []item
	// stuck says that the oldest publish is, and that nothing is added until it is not.
	stuck bool
}

// item is one message of a batch.
type item struct {
	batch *batch
	index int
}

// inFlight is one publish without an outcome.
type inFlight struct {
	item
	sequence     int64
	written      time.Time
	confirmation *amqp.DeferredConfirmation
}

// stuckAfter is how much later a publish must have been written that the broker has answered, for one that it has not
// answered to be stuck.
const stuckAfter = time.Second

// newLane returns a lane whose channel is not open yet.
func (p *publisher) newLane(name routeName) *lane {
	window := p.s.b.opts.Window
	return &lane{
		p: p, name: name, window: make(chan struct{}, window), inFlight: make(chan inFlight, window), more: make(chan struct{}, 1),
	}
}

// open opens the channel.
func (l *lane) open() error {
	s := l.p.s
	ch, err := s.publishing.amqp.Channel()
	if err != nil {
		return err
	}
	s.watch("publishing channel", ch.NotifyClose(make(chan *amqp.Error, 1)))
	l.ch, l.returns = ch, ch.NotifyReturn(make(chan amqp.Return, cap(l.window)+2))
	return ch.Confirm(false)
}

// run opens the channel and publishes over it until the session ends. Nobody waits for the opening longer than they want.
func (l *lane) run() {
	if err := l.open(); err != nil {
		l.p.s.end(fmt.Errorf("publish: opening a channel: %w", err))
		return
	}
	go l.write()
	l.settle()
}

// add has a message written, or settles it where the lane is stuck.
func (l *lane) add(it item) {
	l.mu.Lock()
	stuck := l.stuck
	if !stuck {
		l.items = append(l.items, it)
	}
	l.mu.Unlock()
	if stuck {
		it.batch.settle(it.index, broker.NotSent)
		return
	}
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// next waits for a message to write. It returns false when the session has ended.
func (l *lane) next() (it item, ok bool) {
	for {
		l.mu.Lock()
		if len(l.items) > 0 {
			it = l.items[0]
			l.items[0] = item{}
			if l.items = l.items[1:]; len(l.items) == 0 {
				l.items = nil
			}
			l.mu.Unlock()
			return it, true
		}
		l.mu.Unlock()
		select {
		case <-l.more:
		case <-l.p.s.done:
			return item{}, false
		}
	}
}

// write writes what was added until the session ends.
func (l *lane) write() {
	s := l.p.s
	for sequence := int64(1); ; sequence++ {
		select {
		case l.window <- struct{}{}:
		case <-s.done:
			return
		}
		it, ok := l.next()
		if !ok || !l.p.alarm.wait(s.done) || s.Closed() {
			return
		}
		e, wanted := it.batch.take(it.index)
		if !wanted {
			<-l.window
			continue
		}
		e.publishing.Headers = amqp.Table{sequenceHeader: sequence}
		confirmation, err := l.ch.PublishWithDeferredConfirm(e.exchange, e.key, true, false, e.publishing)
		if err != nil {
			// Some of it may have been written.
			s.end(fmt.Errorf("publish: %w", err))
			return
		}
		l.inFlight <- inFlight{it, sequence, time.Now(), confirmation}
	}
}

// settle finds the outcomes, in the order of the publishes, until the session ends.
func (l *lane) settle() {
	returned := make(map[int64]struct{})
	late := time.NewTimer(stuckAfter)
	defer late.Stop()
	for {
		f, ok := l.oldest()
		if !ok {
			return
		}
		late.Reset(stuckAfter)
		if !l.await(&f, late) {
			return
		}
		l.collect(returned)
		_, wasReturned := returned[f.sequence]
		switch {
		case wasReturned:
			delete(returned, f.sequence)
			f.batch.settle(f.index, broker.Returned)
		case f.confirmation.Acked():
			f.batch.settle(f.index, broker.Confirmed)
		case l.ch.IsClosed() || l.p.s.Closed():
			// The library resolves what is open as not acknowledged when the channel closes. That is
			// no nack: the broker may have stored it.
			l.p.s.end(fmt.Errorf("publish: channel closed before the confirm"))
			return
		default:
			f.batch.settle(f.index, broker.Nacked)
		}
		l.p.heard(f.written)
		if l.name == probeRoute {
			l.p.probing.Store(false)
		}
		<-l.window
		l.mu.Lock()
		l.stuck = false
		l.mu.Unlock()
	}
}

// oldest waits for a publish without an outcome. It returns false when the session has ended.
func (l *lane) oldest() (f inFlight, ok bool) {
	if len(l.behind) > 0 {
		f = l.behind[0]
		l.behind = l.behind[1:]
		return f, true
	}
	select {
	case f = <-l.inFlight:
		return f, true
	case <-l.p.s.done:
		return f, false
	}
}

// await waits for the confirm of the oldest publish. It returns false when the session has ended.
func (l *lane) await(f *inFlight, late *time.Timer) bool {
	s := l.p.s
	oldest := s.b.opts.OldestConfirm
	// During an alarm the broker confirms nothing that it has not read.
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
			s.end(fmt.Errorf("a publish to %q was not confirmed within %v", l.name.key, oldest))
			return false
		}
		if l.p.answeredSince(f.written) < stuckAfter {
			l.p.probe()
			continue
		}
		l.giveUp(f)
	}
}

// giveUp has nobody wait any longer for a lane that is stuck.
func (l *lane) giveUp(f *inFlight) {
	l.mu.Lock()
	l.stuck = true
	items := l.items
	l.items = nil
	l.mu.Unlock()
	for _, it := range items {
		it.batch.settle(it.index, broker.NotSent)
	}
	f.batch.settle(f.index, broker.Unknown)
	for {
		select {
		case f := <-l.inFlight:
			f.batch.settle(f.index, broker.Unknown)
			l.behind = append(l.behind, f)
		default:
			return
		}
	}
}

// collect takes all returns that have arrived. A message is returned before it is confirmed, so once
// a confirm was read, its return is here.
func (l *lane) collect(returned map[int64]struct{}) {
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

// heard notes that the broker has answered a publish that was written at a moment.
func (p *publisher) heard(written time.Time) {
	at := int64(written.Sub(p.began))
	for {
		known := p.answered.Load()
		if known >= at || p.answered.CompareAndSwap(known, at) {
			return
		}
	}
}

// answeredSince is how much later than a moment the latest publish was written that has its outcome.
func (p *publisher) answeredSince(written time.Time) time.Duration {
	return time.Duration(p.answered.Load()) - written.Sub(p.began)
}

// probe publishes something that the broker answers by itself, unless such a publish waits for its answer.
func (p *publisher) probe() {
	if p.probing.CompareAndSwap(false, true) {
		p.lane(probeRoute).add(item{probeBatch(), 0})
	}
}
