package fault

func init() {
	Register(Kind{
		Name: "stop", Ends: WithRestart,
		About:   "a process is asked to stop gracefully, as by SIGTERM",
		Example: "stop: shell-1, restart_after: 60s",
		Draw:    func(d *Dice) string { return "stop: " + d.Process() },
	}, (*stop).inject)
}

type stop struct{ processTarget }

func (*stop) inject(x *Injection, w Processes) (func(), error) {
	x.eachTarget(w, func(p Process) {
		if p.Alive() {
			x.Touch(Touched{Process: p.Name()})
		}
		p.Terminate()
	})
	x.restartLater(w)
	return nil, nil
}
