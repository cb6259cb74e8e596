package evidence

import (
	"cmp"
	"slices"
	"time"

	"handoff/chaos/history"
)

// queuedCopy identifies a message in one queue.
type queuedCopy struct {
	message uint64
	queue   string
}

// stay holds the trace's information about the copies of a message in one queue.
type stay struct {
	queuedCopy
	about                      history.Event
	entered, deaths, delivered int
	unreadable                 string
	first, last                time.Time
}

// addDepartures adds the events by which copies left their queues, because the trace has no acknowledgements.
// A copy that was delivered, has left and did not die was acknowledged. A copy that has left without a
// delivery was lost by the broker, unless a gap may hide its fate or its publisher may have been killed
// before the confirmation.
func addDepartures(heard []Item, gaps []Gap, own []Item, depths map[string]int) []Item {
	stays := make(map[queuedCopy]*stay)
	var order []*stay
	var out []Item
	enter := func(at queuedCopy, item *Item) *stay {
		s := stays[at]
		if s == nil {
			s = &stay{queuedCopy: at, about: item.Event, first: item.Wall}
			stays[at] = s
			order = append(order, s)
		}
		return s
	}
	for i := range heard {
		item := &heard[i]
		e := &item.Event
		if e.Queue == "" || e.Queue == SinkQueue {
			out = append(out, *item)
			continue
		}
		s := enter(queuedCopy{e.Message, e.Queue}, item)
		s.last, s.unreadable = item.Wall, item.Unreadable
		switch e.Kind {
		case history.Enqueued:
			s.entered++
		case history.Delivered, history.Expired, history.Rejected, history.ReturnedTooOften, history.DeadLettered:
			if s.entered == 0 {
				// The message was published during a gap.
				out = append(out, impliedArrival(item)...)
				s.entered++
			}
			switch e.Kind {
			case history.Delivered:
				s.delivered++
			case history.DeadLettered:
				s.deaths++
			default:
			}
		default:
		}
		out = append(out, *item)
	}
	for _, s := range order {
		out = append(out, s.impliedDepartures(gaps, own, depths)...)
	}
	slices.SortStableFunc(out, func(a, b Item) int { return cmp.Compare(a.Wall.UnixNano(), b.Wall.UnixNano()) })
	return out
}

// impliedArrival returns the publish and the arrival that must have preceded an event.
func impliedArrival(item *Item) []Item {
	published, entered := *item, *item
	published.Event.Kind, published.Event.Queue, published.Event.Process, published.Event.Count = history.Published, "", "", 1
	entered.Event.Kind, entered.Event.Process, entered.Event.Count = history.Enqueued, "", 0
	return []Item{published, entered}
}

// impliedDepartures returns the events, missing from the trace, by which copies left the queue.
func (s *stay) impliedDepartures(gaps []Gap, own []Item, depths map[string]int) []Item {
	left := s.entered - s.deaths
	if left <= 0 {
		return nil
	}
	e := s.about
	e.Process, e.Fault, e.Count = "", "", 0
	at := s.last.Add(time.Nanosecond)
	e.At += at.Sub(s.first)
	switch {
	case depths[s.queue] > 0:
		return nil // some copies are still queued, but it is unknown which
	case s.delivered > 0:
		e.Kind = history.Acked
		// The deletion of a queue may have removed delivered copies.
		if hidingFault(gaps, s.first, s.queue) == "" {
			e.Fault = s.unreadable
		}
	default:
		e.Kind, e.Fault = history.Dropped, cmp.Or(hidingFault(gaps, s.first, s.queue), publisherKill(own, s.first))
	}
	items := make([]Item, left)
	for i := range items {
		items[i] = Item{Wall: at, Event: e}
	}
	return items
}

// hidingFault returns the fault of a gap that may hide the fate of a copy that entered the queue at since;
// empty for none.
func hidingFault(gaps []Gap, since time.Time, queue string) string {
	for _, g := range gaps {
		if since.Before(g.To) && (g.Queue == "" || g.Queue == queue) {
			return g.Fault
		}
	}
	return ""
}

// publisherKill returns the kill that may have lost a message published at this time; empty if there was
// none. A broker does not have to keep a message that it has not confirmed. The trace reports a publish when
// the channel routes it. If the publisher's connection then ends, the channel ends, too, and a quorum queue
// may not have received the message. (RabbitMQ 3.10 on a busy machine lost three dispatches of an executor
// killed 75 ms before.)
func publisherKill(own []Item, published time.Time) string {
	for i := range own {
		if e := &own[i].Event; e.Kind == history.ProcessCrashed && published.Sub(own[i].Wall).Abs() < Lag {
			return "kill of " + e.Process
		}
	}
	return ""
}
