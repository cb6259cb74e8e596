package fault

import (
	"fmt"
	"time"

	"handoff/core/config/yamlfile"
)

func init() {
	Register(Kind{
		Name: "rolling_restart", Ends: ByItself,
		About:   "processes are stopped gracefully and started again, one after the other",
		Example: "rolling_restart: {of: every worker, down: 2s, every: 40s}",
		Draw: func(d *Dice) string {
			return fmt.Sprintf("rolling_restart: {of: %s, down: %s, every: %s}", d.Process(), d.Lasting(100*time.Millisecond, time.Minute), d.Lasting(time.Second, time.Minute))
		},
		Keys: []yamlfile.Key{
			processKey("of", "the processes, restarted in the order of the file, executors first"),
			yamlfile.Required("down", "how long each stays down once it has stopped", yamlfile.DurationSchema()),
			yamlfile.Required("every", "the time from the start of one to the stop of the next", yamlfile.DurationSchema()),
		},
	}, (*rollingRestart).inject)
}

type rollingRestart struct {
	Target string
	// Down is how long each process stays down; Every is the time from the start of one process to
	// the stop of the next.
	Down, Every time.Duration
}

// Read implements Fault.
func (rr *rollingRestart) Read(r *Reader) {
	rr.Target, rr.Down, rr.Every = r.Process(r.At("of")), r.DurationOf("down"), r.DurationOf("every")
}

// Strikes implements Fault.
func (rr *rollingRestart) Strikes() Strikes { return Strikes{Target: rr.Target} }

// Lasts implements Lasting.
func (rr *rollingRestart) Lasts(b Bounds) time.Duration {
	return time.Duration(b.Targets) * (rr.Down + rr.Every + b.Stop)
}

func (rr *rollingRestart) inject(x *Injection, w Processes) (func(), error) {
	rr.restartFrom(x, w, 0)
	return nil, nil
}

// restartFrom restarts the n-th process and then each following process, once its predecessor runs.
func (rr *rollingRestart) restartFrom(x *Injection, w Processes, n int) {
	if n == len(x.Targets) {
		x.End()
		return
	}
	p := w.Process(x.Targets[n])
	up := func() {
		x.After(rr.Down, func() {
			p.Start()
			x.After(rr.Every, func() { rr.restartFrom(x, w, n+1) })
		})
	}
	if !p.Alive() {
		up()
		return
	}
	x.Touch(Touched{Process: p.Name()})
	p.OnEnd(up)
	p.Terminate()
}
