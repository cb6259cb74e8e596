package fault

import "handoff/chaos/history"

func init() {
	Register(Kind{
		Name: "freeze", Ends: WithFor,
		About:   "a whole machine stands still, its clocks and actions too",
		Example: "freeze: shell-1, for: 45s",
		Draw:    func(d *Dice) string { return "freeze: " + d.Process() },
	}, (*freeze).inject)
}

type freeze struct{ processTarget }

func (*freeze) inject(x *Injection, w Machines) (func(), error) {
	var frozen []string
	var thaw []func()
	x.eachTarget(w, func(p Process) {
		if !p.Alive() {
			return
		}
		x.Touch(Touched{Process: p.Name()})
		frozen, thaw = append(frozen, p.Name()), append(thaw, w.Freeze(p.Name()))
		x.Emit(history.Event{Kind: history.ProcessFrozen, Process: p.Name()})
	})
	return func() {
		InOrder(thaw)()
		for _, name := range frozen {
			x.Emit(history.Event{Kind: history.ProcessThawed, Process: name})
		}
	}, nil
}
