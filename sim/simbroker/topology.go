package simbroker

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"handoff/core/broker"
)

// errNotFound is RabbitMQ's error 404: the named queue or exchange does not exist.
var errNotFound = errors.New("not found (404)")

// exchange routes by its bindings, in the order in which they were made.
type exchange struct {
	name     string
	kind     broker.ExchangeKind
	bindings []route
	// routes caches which queues each key is routed to; a change of the bindings clears it.
	routes map[string][]*queue
	// lost holds the bindings that a fault removed and that were not restored.
	lost []lostBinding
}

// lostBinding is a binding that a fault removed.
type lostBinding struct{ pattern, queue string }

type route struct {
	pattern string
	queue   *queue
}

// declareTopology executes declarations in order; those before a refusal remain in effect.
func (b *Broker) declareTopology(t broker.Topology) error {
	for _, e := range t.Exchanges {
		if err := b.declareExchange(e); err != nil {
			return err
		}
	}
	for _, q := range t.Queues {
		if err := b.declareQueue(q); err != nil {
			return err
		}
	}
	for _, binding := range t.Bindings {
		if err := b.bindQueue(binding); err != nil {
			return err
		}
	}
	return nil
}

func (b *Broker) declareExchange(e broker.Exchange) error {
	if old := b.exchangeNamed(e.Name); old != nil {
		if old.kind != e.Kind {
			return fmt.Errorf("exchange %s is %s, not %s: %w", e.Name, old.kind, e.Kind, broker.ErrPrecondition)
		}
		return nil
	}
	if e.Kind != broker.Topic && e.Kind != broker.Direct {
		return fmt.Errorf("exchange %s: unknown kind %q", e.Name, e.Kind)
	}
	b.exchanges = append(b.exchanges, &exchange{name: e.Name, kind: e.Kind, routes: make(map[string][]*queue)})
	slices.SortFunc(b.exchanges, func(x, y *exchange) int { return strings.Compare(x.name, y.name) })
	return nil
}

func (b *Broker) declareQueue(decl broker.Queue) error {
	if old := b.queueNamed(decl.Name); old != nil {
		// If the queue has a delivery limit and the client wants none, the limit stays, and the session
		// notes it (noteLimits). If it has none and the client wants one, the declaration is refused.
		known := decl
		known.KeepsReturned = old.decl.KeepsReturned
		asks := decl.KeepsReturned || !old.decl.KeepsReturned || decl.Type != typeQuorum || b.like.deliveryLimit == 0
		if old.decl != known || !asks {
			return fmt.Errorf("queue %s is %+v, not %+v: %w", decl.Name, old.decl, decl, broker.ErrPrecondition)
		}
		if decl.Type == typeClassic {
			old.restartExpiry()
		}
		return nil
	}
	if b.isPoisoned() {
		return errInternal
	}
	if decl.Type != typeQuorum && decl.Type != typeClassic {
		return fmt.Errorf("queue %s: unknown type %q", decl.Name, decl.Type)
	}
	q := &queue{b: b, decl: decl}
	b.queues = append(b.queues, q)
	slices.SortFunc(b.queues, func(x, y *queue) int { return strings.Compare(x.decl.Name, y.decl.Name) })
	q.restartExpiry()
	return nil
}

func (b *Broker) bindQueue(binding broker.Binding) error {
	e, q := b.exchangeNamed(binding.Exchange), b.queueNamed(binding.Queue)
	if e == nil {
		return fmt.Errorf("bind %s: exchange %s %w", binding.Queue, binding.Exchange, errNotFound)
	}
	if q == nil {
		return fmt.Errorf("bind to %s: queue %s %w", binding.Exchange, binding.Queue, errNotFound)
	}
	r := route{pattern: binding.Pattern, queue: q}
	e.lost = slices.DeleteFunc(e.lost, func(l lostBinding) bool { return l == lostBinding{r.pattern, binding.Queue} })
	if !slices.Contains(e.bindings, r) {
		e.bindings = append(e.bindings, r)
		clear(e.routes)
	}
	return nil
}

// unbindQueue removes all bindings of a queue, because of a fault or because a client asked for it.
func (e *exchange) unbindQueue(q *queue, fault string) {
	if fault == "" {
		e.lost = slices.DeleteFunc(e.lost, func(l lostBinding) bool { return l.queue == q.decl.Name })
	}
	e.bindings = slices.DeleteFunc(e.bindings, func(r route) bool {
		if r.queue == q && fault != "" {
			e.lost = append(e.lost, lostBinding{r.pattern, q.decl.Name})
		}
		return r.queue == q
	})
	clear(e.routes)
}

// hasLostBinding reports whether a fault removed a binding that would route this key.
func (e *exchange) hasLostBinding(key string) bool {
	return slices.ContainsFunc(e.lost, func(l lostBinding) bool { return e.matchesKey(l.pattern, key) })
}

// routedQueues returns the queues that a message is routed to, each once, and false if there is no such
// exchange. The default exchange routes by the queue's name (rule 2). The caller must not change the list.
func (b *Broker) routedQueues(exchangeName, key string) ([]*queue, bool) {
	if exchangeName == "" {
		if q := b.queueNamed(key); q != nil {
			return []*queue{q}, true
		}
		return nil, true
	}
	e := b.exchangeNamed(exchangeName)
	if e == nil {
		return nil, false
	}
	queues, asked := e.routes[key]
	if asked {
		return queues, true
	}
	for _, r := range e.bindings {
		if e.matchesKey(r.pattern, key) && !slices.Contains(queues, r.queue) {
			queues = append(queues, r.queue)
		}
	}
	e.routes[key] = queues
	return queues, true
}

// matchesKey reports whether a binding's pattern matches a key. On a direct exchange, "#" and "*" are
// ordinary characters (rule 1).
func (e *exchange) matchesKey(pattern, key string) bool {
	if e.kind == broker.Direct {
		return pattern == key
	}
	return matchTopic(pattern, key, pattern == "", key == "")
}

// matchTopic matches words separated by dots: "*" is one word, "#" any number, including none. The flags
// report that no words are left, which is not the same as one empty word. An empty key or pattern has no
// words.
func matchTopic(pattern, key string, patternOver, keyOver bool) bool {
	if patternOver {
		return keyOver
	}
	word, patternRest, more := strings.Cut(pattern, ".")
	if word == "#" {
		if matchTopic(patternRest, key, !more, keyOver) {
			return true
		}
		if keyOver {
			return false
		}
		_, keyRest, keyMore := strings.Cut(key, ".")
		return matchTopic(pattern, keyRest, false, !keyMore)
	}
	if keyOver {
		return false
	}
	keyWord, keyRest, keyMore := strings.Cut(key, ".")
	if word != "*" && word != keyWord {
		return false
	}
	return matchTopic(patternRest, keyRest, !more, !keyMore)
}
