// Package unread quarantines messages that can't be decoded. Any client that can publish to the broker can
// send any number of them, so it stores them in batches, truncated, and with few log lines. It holds each
// message until it is stored and then acknowledges it, so none is lost or redelivered in a hot loop (defect
// D25). It rejects no message: a rejected message goes to the broker's dead lettering, which a hostile header
// ends for the whole node (S5).
package unread

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"handoff/core/broker"
	"handoff/core/host"
	"handoff/core/store"
	"handoff/core/telemetry"
)

const (
	// mostRows and mostBytes bound the messages that one statement stores.
	mostRows  = 256
	mostBytes = 2 << 20
)

// Patience is how long a message is retried unchanged after the database has refused it with an error about
// the statement itself. Such an error may be temporary, for example after a failed migration. The time is
// short, because later messages wait.
const Patience = 30 * time.Second

// Store is the part of the database that a keeper needs.
type Store interface {
	StoreDeadLetters(ctx context.Context, ds ...store.DeadLetter) error
}

// Options configure a keeper.
type Options struct {
	Host  host.Host
	Store Store
	// Log must be a limited logger: publishers decide how many lines there are.
	Log      *slog.Logger
	Recorder telemetry.Recorder
	// Timeout bounds one statement.
	Timeout time.Duration
	// Stored is called after messages were stored; it may be nil.
	Stored func()
	// Refused is called whenever the database has refused messages, which therefore stay in the prefetch; it
	// may be nil.
	Refused func()
}

// Keeper stores messages that can't be read. It is safe for concurrent use.
type Keeper struct {
	options Options
	come    host.Signal

	mu   sync.Mutex
	held []message
	// latest is each queue's consumer that last delivered. The broker redelivers the messages of earlier
	// consumers, so the keeper no longer holds those.
	latest map[string]broker.Consumer
}

type message struct {
	queue    string
	consumer broker.Consumer
	// settle is called when the message is stored.
	settle func()
	letter store.DeadLetter
	// patience is the time until which the message is retried unchanged, on the monotonic clock; 0 until the
	// database refuses it.
	patience time.Duration
}

// New returns a keeper; Run runs it.
func New(o Options) *Keeper {
	return &Keeper{options: o, come: o.Host.NewSignal(), latest: make(map[string]broker.Consumer)}
}

// Keep holds a message from a queue until Run has stored and acknowledged it. It returns at once; the queue's
// prefetch bounds the number of held messages.
func (k *Keeper) Keep(c broker.Consumer, d broker.Delivery, queue, why string) {
	k.KeepAs(c, d, queue, store.DeadLetter{Queue: queue, Reason: "malformed", Body: d.Body, Outcome: why})
}

// KeepAs is Keep for a message with a known dead letter, which is stored as open.
func (k *Keeper) KeepAs(c broker.Consumer, d broker.Delivery, queue string, letter store.DeadLetter) {
	// While the message waits, only its letter is kept.
	d.Body, d.Envelope = nil, broker.Envelope{}
	k.holdMessage(c, queue, letter, func() { c.Ack(d) })
}

// KeepPart holds a dispatch of a block that can't be read, as Keep holds a message. settle is
// called when it is stored; the message is acknowledged when all its parts are done.
func (k *Keeper) KeepPart(c broker.Consumer, queue string, part broker.UnreadDispatch, settle func()) {
	k.holdMessage(c, queue, store.DeadLetter{Queue: queue, Reason: "malformed", Body: part.Body, Outcome: part.Why}, settle)
}

func (k *Keeper) holdMessage(c broker.Consumer, queue string, letter store.DeadLetter, settle func()) {
	k.options.Recorder.Add(telemetry.UnreadableMessages, 1, telemetry.Labels{queueKind(queue)})
	letter = letter.Bounded()
	letter.Open = true
	k.mu.Lock()
	if k.latest[queue] != c {
		k.latest[queue] = c
		k.held = slices.DeleteFunc(k.held, func(m message) bool { return m.queue == queue && m.consumer != c })
	}
	k.held = append(k.held, message{queue: queue, consumer: c, settle: settle, letter: letter})
	k.mu.Unlock()
	k.come.Set()
}

// queueKind returns the name of a queue in figures, where all worker queues count as one.
func queueKind(queue string) string {
	return queue[strings.LastIndexByte(queue, '.')+1:]
}

// Run stores the held messages until ctx ends. Messages that are still held then return to their queues with
// the session.
func (k *Keeper) Run(ctx context.Context) {
	backoff := broker.NewBackoff(k.options.Host, 200*time.Millisecond, 10*time.Second)
	for {
		batch := k.takeBatch()
		if len(batch) == 0 {
			if _, err := k.come.Wait(ctx, host.Forever); err != nil {
				return
			}
			continue
		}
		err := k.storeBatch(batch)
		if store.Retriable(err) {
			k.options.Log.LogAttrs(ctx, slog.LevelWarn, "unreadable messages held until the database answers", slog.Any("error", err))
			k.requeueBatch(batch)
			if backoff.Wait(ctx) != nil {
				return
			}
			continue
		}
		refused := k.settleBatch(ctx, batch, err)
		if len(refused) == 0 {
			backoff.Reset()
			continue
		}
		k.requeueBatch(refused)
		if k.options.Refused != nil {
			k.options.Refused()
		}
		if backoff.Wait(ctx) != nil {
			return
		}
	}
}

// takeBatch removes the next batch.
func (k *Keeper) takeBatch() []message {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, size := 0, 0
	for n < len(k.held) && n < mostRows && (n == 0 || size+len(k.held[n].letter.Body) <= mostBytes) {
		size += len(k.held[n].letter.Body)
		n++
	}
	batch := slices.Clone(k.held[:n])
	k.held = slices.Delete(k.held, 0, n)
	return batch
}

// requeueBatch puts a batch back at the front of the held messages, except those that the broker has
// reclaimed meanwhile.
func (k *Keeper) requeueBatch(batch []message) {
	k.mu.Lock()
	defer k.mu.Unlock()
	batch = slices.DeleteFunc(batch, func(m message) bool { return k.latest[m.queue] != m.consumer })
	k.held = append(batch, k.held...)
}

func (k *Keeper) storeBatch(batch []message) error {
	letters := make([]store.DeadLetter, len(batch))
	for i := range batch {
		letters[i] = batch[i].letter
	}
	ctx, cancel := k.options.Host.WithTimeout(context.Background(), k.options.Timeout)
	defer cancel()
	return k.options.Store.StoreDeadLetters(ctx, letters...)
}

// settleBatch acknowledges a stored batch. If the database has refused the batch, it tries each message
// alone, and returns those to retry.
func (k *Keeper) settleBatch(ctx context.Context, batch []message, err error) (again []message) {
	first := &batch[0]
	switch {
	case err == nil:
	case len(batch) > 1:
		for i := range batch {
			one := batch[i : i+1]
			err := k.storeBatch(one)
			if store.Retriable(err) {
				k.options.Log.LogAttrs(ctx, slog.LevelWarn, "unreadable messages held until the database answers", slog.Any("error", err))
				return append(again, batch[i:]...)
			}
			again = append(again, k.settleBatch(ctx, one, err)...)
		}
		return again
	default:
		k.options.Log.LogAttrs(ctx, slog.LevelError, "unreadable message refused by the database, held and tried again",
			slog.String("queue", first.queue), slog.String("why", first.letter.Outcome), slog.Any("error", err))
		k.noteRefusal(first, err)
		return batch
	}
	k.options.Log.LogAttrs(ctx, slog.LevelError, "unreadable messages stored as dead letters",
		slog.Int("messages", len(batch)), slog.String("queue", first.queue), slog.String("why", first.letter.Outcome))
	for i := range batch {
		m := &batch[i]
		k.options.Recorder.Add(telemetry.DeadLetters, 1, telemetry.Labels{m.letter.Reason, "malformed"})
		m.settle()
	}
	if k.options.Stored != nil {
		k.options.Stored()
	}
	return nil
}

// noteRefusal records that the database has refused a message in a batch of one. After Patience, all content
// of the message is removed from its dead letter. Only a database that accepts no dead letters at all refuses
// the rest.
func (k *Keeper) noteRefusal(m *message, err error) {
	now := k.options.Host.Monotonic()
	switch {
	case m.patience == 0:
		m.patience = now + Patience
	case now >= m.patience:
		bare := store.DeadLetter{Queue: m.letter.Queue, Reason: "malformed", BodyBytes: m.letter.BodyBytes, Outcome: "unstorable: " + err.Error(), Open: true}
		m.letter = bare.Bounded()
	}
}
