package fault

import (
	"fmt"
	"time"

	"handoff/core/config/yamlfile"
)

func init() {
	Register(Kind{
		Name: "stop_cut_short", Ends: WithRestart,
		About:   "a process is asked to stop, and killed before it is ready",
		Example: "stop_cut_short: {of: shell-1, after: 3s}, restart_after: 10s",
		Draw: func(d *Dice) string {
			return fmt.Sprintf("stop_cut_short: {of: %s, after: %s}", d.Process(), d.Lasting(10*time.Millisecond, 30*time.Second))
		},
		Keys: []yamlfile.Key{
			processKey("of", "the process"),
			yamlfile.Required("after", "how long it gets before it is killed", yamlfile.DurationSchema()),
		},
	}, (*stopCutShort).inject)
}

// stopCutShort models a supervisor that kills a process which is slow to stop.
type stopCutShort struct {
	Target string
	// After is how long the process may take to stop.
	After time.Duration
}

// Read implements Fault.
func (s *stopCutShort) Read(r *Reader) {
	s.Target, s.After = r.Process(r.At("of")), r.DurationOf("after")
}

// Strikes implements Fault.
func (s *stopCutShort) Strikes() Strikes { return Strikes{Target: s.Target} }

// Lasts implements Lasting.
func (s *stopCutShort) Lasts(b Bounds) time.Duration { return s.After + b.RestartAfter }

func (s *stopCutShort) inject(x *Injection, w Processes) (func(), error) {
	x.eachTarget(w, func(p Process) {
		p.Terminate()
		asked := p.Instance()
		x.After(s.After, func() {
			// Don't kill a process that has stopped by itself, or an instance that was started meanwhile.
			if p.Alive() && p.Instance() == asked {
				x.Touch(Touched{Process: p.Name()})
				p.Kill()
			}
		})
	})
	x.After(s.After, func() { x.restartLater(w) })
	return nil, nil
}
