package fault

import "handoff/chaos/history"

func init() {
	Register(Kind{
		Name: "pause", Ends: WithFor,
		About:   "a process stands still, as by SIGSTOP; clocks and actions go on",
		Example: "pause: shell-1, for: 45s",
		Draw:    func(d *Dice) string { return "pause: " + d.Process() },
	}, (*pause).inject)
}

type pause struct{ processTarget }

func (*pause) inject(x *Injection, w Processes) (func(), error) {
	var resume []func()
	x.eachTarget(w, func(p Process) {
		if !p.Alive() {
			return
		}
		x.Touch(Touched{Process: p.Name()})
		// Resume this instance only: a restart replaces it with an instance that was never paused.
		held := p.Instance()
		held.Pause()
		x.Emit(history.Event{Kind: history.ProcessPaused, Process: p.Name()})
		resume = append(resume, func() {
			if held.Alive() {
				// Emit the event before Resume: the process may act immediately, and its events must come
				// later.
				x.Emit(history.Event{Kind: history.ProcessResumed, Process: p.Name()})
			}
			held.Resume()
		})
	})
	return InOrder(resume), nil
}
