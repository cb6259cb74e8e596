package soak

// Ramp finds the rate that a machine sustains: it begins low and increases the rate as long as the machine
// sustains it. It is not safe for concurrent use.
type Ramp struct {
	// Rate is the rate of the current step, in executions per second.
	Rate float64
	// Held is the highest sustained rate so far; 0 for none.
	Held float64
}

// The ramp's steps. SafeShare is the share of the sustained rate that a soak uses; the rest is for the
// backlog after a fault.
const (
	rampFirst  = 6.0
	rampFactor = 1.5
	rampMost   = 400.0
	SafeShare  = 0.6
	// rampBacklog is how many seconds of work may be open at the end of a step, because the evidence lags
	// some seconds behind.
	rampBacklog = 7.0
)

// NewRamp returns a ramp at the beginning of its first step.
func NewRamp() *Ramp { return &Ramp{Rate: rampFirst} }

// Step ends a step. open is the number of open executions at its end, and accepted the rate of accepted
// executions, per second. It reports whether another step follows.
func (r *Ramp) Step(open int, accepted float64) (more bool) {
	held := float64(open) <= r.Rate*rampBacklog && accepted >= 0.8*r.Rate
	if held {
		r.Held = r.Rate
		r.Rate *= rampFactor
	} else if r.Held == 0 {
		// Not even the first rate was sustained, so half of the accepted rate counts as sustained.
		r.Held = max(1, accepted/2)
	}
	return held && r.Rate <= rampMost
}

// Safe returns the rate for the soak, in executions per second.
func (r *Ramp) Safe() float64 { return max(1, r.Held*SafeShare) }

// Backlog returns how many executions may be open. While more are open, no requests are submitted. It is
// about fifteen seconds of work: two leases and the work that waits behind them.
func Backlog(rate float64) int { return int(rate*15) + 50 }
