package explain

import (
	"math"

	"handoff/chaos/history"
)

// Share is how many of some runs failed.
type Share struct{ Failed, Runs int }

// Of is the share as a number from 0 to 1. It is 0 without runs.
func (s Share) Of() float64 {
	if s.Runs == 0 {
		return 0
	}
	return float64(s.Failed) / float64(s.Runs)
}

// z is the quantile of the normal distribution that leaves 2.5 % on each side.
const z = 1.959963984540054

// Interval is the 95 % confidence interval of the share, after Wilson. It never leaves 0 to 1, and
// it is never empty, not even if no run or every run failed. Without runs it is 0 to 1.
func (s Share) Interval() (least, most float64) {
	if s.Runs == 0 {
		return 0, 1
	}
	n, p := float64(s.Runs), s.Of()
	middle := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, middle-half), min(1, middle+half)
}

// apart says that the whole interval of b is above that of a.
func apart(a, b Share) bool {
	_, most := a.Interval()
	least, _ := b.Interval()
	return least > most
}

// Inevitable is the share of failures above which a run counts as failing whatever is drawn. It is
// for a flat curve: the interval of its first point must lie above it as a whole.
const Inevitable = 0.9

// Redrawn says which random choices of a run were made anew from a point on.
type Redrawn int

// The kinds of Redrawn. Each has a curve of its own.
const (
	// All is everything random.
	All Redrawn = iota
	// Faults is what faults draw: when they begin, how long they last, which processes they strike.
	Faults
	// Schedule is everything else: which task runs next, how long a message, a write and an action
	// take.
	Schedule
	// Redraws is the number of kinds.
	Redraws
)

// Point is a moment of the failing run. Runs were repeated up to it and made anew from there.
type Point struct {
	// Event is the last event that the repeated runs share with the failing one. It is zero for the
	// beginning of the run.
	Event history.Event
	// At is the number of this event in the failure's story, from 1; 0 for the beginning.
	At int
	// This has the shares of runs with the same failure: the same rule, broken by the same execution.
	// Rule has the shares of runs that break the same rule, by whichever execution.
	This, Rule [Redraws]Share
}

// Curve is the share of failures over a run. Its moments are events of the failure's story: the
// events of the failing run that led to the violation.
type Curve struct {
	// Failure names the failure whose share this is: the rule, and the execution that breaks it.
	Failure string
	// Story is how many events the story has. The last one is the violation itself.
	Story int
	// Points are at some of these events, in their order. A point has no runs for a kind of Redrawn
	// that was not tried there.
	Points []Point
	// Runs and Steps are the work that it took.
	Runs  int
	Steps uint64
	// Spent says that the allowed work was used up before the steepest rise was narrowed down to two
	// neighbouring events.
	Spent bool
}

// Jump is a rise between two points of a curve.
type Jump struct {
	From, To *Point
	// Neighbours says that the story has no event between the two.
	Neighbours bool
	// Last says that To is the violation itself.
	Last bool
}

// Steepest is the largest rise of a curve between two points that follow each other. It is false if
// the curve is flat, that is if no point's interval lies as a whole above that of an earlier point.
// The two points of the rise themselves may have intervals that overlap.
func (c *Curve) Steepest(what Redrawn) (Jump, bool) {
	var tried []*Point
	for i := range c.Points {
		if c.Points[i].This[what].Runs > 0 {
			tried = append(tried, &c.Points[i])
		}
	}
	if !rises(tried, what) {
		return Jump{}, false
	}
	var found Jump
	most := 0.0
	for i := 1; i < len(tried); i++ {
		from, to := tried[i-1], tried[i]
		if rise := to.This[what].Of() - from.This[what].Of(); rise > most {
			most, found = rise, Jump{From: from, To: to, Neighbours: to.At == from.At+1, Last: to.At == c.Story}
		}
	}
	return found, most > 0
}

// rises says that some point's interval lies as a whole above that of an earlier point.
func rises(points []*Point, what Redrawn) bool {
	for i := range points {
		for j := i + 1; j < len(points); j++ {
			if apart(points[i].This[what], points[j].This[what]) {
				return true
			}
		}
	}
	return false
}
