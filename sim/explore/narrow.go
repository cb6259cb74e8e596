package explore

import (
	"math"

	"handoff/chaos/explain"
)

const (
	// grid is how many parts the run is cut into first.
	grid = 6
	// atFirst is which part of its runs a point gets at first, and fewest is the smallest number of
	// runs of which none and all are apart.
	atFirst, fewest = 8, 4
	// enough bounds the runs of the search, in runs of an end of the jump. Runs that are short would
	// use the bound of steps up for differences that nobody sees.
	enough = 10
)

// rise is a rise between two points that follow each other.
type rise struct {
	from, to *explain.Point
	// high is the rise that the runs so far do not exclude: the one that they show, and its standard
	// error.
	high float64
}

// neighbours says that the story has no event between the two.
func (r *rise) neighbours() bool { return r.to.At == r.from.At+1 }

// runs are those of the end that has fewer.
func (r *rise) runs() int {
	return min(r.from.This[explain.All].Runs, r.to.This[explain.All].Runs)
}

// highest is the rise of the curve that may be the steepest. A point with few runs may hide one, and
// so one with few runs goes before one that is known better and shows as much. It is nil if nothing
// rises.
func (v *curver) highest() (found *rise) {
	var before *explain.Point
	for i := range v.curve.Points {
		p := &v.curve.Points[i]
		if p.This[explain.All].Runs == 0 {
			continue
		}
		if before != nil {
			a, b := before.This[explain.All], p.This[explain.All]
			shown, off := b.Of()-a.Of(), math.Hypot(deviation(a), deviation(b))
			if r := (rise{before, p, shown + off}); shown > 0 && (found == nil || r.high > found.high) {
				found = &r
			}
		}
		before = p
	}
	return found
}

// deviation is the standard error of a share. One run more of each kind is added, so that it is not
// nothing where all of a few runs failed.
func deviation(s explain.Share) float64 {
	n := float64(s.Runs + 2)
	p := float64(s.Failed+1) / n
	return math.Sqrt(p * (1 - p) / n)
}

// begin says in how many parts the run is cut first, and how many runs each point gets then. Where
// the bound allows few runs, because each of them is long, most of them are left for the search.
func (v *curver) begin(leave uint64) (cut, runs int) {
	allowed := int((v.o.Steps - min(v.o.Steps, leave)) / max(1, v.Record.Steps))
	runs = max(1, min(v.o.Runs/atFirst, max(fewest, allowed/(4*grid))))
	if allowed < 4*grid*fewest {
		return 2, runs
	}
	return grid, runs
}

// narrow adds points where the curve may rise most, until the steepest rise lies between neighbours
// and its ends have all their runs. It leaves some steps of the bound for others.
func (v *curver) narrow(leave uint64) {
	// What is left of the bound may be less than one run takes.
	for before := -1; !v.over(leave) && v.runs > before && v.runs < enough*v.o.Runs; {
		before = v.runs
		r := v.highest()
		known := r != nil && r.runs() >= v.o.Runs
		switch {
		case r == nil:
			return
		case known && (r.neighbours() || !r.shows()):
			return
		case r.neighbours() || !r.shows():
			v.measure(explain.All, min(v.o.Runs, 2*max(1, r.runs())), leave, r.from.At, r.to.At)
		default:
			middle := (r.from.At + r.to.At) / 2
			runs := max(1, min(v.o.Runs/2, r.runs()))
			v.point(middle)
			v.measure(explain.All, runs, leave, middle)
		}
	}
	jump, rises := v.curve.Steepest(explain.All)
	v.curve.Spent = rises && !jump.Neighbours
}

// shows says that a rise is more than chance does with so few runs.
func (r *rise) shows() bool {
	a, b := r.from.This[explain.All], r.to.This[explain.All]
	return b.Of()-a.Of() > 2*math.Hypot(deviation(a), deviation(b))
}
