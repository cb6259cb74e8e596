package fault

func init() {
	Register(Kind{
		Name: "cordon", Ends: WithFor,
		About:   "an operator cordons a worker, and lifts the cordon at the end",
		Example: "cordon: shell-1, for: 60s",
		Draw:    func(d *Dice) string { return "cordon: " + d.Worker() },
	}, (*cordon).inject)
}

type cordon struct{ workerTarget }

func (*cordon) inject(x *Injection, w Fleet) (func(), error) {
	for _, worker := range x.Targets {
		if w.Cordon(x, worker, true, false) {
			x.Touch(Touched{Process: worker})
		}
	}
	return func() { x.liftCordons(w) }, nil
}

// liftCordons lifts the cordons of the struck workers.
func (i *Injection) liftCordons(w Fleet) {
	for _, worker := range i.Targets {
		w.Cordon(i, worker, false, false)
	}
}
