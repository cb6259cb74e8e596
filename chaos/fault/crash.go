package fault

func init() {
	Register(Kind{
		Name: "crash", Ends: WithRestart,
		About:   "a process dies at once, as by SIGKILL; its actions are ended by their shim",
		Example: "crash: shell-1, restart_after: 90s",
		Draw:    func(d *Dice) string { return "crash: " + d.Process() },
	}, (*crash).inject)
}

type crash struct{ processTarget }

func (*crash) inject(x *Injection, w Processes) (func(), error) {
	x.eachTarget(w, func(p Process) {
		if p.Alive() {
			x.Touch(Touched{Process: p.Name()})
		}
		p.Kill()
	})
	x.restartLater(w)
	return nil, nil
}
