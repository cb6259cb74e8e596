package reports

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// queueLane shows one queue over time.
type queueLane struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	Most  int    `json:"most"`
	// Points are [at, k, ready, unacknowledged], one for each change.
	Points [][4]int64 `json:"points"`
	// Stays are [from, received or -1, to, k, execution, outcome]: the messages of the drawn executions.
	Stays []any `json:"stays"`
	// Marks are [at, k, what] for unusual events of messages.
	Marks []any `json:"marks"`

	ready, unacked int
	stays          []*stay
	events         int
}

// stay is one message's stay in one queue.
type stay struct {
	execution execution.ID
	from      time.Duration
	received  time.Duration
	to        time.Duration
	k         int
	fate      string
}

// queueLanes collects the lanes of queues.
type queueLanes struct {
	t      describer
	byName map[string]*queueLane
	open   map[copyKey][]*stay
}

// copyKey identifies a message within a queue: a dead-lettered message keeps its number in the next queue.
type copyKey struct {
	queue   string
	message uint64
}

func (q *queueLanes) init(t describer) {
	q.t, q.byName, q.open = t, make(map[string]*queueLane), make(map[copyKey][]*stay)
}

func (q *queueLanes) observeEvent(k int, e *history.Event) {
	switch e.Kind {
	case history.Enqueued, history.Delivered, history.Acked, history.Requeued,
		history.Expired, history.Rejected, history.ReturnedTooOften, history.DeadLettered, history.Dropped:
	default:
		return
	}
	if e.Queue == "" {
		return
	}
	lane := q.byName[e.Queue]
	if lane == nil {
		lane = &queueLane{Name: e.Queue, Label: strings.TrimPrefix(e.Queue, "attune."), Points: [][4]int64{}, Stays: []any{}, Marks: []any{}}
		switch owner, what := q.t.queueOwner(e.Queue); {
		case owner != "" && what == "executions":
			lane.Label = owner
		case owner != "":
			lane.Label = owner + " " + what
		}
		q.byName[e.Queue] = lane
	}
	lane.events++
	key := copyKey{e.Queue, e.Message}
	switch e.Kind {
	case history.Enqueued:
		s := &stay{execution: e.Execution, from: e.At, received: -1, to: -1, k: k}
		q.open[key] = append(q.open[key], s)
		lane.stays = append(lane.stays, s)
		lane.ready++
	case history.Delivered:
		if s := q.findCopy(key, false); s != nil {
			s.received = e.At
			lane.ready, lane.unacked = lane.ready-1, lane.unacked+1
		}
	case history.Requeued:
		if s := q.findCopy(key, true); s != nil {
			s.received = -1
			lane.ready, lane.unacked = lane.ready+1, lane.unacked-1
		}
		lane.addMark(k, e)
	case history.DeadLettered:
		// The expiry or rejection has already removed the copy.
		q.removeCopy(lane, key, e)
	case history.Acked:
		q.removeCopy(lane, key, e)
	default:
		q.removeCopy(lane, key, e)
		lane.addMark(k, e)
	}
	lane.addPoint(k, e.At)
}

// findCopy returns a copy that is still in its queue. received selects a copy that a consumer has received.
func (q *queueLanes) findCopy(key copyKey, received bool) *stay {
	for _, s := range q.open[key] {
		if (s.received >= 0) == received {
			return s
		}
	}
	return nil
}

// removeCopy removes a copy from its queue. A consumer had received an acknowledged or rejected copy, but not
// an expired copy.
func (q *queueLanes) removeCopy(lane *queueLane, key copyKey, e *history.Event) {
	received := e.Kind == history.Acked || e.Kind == history.Rejected
	s := q.findCopy(key, received)
	if s == nil {
		if s = q.findCopy(key, !received); s == nil {
			return
		}
	}
	if s.received >= 0 {
		lane.unacked--
	} else {
		lane.ready--
	}
	s.to, s.fate = e.At, e.Kind.String()
	list := slices.DeleteFunc(q.open[key], func(o *stay) bool { return o == s })
	if len(list) == 0 {
		delete(q.open, key)
		return
	}
	q.open[key] = list
}

func (q *queueLane) addMark(k int, e *history.Event) {
	q.Marks = append(q.Marks, []any{pageMicros(e.At), k, e.Kind.String()})
}

func (q *queueLane) addPoint(k int, at time.Duration) {
	p := [4]int64{pageMicros(at), int64(k), int64(q.ready), int64(q.unacked)}
	q.Most = max(q.Most, q.ready+q.unacked)
	if n := len(q.Points); n > 0 && q.Points[n-1][2] == p[2] && q.Points[n-1][3] == p[3] {
		return
	}
	q.Points = append(q.Points, p)
}

func (q *queueLanes) chooseLanes(b *builder, shown []*rowLane) (lanes []*queueLane, leftOut int) {
	drawn := make(map[execution.ID]bool, len(shown))
	for _, x := range shown {
		drawn[x.ID] = true
	}
	lanes = make([]*queueLane, 0, len(q.byName))
	for _, l := range q.byName {
		lanes = append(lanes, l)
	}
	// Keep the busiest queues, then sort them in an order that does not depend on their activity.
	slices.SortFunc(lanes, func(a, b *queueLane) int {
		return cmp.Or(cmp.Compare(b.events, a.events), cmp.Compare(a.Name, b.Name))
	})
	if len(lanes) > b.lim.queues {
		leftOut = len(lanes) - b.lim.queues
		lanes = lanes[:b.lim.queues]
	}
	slices.SortFunc(lanes, func(x, y *queueLane) int {
		ox, _ := q.t.queueOwner(x.Name)
		oy, _ := q.t.queueOwner(y.Name)
		wx, wy := ox == "", oy == ""
		if wx != wy {
			if wx {
				return 1
			}
			return -1
		}
		return cmp.Or(compareNatural(x.Label, y.Label), cmp.Compare(x.Name, y.Name))
	})
	for _, l := range lanes {
		l.Points = b.thinOutside(l.Points)
		l.Marks = thinOut(l.Marks, b.lim.points)
		for _, s := range l.stays {
			if !drawn[s.execution] || len(l.Stays) >= b.lim.points {
				continue
			}
			if s.to < 0 {
				s.to, s.fate = b.end, "still there"
			}
			received := int64(-1)
			if s.received >= 0 {
				received = pageMicros(s.received)
			}
			l.Stays = append(l.Stays, []any{pageMicros(s.from), received, pageMicros(s.to), s.k, s.execution, s.fate})
		}
	}
	return lanes, leftOut
}

// thinOutside thins out a line with too many points, mostly outside the period that is shown first.
func (b *builder) thinOutside(points [][4]int64) [][4]int64 {
	if len(points) <= b.lim.points {
		return points
	}
	var before, inside, after [][4]int64
	for _, p := range points {
		switch {
		case p[0] < pageMicros(b.focus[0]):
			before = append(before, p)
		case p[0] > pageMicros(b.focus[1]):
			after = append(after, p)
		default:
			inside = append(inside, p)
		}
	}
	part := b.lim.points / 4
	return slices.Concat(thinOut(before, part), thinOut(inside, 2*part), thinOut(after, part))
}
