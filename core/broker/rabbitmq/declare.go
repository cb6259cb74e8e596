package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"handoff/core/broker"
)

// The queue types.
const (
	typeQuorum  = "quorum"
	typeClassic = "classic"
)

// Declare implements broker.Session. It uses its own channel, because RabbitMQ closes the channel
// when it refuses; the session stays open. Declarations before a refusal keep their effect. A
// declaration that was given up continues as soon as the broker answers, or ends with the session.
func (s *session) Declare(ctx context.Context, t broker.Topology) error {
	within, cancel := context.WithTimeout(ctx, broker.DeclareWait)
	defer cancel()
	var at progress
	_, err := callOrAbandon(within, s, func() (noResult, error) {
		ch, err := s.consuming.amqp.Channel()
		if err != nil {
			return noResult{}, err
		}
		err = s.declareTopology(ctx, ch, t, &at)
		_ = ch.Close()
		return noResult{}, err
	}, func(noResult) {})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return broker.Unanswered(at.currentObject())
	}
	return err
}

// progress records which object a declaration is waiting for.
type progress struct{ what atomic.Pointer[string] }

func (p *progress) noteObject(what, name string) {
	what += " " + name
	p.what.Store(&what)
}

// currentObject names that object; it is empty before the first request.
func (p *progress) currentObject() string {
	if what := p.what.Load(); what != nil {
		return *what
	}
	return ""
}

func (s *session) declareTopology(ctx context.Context, ch *amqp.Channel, t broker.Topology, p *progress) error {
	for _, e := range t.Exchanges {
		p.noteObject("exchange", e.Name)
		// RabbitMQ closes the whole connection if it does not know the kind of an exchange.
		if e.Kind != broker.Topic && e.Kind != broker.Direct {
			return fmt.Errorf("exchange %s: unknown kind %q", e.Name, e.Kind)
		}
		if err := ch.ExchangeDeclare(e.Name, string(e.Kind), true, false, false, false, nil); err != nil {
			return declareError("exchange", e.Name, err)
		}
	}
	for _, q := range t.Queues {
		p.noteObject("queue", q.Name)
		args, err := QueueArguments(q)
		if err != nil {
			return err
		}
		if s.declaredUnlimited(q, args) {
			continue
		}
		if _, err := ch.QueueDeclare(q.Name, true, false, false, false, args); err != nil {
			return declareError("queue", q.Name, err)
		}
		s.noteLimit(ctx, q)
	}
	for _, b := range t.Bindings {
		p.noteObject("binding to queue", b.Queue)
		if err := ch.QueueBind(b.Queue, b.Pattern, b.Exchange, false, nil); err != nil {
			return fmt.Errorf("bind %s to %s with %s: %w", b.Queue, b.Exchange, b.Pattern, err)
		}
	}
	return nil
}

// deliveryLimitArg is the argument that limits how often a message can be returned to a quorum queue. On
// RabbitMQ 4, -1 means no limit. RabbitMQ 3.10 accepts -1 too, but then drops a message when it is first
// returned.
const deliveryLimitArg = "x-delivery-limit"

// hasDeliveryLimit reports whether the server's quorum queues have a delivery limit unless a declaration
// lifts it. If that is not known of a server, its queues are declared without the argument.
func (s *session) hasDeliveryLimit() bool {
	product, _ := s.consuming.amqp.Properties["product"].(string)
	version, _ := s.consuming.amqp.Properties["version"].(string)
	return product == "RabbitMQ" && majorVersion(version) >= 4
}

// majorVersion returns the server's major version; 0 if it can't be read.
func majorVersion(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}

// declaredUnlimited declares, without a delivery limit, a queue that must keep returned messages, if the
// server has such a limit. It returns false if it declared nothing: the server has no limit, or the queue
// exists with other arguments, which the plain declaration then checks. It uses its own channel, because a
// refusal closes it.
func (s *session) declaredUnlimited(q broker.Queue, args amqp.Table) bool {
	if !q.KeepsReturned || q.Type != typeQuorum || !s.hasDeliveryLimit() {
		return false
	}
	unlimited := maps.Clone(args)
	unlimited[deliveryLimitArg] = int64(-1)
	_, err := onChannel(s, func(ch *amqp.Channel) (amqp.Queue, error) {
		return ch.QueueDeclare(q.Name, true, false, false, false, unlimited)
	})
	if err == nil {
		s.setLimited(q.Name, false)
	}
	return err == nil
}

// noteLimit records a queue that an older release declared and that has the server's delivery limit.
func (s *session) noteLimit(ctx context.Context, q broker.Queue) {
	if !q.KeepsReturned || q.Type != typeQuorum || !s.hasDeliveryLimit() {
		return
	}
	s.setLimited(q.Name, true)
	s.b.log.LogAttrs(ctx, slog.LevelWarn, "queue has a delivery limit", slog.String("queue", q.Name))
}

func (s *session) setLimited(queue string, limited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limited = slices.DeleteFunc(s.limited, func(name string) bool { return name == queue })
	if limited {
		s.limited = append(s.limited, queue)
		slices.Sort(s.limited)
	}
}

func (s *session) Limited() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.limited)
}

// DeleteIdle implements broker.Session. Each request uses its own channel, because RabbitMQ closes
// the channel when it refuses.
func (s *session) DeleteIdle(ctx context.Context, q broker.Queue) (broker.QueueFate, error) {
	return callOrAbandon(ctx, s, func() (broker.QueueFate, error) {
		found, err := onChannel(s, func(ch *amqp.Channel) (amqp.Queue, error) {
			return ch.QueueDeclarePassive(q.Name, true, false, false, false, nil)
		})
		switch {
		case hasReplyCode(err, amqp.NotFound):
			return broker.QueueAbsent, nil
		case err != nil:
			return broker.QueueInUse, fmt.Errorf("look at queue %s: %w", q.Name, err)
		case found.Messages > 0 || found.Consumers > 0:
			return broker.QueueInUse, nil
		}
		// RabbitMQ closes the whole connection if a quorum queue is deleted with a condition.
		judges := q.Type == typeClassic
		if !judges {
			// RabbitMQ reports a quorum queue as empty if the queue does not answer within 250 ms.
			// So this asks the queue for a message, which returns to its place when the channel
			// closes. A stuck queue does not answer.
			holds, err := onChannel(s, func(ch *amqp.Channel) (bool, error) {
				_, holds, err := ch.Get(q.Name, false)
				return holds, err
			})
			switch {
			case hasReplyCode(err, amqp.NotFound):
				return broker.QueueAbsent, nil
			case err != nil:
				return broker.QueueInUse, fmt.Errorf("look into queue %s: %w", q.Name, err)
			case holds:
				return broker.QueueInUse, nil
			}
		}
		_, err = onChannel(s, func(ch *amqp.Channel) (int, error) { return ch.QueueDelete(q.Name, judges, judges, false) })
		switch {
		case hasReplyCode(err, amqp.PreconditionFailed):
			return broker.QueueInUse, nil
		case err != nil:
			return broker.QueueInUse, fmt.Errorf("delete queue %s: %w", q.Name, err)
		}
		return broker.QueueDeleted, nil
	}, func(broker.QueueFate) {})
}

func (s *session) QueueState(ctx context.Context, queue string) (broker.QueueState, error) {
	return callOrAbandon(ctx, s, func() (broker.QueueState, error) {
		found, err := onChannel(s, func(ch *amqp.Channel) (amqp.Queue, error) {
			return ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		})
		switch {
		case hasReplyCode(err, amqp.NotFound):
			return broker.QueueState{}, nil
		case err != nil:
			return broker.QueueState{}, fmt.Errorf("look at queue %s: %w", queue, err)
		}
		return broker.QueueState{Exists: true, Ready: found.Messages, Consumers: found.Consumers}, nil
	}, func(broker.QueueState) {})
}

// onChannel opens a channel for one request.
func onChannel[T any](s *session, do func(*amqp.Channel) (T, error)) (T, error) {
	ch, err := s.consuming.amqp.Channel()
	if err != nil {
		var none T
		return none, err
	}
	answer, err := do(ch)
	_ = ch.Close()
	return answer, err
}

// hasReplyCode reports whether RabbitMQ refused a request with this code.
func hasReplyCode(err error, code int) bool {
	e, ok := errors.AsType[*amqp.Error](err)
	return ok && e.Code == code
}

// QueueArguments returns the x-arguments of a queue's declaration, or an error for an unknown type. RabbitMQ
// refuses a declaration whose arguments differ from those of the existing queue. The delivery limit is not
// among them, because only some servers accept it.
func QueueArguments(q broker.Queue) (amqp.Table, error) {
	if q.Type != typeQuorum && q.Type != typeClassic {
		return nil, fmt.Errorf("queue %s: unknown type %q", q.Name, q.Type)
	}
	args := amqp.Table{amqp.QueueTypeArg: q.Type}
	if q.TTL > 0 {
		// Rounded up, because with a TTL of 0 every message expires on arrival.
		args[amqp.QueueMessageTTLArg] = int64((q.TTL + time.Millisecond - 1) / time.Millisecond)
	}
	if q.Expires > 0 {
		args[amqp.QueueTTLArg] = int64((q.Expires + time.Millisecond - 1) / time.Millisecond)
	}
	if q.DeadLetterExchange != "" {
		args["x-dead-letter-exchange"] = q.DeadLetterExchange
		if q.Type == typeQuorum {
			// Without the overflow setting, RabbitMQ falls back to at-most-once and only logs one line.
			args["x-dead-letter-strategy"] = "at-least-once"
			args[amqp.QueueOverflowArg] = amqp.QueueOverflowRejectPublish
		}
	}
	return args, nil
}

// declareError explains why a declaration failed. Settings of an existing object can't be changed in
// place, so the error explains how to migrate.
func declareError(what, name string, err error) error {
	e, ok := errors.AsType[*amqp.Error](err)
	if !ok || e.Code != amqp.PreconditionFailed {
		return fmt.Errorf("declare %s %s: %w", what, name, err)
	}
	way := fmt.Sprintf("stop what consumes it, let it run empty (`rabbitmqctl list_queues name messages consumers`), `rabbitmqctl delete_queue %s`, "+
		"both with -p where the virtual host is not /, start again; or configure a name that is not in use", name)
	if what == "exchange" {
		way = "delete it in the management interface while nothing publishes to it, start again; or configure a name that is not in use"
	}
	return fmt.Errorf("%w: %s %s: %s. To migrate: %s", broker.ErrPrecondition, what, name, e.Reason, way)
}
