package sim

import (
	"fmt"

	"handoff/chaos/scenario"
	"handoff/sim/simnet"
)

// injectCutShort is a supervisor whose patience ends before the process is ready to stop.
func injectCutShort(x *injection) func() {
	for _, p := range x.targets {
		p.terminate()
		asked := p.current
		x.w.k.After(x.fault.CutAfter, func() {
			// A process that has stopped by itself, or is another one by now, was not cut short.
			if p.alive() && p.current == asked {
				x.touch(simnet.Touched{Process: p.name})
				p.crash()
			}
		})
	}
	x.w.k.After(x.fault.CutAfter, x.restartLater)
	return nil
}

// injectRollingRestart stops one process after the other, each when the one before is up again.
func injectRollingRestart(x *injection) func() {
	x.roll(0)
	return nil
}

// roll restarts the n-th process and then those after it.
func (x *injection) roll(n int) {
	if n == len(x.targets) {
		x.end()
		return
	}
	p := x.targets[n]
	up := func() {
		x.w.k.After(x.fault.Down, func() {
			p.start()
			x.w.k.After(x.fault.Every, func() { x.roll(n + 1) })
		})
	}
	if !p.alive() {
		up()
		return
	}
	x.touch(simnet.Touched{Process: p.name})
	p.ended = up
	p.terminate()
}

// injectTwin starts a second process under a worker's name. The first one is superseded and exits; at
// the end the twin is stopped, and the first is started again.
func injectTwin(x *injection) func() {
	var twins []*process
	for _, p := range x.targets {
		twin := x.w.addWorker(fmt.Sprintf("%s twin %d", p.name, x.fault.Index), p.worker)
		if p.alive() {
			x.touch(simnet.Touched{Process: p.name})
		}
		twin.start()
		twins = append(twins, twin)
	}
	originals := x.targets
	return func() {
		for i, twin := range twins {
			original := originals[i]
			if !twin.alive() {
				original.start()
				continue
			}
			twin.ended = func() { x.w.k.After(0, original.start) }
			twin.terminate()
		}
	}
}

// injectClock moves the clock of processes, or of the database.
func injectClock(x *injection) func() {
	if x.fault.Target == scenario.Database {
		return x.databaseClock()
	}
	var undo []func()
	for _, p := range x.targets {
		if p.current == nil {
			continue
		}
		clock := p.current.Clock()
		touched := func() { x.touch(simnet.Touched{Process: p.name}) }
		switch x.fault.Kind {
		case scenario.ClockDrift:
			if p.alive() {
				touched()
			}
			clock.SetDrift(clock.Drift() + x.fault.DriftPerMillion)
			undo = append(undo, func() { clock.SetDrift(clock.Drift() - x.fault.DriftPerMillion) })
			if p.machine != nil {
				ground := p.machine.Ground().Clock()
				ground.SetDrift(ground.Drift() + x.fault.DriftPerMillion)
				undo = append(undo, func() { ground.SetDrift(ground.Drift() - x.fault.DriftPerMillion) })
			}
		default:
			clock.OnWall(touched)
			clock.Step(x.fault.Shift)
			undo = append(undo, func() { clock.Step(-x.fault.Shift) })
		}
	}
	if x.fault.Kind == scenario.ClockStep {
		x.end()
		return nil
	}
	return func() {
		for _, f := range undo {
			f()
		}
	}
}
