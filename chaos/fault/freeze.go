package fault

import "handoff/chaos/history"

func init() {
	Register(Kind{
		Name: "freeze", Ends: WithFor,
		About:   "a whole machine stands still, its clocks and actions too",
		Example: "freeze: shell-1, for: 45s",
	}, (*freeze).inject)
}

type freeze struct{ struck }

func (*freeze) inject(x *Injection, w Machines) (func(), error) {
	var thaw []func()
	x.each(w, func(p Process) {
		if !p.Alive() {
			return
		}
		x.Touch(Touched{Process: p.Name()})
		thaw = append(thaw, w.Freeze(p.Name()))
		x.Emit(history.Event{Kind: history.ProcessFrozen, Process: p.Name()})
	})
	return func() {
		InOrder(thaw)()
		x.each(w, func(p Process) { x.Emit(history.Event{Kind: history.ProcessThawed, Process: p.Name()}) })
	}, nil
}
