package simbroker

import (
	"cmp"
	"slices"
	"time"

	"handoff/chaos/history"
	"handoff/core/broker"
)

// Interception is the effect of a filter on one publish. The zero value changes nothing.
type Interception struct {
	// Drop: the message is routed, confirmed and lost.
	Drop bool
	// Duplicate: the message is put into each queue twice.
	Duplicate bool
	// Delay: the message is confirmed immediately, but enters its queues after this time; different delays
	// reorder messages.
	Delay time.Duration
	// Behind: the message enters each queue right after the next message that is published there without a
	// delay, and after Delay at the latest. Without a Delay it has no effect.
	Behind bool
	// Corrupt: the message is delivered with Malformed set and no envelope.
	Corrupt bool
	// Nack: the message is refused and not stored.
	Nack bool
	// Silent: the message is stored, but never confirmed.
	Silent bool
	// Fault names the fault behind the filter; it should not be empty.
	Fault string
}

// Filter decides the effect on a publish. It may draw.
type Filter func(t broker.Type, routingKey string) Interception

type filter struct {
	id int
	fn Filter
}

// interference is the combined effect of all filters. Each string names the fault behind an effect,
// and is empty if there is none; delays are the faults behind delay.
type interference struct {
	drop, duplicate, corrupt, nack, silent string
	delay                                  time.Duration
	behind                                 bool
	delays                                 []string
}

// unnamed is the fault of a filter that names none, because an empty fault stands for the broker's own rules.
const unnamed = "filter"

// SetFilter adds a filter or replaces the filter with that id; it removes the filter if f is nil. Every
// filter sees every publish that has a route or is returned, in the order of their ids, and their effects add
// up. They do not see dead letters, which move inside the broker.
func (b *Broker) SetFilter(id int, f Filter) {
	b.filters = slices.DeleteFunc(b.filters, func(old filter) bool { return old.id == id })
	if f != nil {
		b.filters = append(b.filters, filter{id: id, fn: f})
		slices.SortFunc(b.filters, func(x, y filter) int { return cmp.Compare(x.id, y.id) })
	}
}

func (b *Broker) combinedInterference(t broker.Type, key string) interference {
	var all interference
	for _, f := range b.filters {
		one := f.fn(t, key)
		name := one.Fault
		if name == "" {
			name = unnamed
		}
		note := func(field *string, on bool) {
			if on && *field == "" {
				*field = name
			}
		}
		note(&all.drop, one.Drop)
		note(&all.duplicate, one.Duplicate)
		note(&all.corrupt, one.Corrupt)
		note(&all.nack, one.Nack)
		note(&all.silent, one.Silent)
		if one.Delay > 0 {
			all.delay += one.Delay
			all.delays = append(all.delays, name)
			all.behind = all.behind || one.Behind
		}
	}
	return all
}

// delayedMessage is a message that a filter delays.
type delayedMessage struct {
	m     *message
	queue string
	// behind reports whether the message is released by the next message that is published to its queue
	// without a delay.
	behind bool
	due    bool
}

// releaseOvertaken releases the delayed messages that wait for the next message in their queue, which has
// just arrived.
func (b *Broker) releaseOvertaken(queue string) {
	found := false
	for _, d := range b.delayed {
		if d.behind && d.queue == queue {
			d.due, found = true, true
		}
	}
	if found {
		b.flushDelayed()
	}
}

func (b *Broker) delayMessage(m *message, queue string, t *interference) {
	held := &delayedMessage{m: m, queue: queue, behind: t.behind}
	b.delayed = append(b.delayed, held)
	b.k.After(t.delay, func() {
		held.due = true
		if b.up {
			b.flushDelayed()
		}
	})
}

// flushDelayed enqueues the due messages, in the order in which they were published.
func (b *Broker) flushDelayed() {
	var due []*delayedMessage
	kept := b.delayed[:0]
	for _, d := range b.delayed {
		if d.due {
			due = append(due, d)
		} else {
			kept = append(kept, d)
		}
	}
	clear(b.delayed[len(kept):])
	b.delayed = kept
	for _, d := range due {
		if q := b.queueNamed(d.queue); q != nil {
			q.enqueueMessage(d.m)
			continue
		}
		b.emitMessageEvent(history.Enqueued, d.m, d.queue, "", "", 0)
		b.emitMessageEvent(history.Dropped, d.m, d.queue, "", FaultQueueDeleted, 0)
	}
}
