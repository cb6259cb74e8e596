package live

import (
	"sync"

	"handoff/chaos/scenario"
)

// blockedQueues are the queues that a process can't consume, by name. The zero value is none.
type blockedQueues struct {
	mu sync.Mutex
	by map[string]*injection
}

func (b *blockedQueues) set(queue string, x *injection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by == nil {
		b.by = make(map[string]*injection)
	}
	b.by[queue] = x
}

func (b *blockedQueues) clear(queue string, x *injection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.by[queue] == x {
		delete(b.by, queue)
	}
}

// holds says whether a subscription to a queue waits just now.
func (b *blockedQueues) holds(queue string) bool {
	b.mu.Lock()
	x := b.by[queue]
	b.mu.Unlock()
	if x != nil {
		x.touch()
	}
	return x != nil
}

// injectBlockConsumers keeps every process from consuming a queue. RabbitMQ can't be asked to cancel a consumer, so the
// connections of the processes that consume it end once; when they come back, their subscriptions to this queue wait in
// the proxy, and everything else goes on.
func injectBlockConsumers(x *injection) (func(), error) {
	var struck []*process
	for _, b := range x.bindings() {
		for _, p := range x.w.all() {
			p.blocked.set(b.Queue, x)
		}
	}
	for _, p := range x.w.all() {
		if len(x.targets) == 0 && p.spec == nil || x.strikes(p.name) {
			struck = append(struck, p)
		}
	}
	for _, p := range struck {
		l := p.links[scenario.Broker]
		l.Down()
		if err := l.Up(); err != nil {
			return nil, err
		}
	}
	return func() {
		for _, b := range x.bindings() {
			for _, p := range x.w.all() {
				p.blocked.clear(b.Queue, x)
			}
		}
	}, nil
}
