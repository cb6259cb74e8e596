package soak

// Ramp finds the rate that a machine holds: it begins low and goes on to a higher rate as long as
// the last one was held. It is for one task.
type Ramp struct {
	// Rate is the rate of the present step, in executions a second.
	Rate float64
	// Held is the highest rate that was held; 0 if there is none yet.
	Held float64
}

// The ramp's steps. SafeShare is the share of the held rate that a soak uses: the rest is for the
// work that has waited during a fault.
const (
	rampFirst  = 6.0
	rampFactor = 1.5
	rampMost   = 400.0
	SafeShare  = 0.6
	// rampBacklog is how many seconds of work may be open at the end of a step: the evidence is
	// some seconds behind.
	rampBacklog = 7.0
)

// NewRamp returns a ramp before its first step.
func NewRamp() *Ramp { return &Ramp{Rate: rampFirst} }

// Step gets the number of open executions at the end of a step, and how many a second were accepted
// in it. It says whether another step follows.
func (r *Ramp) Step(open int, accepted float64) (more bool) {
	held := float64(open) <= r.Rate*rampBacklog && accepted >= 0.8*r.Rate
	if held {
		r.Held = r.Rate
		r.Rate *= rampFactor
	} else if r.Held == 0 {
		// Not even the first rate was held, so the rate that was reached counts as held.
		r.Held = max(1, accepted/2)
	}
	return held && r.Rate <= rampMost
}

// Safe is the rate of the soak.
func (r *Ramp) Safe() float64 { return max(1, r.Held*SafeShare) }

// Backlog is how many executions may be open; while there are more, nothing is submitted. It is
// fifteen seconds of work: two leases and the work that waits behind them.
func Backlog(rate float64) int { return int(rate*15) + 50 }
