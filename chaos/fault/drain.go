package fault

func init() {
	Register(Kind{
		Name: "drain", Ends: WithRestart, Excuses: []Cause{WorkerWithdrawn},
		About:   "an operator drains a worker: it stops, and is started and its cordon lifted after a while",
		Example: "drain: shell-1, restart_after: 60s",
		Draw:    func(d *Dice) string { return "drain: " + d.Worker() },
	}, (*drain).inject)
}

type drain struct{ workerTarget }

// inject drains the worker. Later, its supervisor restarts it, and the operator lifts the cordon.
func (*drain) inject(x *Injection, w Fleet) (func(), error) {
	x.eachTarget(w, func(p Process) {
		if p.Alive() && w.Cordon(x, p.Name(), true, true) {
			x.Touch(Touched{Process: p.Name()})
		}
	})
	if x.RestartAfter > 0 {
		x.After(x.RestartAfter, func() { x.liftCordons(w) })
	}
	x.restartLater(w)
	return nil, nil
}
