package broker

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"handoff/core/execution"
	"handoff/core/host"
)

// Notifier publishes hints. Its methods only record a hint; Run publishes it. Run combines many changes in
// one message, makes a few attempts with backoff, and then gives up. A lost hint only costs time, because
// reconcilers find the same facts in the database.
type Notifier struct {
	host   host.Host
	client *Client
	source string
	log    *slog.Logger
	wake   host.Signal

	mu      sync.Mutex
	pending [Types][]Change
	cancels []cancellation
	seq     uint64
}

// cancellation is a hint to the worker that runs an execution to end it.
type cancellation struct {
	worker execution.WorkerID
	key    execution.Key
}

// notifyBatch bounds the changes of one message. notifyAttempts bounds the attempts for one message.
// notifyPending bounds the waiting changes of each type: in a long outage the oldest are dropped.
const (
	notifyBatch    = 100
	notifyAttempts = 4
	notifyPending  = 10_000
)

// notifyTimeout bounds one attempt. Otherwise a queue that never confirms would block all later hints as long
// as the session lasts.
const notifyTimeout = 5 * time.Second

// NewNotifier returns a notifier whose message ids begin with source.
func NewNotifier(h host.Host, c *Client, source string, log *slog.Logger) *Notifier {
	return &Notifier{host: h, client: c, source: source, log: log, wake: h.NewSignal()}
}

// Requested announces that executions are waiting to be scheduled.
func (n *Notifier) Requested(keys ...execution.Key) {
	if len(keys) == 0 {
		return
	}
	n.mu.Lock()
	for _, k := range keys {
		n.addChange(ExecutionRequested, Change{Key: k, To: execution.Requested})
	}
	n.mu.Unlock()
	n.wake.Set()
}

// Changed announces new statuses. For a terminal status it also publishes a separate hint that the execution
// has completed.
func (n *Notifier) Changed(changes ...Change) {
	if len(changes) == 0 {
		return
	}
	n.mu.Lock()
	for _, c := range changes {
		n.addChange(ExecutionStatusChanged, c)
		if c.To.Terminal() {
			n.addChange(ExecutionCompleted, c)
		}
	}
	n.mu.Unlock()
	n.wake.Set()
}

// Cancel asks a worker to end an execution. If the hint is lost, the worker gets the cancellation with the
// reply to its next heartbeat.
func (n *Notifier) Cancel(worker execution.WorkerID, key execution.Key) {
	n.mu.Lock()
	if len(n.cancels) >= notifyPending {
		n.cancels = n.cancels[1:]
	}
	n.cancels = append(n.cancels, cancellation{worker, key})
	n.mu.Unlock()
	n.wake.Set()
}

func (n *Notifier) addChange(t Type, c Change) {
	if len(n.pending[t]) >= notifyPending {
		n.pending[t] = n.pending[t][1:]
	}
	n.pending[t] = append(n.pending[t], c)
}

// Run publishes pending hints until ctx ends.
func (n *Notifier) Run(ctx context.Context) {
	// Flush may have returned because ctx ended; then Run must not wait for more hints.
	for n.Flush(ctx); ctx.Err() == nil; n.Flush(ctx) {
		if _, err := n.wake.Wait(ctx, host.Forever); err != nil {
			return
		}
	}
}

// Flush tries to publish all pending hints, as Run does, until ctx ends. A stopping process calls it
// last, so that its last hints need not wait for a reconciler.
func (n *Notifier) Flush(ctx context.Context) {
	for ms := n.takeMessages(); len(ms) > 0 && ctx.Err() == nil; ms = n.takeMessages() {
		n.publishMessages(ctx, ms)
	}
}

// takeMessages turns pending hints into messages: at most one for each type, and one with the cancellations
// for one worker. It removes these hints.
func (n *Notifier) takeMessages() []Message {
	now := n.host.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	size := min(len(n.cancels), 1)
	for t := ExecutionRequested; t <= ExecutionCompleted; t++ {
		size += min(len(n.pending[t]), 1)
	}
	if size == 0 {
		return nil
	}
	ms := make([]Message, 0, size)
	var digits [20]byte
	add := func(t Type, key string, changes []Change) {
		n.seq++
		ms = append(ms, Message{
			Exchange: ExchangeExecutions, RoutingKey: key,
			Envelope: Envelope{
				MessageID: n.source + "/" + string(strconv.AppendUint(digits[:0], n.seq, 10)), Type: t, Timestamp: now, Version: 1, Changes: changes,
			},
		})
	}
	for t := ExecutionRequested; t <= ExecutionCompleted; t++ {
		changes := n.pending[t]
		if len(changes) == 0 {
			continue
		}
		count := min(len(changes), notifyBatch)
		add(t, t.String(), changes[:count:count])
		n.pending[t] = changes[count:]
	}
	if len(n.cancels) == 0 {
		return ms
	}
	worker, left := n.cancels[0].worker, n.cancels[:0:0]
	var changes []Change
	for _, c := range n.cancels {
		if c.worker == worker && len(changes) < notifyBatch {
			changes = append(changes, Change{Key: c.key, To: execution.Canceling})
		} else {
			left = append(left, c)
		}
	}
	add(ExecutionCancel, CancelKey(worker), changes)
	n.cancels = left
	return ms
}

func (n *Notifier) publishMessages(ctx context.Context, ms []Message) {
	backoff := NewBackoff(n.host, 100*time.Millisecond, 2*time.Second)
	for attempt := 1; len(ms) > 0; attempt++ {
		left := ms[:0:0]
		within, cancel := n.host.WithTimeout(ctx, notifyTimeout)
		outcomes := n.client.Publish(within, ms)
		cancel()
		for i, o := range outcomes {
			// A hint that may have arrived is not resent.
			if o != Confirmed && o != Unknown {
				left = append(left, ms[i])
			}
		}
		ms = left
		if len(ms) == 0 {
			return
		}
		if attempt == notifyAttempts || backoff.Wait(ctx) != nil {
			n.log.LogAttrs(ctx, slog.LevelWarn, "notification given up, a reconciler will find it", slog.Int("messages", len(ms)))
			return
		}
	}
}
