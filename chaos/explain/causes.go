package explain

import (
	"cmp"
	"container/heap"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"handoff/chaos/history"
	"handoff/core/execution"
)

// MostCauses is the maximum number of events shown as causes of a violation.
const MostCauses = 25

// Violation identifies a violation whose causes FindCauses is to find.
type Violation struct {
	Execution execution.ID // 0 for none
	Step      uint64       // 0 if the world doesn't number its steps
	At        time.Duration
	Message   string
}

// Causes holds the events that led to a violation.
type Causes struct {
	// Events holds indices into Run.Events, ascending.
	Events []int
	// Edges holds pairs of Events: a cause, and the event that followed from it directly or through events
	// that were left out. They form the shortest paths to the violation.
	Edges [][2]int
	// Past is the number of events in the violation's whole known past.
	Past int
}

// FindCauses returns the events that led to a violation: the nearest ones in its past, at most most.
func FindCauses(r *Run, v *Violation, most int) *Causes {
	n := countEventsUntil(r.Events, v)
	s := &search{graph: newGraph(r, n), v: v, far: make([]int32, n), from: make([]int32, n), story: make(map[execution.ID]bool), cast: make(map[string]bool)}
	for i := range s.far {
		s.far[i], s.from[i] = -1, -1
	}
	s.addStartEvents()
	return s.nearestCauses(most)
}

// countEventsUntil returns the number of events up to a violation.
func countEventsUntil(events []history.Event, v *Violation) int {
	n, _ := slices.BinarySearchFunc(events, v, func(e history.Event, v *Violation) int {
		if e.Step > v.Step || v.Step == 0 && e.At > v.At {
			return 1
		}
		return -1
	})
	return n
}

// search walks back in time from a violation, visiting the nearest events first.
type search struct {
	*graph
	v *Violation
	// story holds the executions that the violation concerns, and cast the processes.
	story map[execution.ID]bool
	cast  map[string]bool

	open  heapOf
	far   []int32        // distance of each event, -1 if it was not reached
	from  []int32        // event through which each event was reached
	found []reachedEvent // reached events with their ranks
}

var numbered = regexp.MustCompile(`\b(execution|incarnation|message) (\d+)`) //nolint:gochecknoglobals // a constant

// addStartEvents starts the search with the judged event, and with the latest events about everything that
// the violation names.
func (s *search) addStartEvents() {
	named := make(map[execution.Incarnation]bool)
	messages := make(map[uint64]bool)
	if s.v.Execution != 0 {
		s.story[s.v.Execution] = true
	}
	for _, m := range numbered.FindAllStringSubmatch(s.v.Message, -1) {
		id, _ := strconv.ParseInt(m[2], 10, 64)
		switch m[1] {
		case "execution":
			s.story[execution.ID(id)] = true
		case "incarnation":
			named[execution.Incarnation(id)] = true
		default:
			messages[uint64(id)] = true
		}
	}
	chains := make(map[execution.ID]bool)
	for i := range s.edges {
		if e := &s.r.Events[i]; s.story[e.Execution] && e.Chain != 0 {
			chains[e.Chain] = true
		}
	}
	for i := range s.edges {
		if e := &s.r.Events[i]; chains[e.Chain] {
			s.story[e.Execution] = true
		}
	}
	words := strings.FieldsFunc(s.v.Message, func(r rune) bool {
		return !strings.ContainsRune("-_.", r) && !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9')
	})
	for name := range s.works {
		if slices.Contains(words, name) {
			s.cast[name] = true
		}
	}
	for _, of := range []map[string]int32{s.queues, s.alerts, s.faults} {
		for name, at := range of { // map order is irrelevant: the search sorts what it reaches
			if slices.Contains(words, name) {
				s.reachEvent(at, -1, 2)
			}
		}
	}
	// A process may have caused the violation by doing nothing, so the last event of each process counts.
	for name, at := range s.works { // map order is irrelevant: the search sorts what it reaches
		s.reachEvent(at, -1, s.processDistance(name)+s.eventPenalty(at))
	}
	for name, all := range s.marks { // map order is irrelevant: the search sorts what it reaches
		for _, at := range all {
			s.reachEvent(at, -1, s.processDistance(name)+1)
		}
	}
	for i := len(s.edges) - 1; i >= 0 && s.r.Events[i].Step == s.v.Step; i-- {
		if e := &s.r.Events[i]; !isHidden(e) {
			far := int32(0)
			if s.v.Execution != 0 && e.Execution != s.v.Execution {
				far = 6
			}
			s.reachEvent(int32(i), -1, far)
		}
	}
	for id := range s.story {
		s.reachExecution(s.rows, id, 1)
		s.reachExecution(s.runs, id, 1)
	}
	for i := range named {
		if at, known := s.incarnations[i]; known {
			s.reachEvent(at, -1, 1)
		}
	}
	for i := range messages {
		if at, known := s.messages[i]; known {
			s.reachEvent(at, -1, 1)
		}
	}
}

// processDistance returns the distance from the violation that a process's last event gets.
func (s *search) processDistance(process string) int32 {
	if s.cast[process] {
		return 4
	}
	return 12
}

func (s *search) reachExecution(of map[execution.ID]int32, id execution.ID, far int32) {
	if at, known := of[id]; known {
		s.reachEvent(at, -1, far)
	}
}

// reachEvent records that an event was reached at a distance, unless it was reached at a smaller one.
func (s *search) reachEvent(i, from, far int32) {
	if s.far[i] >= 0 && s.far[i] <= far {
		return
	}
	s.far[i], s.from[i] = far, from
	heap.Push(&s.open, reachedEvent{far, i})
}

// lengths holds the length of an edge by its reason.
var lengths = [relations]int32{world: 2, row: 1, chain: 2, message: 1, action: 1, owner: 3, struck: 1, hit: 4, lived: 3, worked: 6, acted: 1} //nolint:gochecknoglobals // a constant table

// edgeLength returns the distance that an edge adds.
func (s *search) edgeLength(x edge) int32 {
	return lengths[x.why] + s.eventPenalty(x.to)
}

// eventPenalty returns the extra distance of an event that is hardly related to the violation.
func (s *search) eventPenalty(i int32) int32 {
	e := &s.r.Events[i]
	switch {
	case e.Execution != 0 && !s.story[e.Execution]:
		return 8
	case e.Kind == history.HeartbeatRenewed, e.Kind == history.Acked:
		return 5
	case isMessage(e.Kind) && e.Execution == 0:
		return 4
	}
	return 0
}

// nearestCauses searches the past and returns the events with the lowest rank.
func (s *search) nearestCauses(most int) *Causes {
	done := make([]bool, len(s.far))
	for len(s.open) > 0 {
		at := heap.Pop(&s.open).(reachedEvent) //nolint:forcetypeassert // the heap holds nothing else
		if done[at.i] {
			continue
		}
		done[at.i] = true
		if !isHidden(&s.r.Events[at.i]) {
			s.found = append(s.found, reachedEvent{at.far + s.eventCommonness(at.i), at.i})
		}
		for _, x := range s.edges[at.i] {
			if isHidden(&s.r.Events[x.to]) {
				s.reachEvent(x.to, at.i, at.far)
			} else {
				s.reachEvent(x.to, at.i, at.far+s.edgeLength(x))
			}
		}
	}
	out := &Causes{Past: len(s.found)}
	slices.SortFunc(s.found, func(a, b reachedEvent) int { return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(b.i, a.i)) })
	for _, at := range s.found[:min(len(s.found), most)] {
		out.Events = append(out.Events, int(at.i))
	}
	slices.Sort(out.Events)
	out.Edges = s.edgesBetween(out.Events)
	return out
}

// edgesBetween returns an edge from each chosen event to the chosen event through which the search reached
// it, directly or via events that were not chosen.
func (s *search) edgesBetween(chosen []int) [][2]int {
	arrows := [][2]int{}
	for _, i := range chosen {
		at := s.from[i]
		for at >= 0 {
			if _, found := slices.BinarySearch(chosen, int(at)); found {
				break
			}
			at = s.from[at]
		}
		if at >= 0 {
			arrows = append(arrows, [2]int{i, int(at)})
		}
	}
	return arrows
}

// eventCommonness rates how common an event is in its run, as a base-2 logarithm: rare events explain more.
// The judged event is never common. The first start of a process always is, because every run has it.
func (s *search) eventCommonness(i int32) int32 {
	e := &s.r.Events[i]
	switch {
	case s.far[i] == 0:
		return 0
	case e.Kind == history.ProcessStarted && e.At == 0:
		return 12
	}
	return int32(bits.Len32(uint32(s.kinds[classOf(e)])))
}

// reachedEvent is an event with its distance or rank.
type reachedEvent struct{ far, i int32 }

// heapOf is a heap of reached events, the nearest first. If two are equally near, the later one comes first.
type heapOf []reachedEvent

func (h heapOf) Len() int { return len(h) }
func (h heapOf) Less(i, j int) bool {
	return h[i].far < h[j].far || h[i].far == h[j].far && h[i].i > h[j].i
}
func (h heapOf) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heapOf) Push(x any)   { *h = append(*h, x.(reachedEvent)) } //nolint:forcetypeassert // the heap holds nothing else
func (h *heapOf) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
