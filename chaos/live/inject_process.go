package live

import (
	"fmt"

	"handoff/chaos/history"
	"handoff/chaos/live/cluster"
)

func injectCrash(x *injection) (func(), error) {
	for _, p := range x.targets {
		if p.alive() {
			x.touch()
		}
		p.crash()
	}
	x.restartLater()
	return nil, nil
}

// restartLater brings ended processes back when it is time, and then the fault is over.
func (x *injection) restartLater() {
	if x.fault.RestartAfter == 0 {
		x.endless()
		return
	}
	x.w.after(x.fault.RestartAfter, func() {
		for _, p := range x.targets {
			x.w.restart(p)
		}
		x.end()
	})
}

// restart starts a process; one that is about to end starts when it has.
func (w *world) restart(p *process) {
	p.mu.Lock()
	leaving := p.stopping && p.alive()
	if leaving {
		p.ended = func() { w.launch(p) }
	}
	p.mu.Unlock()
	if !leaving || !p.alive() {
		w.launch(p)
	}
}

func (w *world) launch(p *process) {
	if w.ctx.Err() != nil {
		return
	}
	if err := p.start(); err != nil {
		w.fail(err.Error())
	}
}

func injectStop(x *injection) (func(), error) {
	for _, p := range x.targets {
		if p.alive() {
			x.touch()
		}
		p.terminate()
	}
	x.restartLater()
	return nil, nil
}

// injectCutShort is a supervisor whose patience ends before the process is ready to stop.
func injectCutShort(x *injection) (func(), error) {
	for _, p := range x.targets {
		p.terminate()
		asked := p.daemon.Process()
		x.w.after(x.fault.CutAfter, func() {
			// A process that has stopped by itself, or is another one by now, was not cut short.
			if p.alive() && p.daemon.Process() == asked {
				x.touch()
				p.crash()
			}
		})
	}
	x.w.after(x.fault.CutAfter, x.restartLater)
	return nil, nil
}

// injectRollingRestart stops one process after the other, each when the one before is up again.
func injectRollingRestart(x *injection) (func(), error) {
	x.roll(0)
	return nil, nil
}

// roll restarts the n-th process and then those after it.
func (x *injection) roll(n int) {
	if n == len(x.targets) {
		x.end()
		return
	}
	p := x.targets[n]
	up := func() {
		x.w.after(x.fault.Down, func() {
			x.w.launch(p)
			x.w.after(x.fault.Every, func() { x.roll(n + 1) })
		})
	}
	if !p.alive() {
		up()
		return
	}
	x.touch()
	p.mu.Lock()
	p.ended = up
	p.mu.Unlock()
	p.terminate()
}

// injectTwin starts a second process under a worker's name. The first one is superseded and exits; at
// the end the twin is stopped, and the first is started again.
func injectTwin(x *injection) (func(), error) {
	originals := x.targets
	var twins []*process
	for _, p := range originals {
		if p.alive() {
			x.touch()
		}
		p.mu.Lock()
		p.superseded = true
		p.mu.Unlock()
		twin := &process{w: x.w, name: fmt.Sprintf("%s twin %d", p.name, x.fault.Index), spec: p.spec}
		if err := x.w.endpoint(twin); err != nil {
			return nil, err
		}
		twin.followWitness()
		if err := twin.start(); err != nil {
			return nil, err
		}
		twins = append(twins, twin)
	}
	return func() {
		for i, twin := range twins {
			original := originals[i]
			if !twin.alive() {
				x.w.launch(original)
				continue
			}
			twin.mu.Lock()
			twin.ended = func() { x.w.launch(original) }
			twin.mu.Unlock()
			twin.terminate()
		}
	}, nil
}

func injectPause(x *injection) (func(), error) {
	// The handles are kept: a process that was restarted meanwhile is another one.
	type held struct {
		p       *process
		process cluster.Process
	}
	var paused []held
	for _, p := range x.targets {
		if !p.alive() {
			continue
		}
		x.touch()
		h := held{p, p.daemon.Process()}
		h.process.Pause()
		p.still.Add(1)
		paused = append(paused, h)
		x.w.emit(history.Event{Kind: history.ProcessPaused, Process: p.name})
	}
	return func() {
		for _, h := range paused {
			h.p.still.Add(-1)
			if h.process.Running() {
				x.w.emit(history.Event{Kind: history.ProcessResumed, Process: h.p.name})
				h.process.Resume()
			}
		}
	}, nil
}
