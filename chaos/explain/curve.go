package explain

import (
	"math"

	"handoff/chaos/history"
)

// Share is how many of some runs failed.
type Share struct{ Failed, Runs int }

// Of is the share, 0 to 1; 0 of no runs.
func (s Share) Of() float64 {
	if s.Runs == 0 {
		return 0
	}
	return float64(s.Failed) / float64(s.Runs)
}

// z is the quantile of the normal distribution that leaves 2.5 % on each side.
const z = 1.959963984540054

// Interval is the 95 % confidence interval of the share, after Wilson: it is never empty and never
// beyond 0 and 1, for no and for all failures too. Of no runs it is everything.
func (s Share) Interval() (least, most float64) {
	if s.Runs == 0 {
		return 0, 1
	}
	n, p := float64(s.Runs), s.Of()
	middle := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return max(0, middle-half), min(1, middle+half)
}

// apart says that the interval of the second share is above that of the first.
func apart(a, b Share) bool {
	_, most := a.Interval()
	least, _ := b.Interval()
	return least > most
}

// Inevitable is the share above which a flat curve says that the run fails whatever is drawn: the
// whole interval of its beginning lies above it.
const Inevitable = 0.9

// Redrawn says which draws of a run were drawn anew.
type Redrawn int

// What is drawn anew. Each has a curve of its own.
const (
	// All is everything random.
	All Redrawn = iota
	// Faults is what the faults draw: when they begin, how long they last, whom they strike.
	Faults
	// Schedule is everything else: which task goes on, how long a message, a write and an action take.
	Schedule
	// Redraws is the number of them.
	Redraws
)

// Point is a moment of the failing run, from which draws were made anew.
type Point struct {
	// Event is the last event of which everything is kept. It is zero for the beginning of the run.
	Event history.Event
	// At is the number of this event among those of the failure's story, from 1; 0 for the beginning.
	At int
	// This are the shares of runs with the same failure: of the same rule on the same execution. Rule
	// are those with a violation of the same rule, on whichever execution.
	This, Rule [Redraws]Share
}

// Curve is the share of failures over a run.
type Curve struct {
	// Failure names the failure whose share this is: the rule, and the execution that breaks it.
	Failure string
	// Story is how many events the story of the failure has; points are some of them. The last one is
	// the violation itself.
	Story int
	// Points ascend. A point has no runs for a redraw that was not tried there.
	Points []Point
	// Runs and Steps are the work that it took.
	Runs  int
	Steps uint64
	// Spent says that the work was bounded before the steepest jump was narrowed down to neighbours.
	Spent bool
}

// Jump is a rise between two points of a curve.
type Jump struct {
	From, To *Point
	// Neighbours says that the story has no event between the two.
	Neighbours bool
	// Last says that the rise is at the violation itself.
	Last bool
}

// Steepest is the largest rise of a curve between two points that follow each other; false if the
// curve is flat: if nowhere two points have intervals that are apart.
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

// rises says that two of the points have intervals that are apart, the later one higher.
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
