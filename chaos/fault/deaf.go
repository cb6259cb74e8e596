package fault

func init() {
	Register(Kind{
		Name: "deaf", Ends: WithFor, Excuses: []Cause{WorkerDeaf},
		About:   "a worker's consumer hangs and its heartbeats go on: it looks alive and takes nothing",
		Example: "deaf: shell-1, for: 5m",
		Draw:    func(d *Dice) string { return "deaf: " + d.Worker() },
	}, (*deafWorker).inject)
}

type deafWorker struct{ workerTarget }

func (*deafWorker) inject(x *Injection, w Deafness) (func(), error) { return w.Deafen(x) }
