package fault

func init() {
	Register(Kind{
		Name: "mute", Ends: WithFor, Excuses: []Cause{WorkerMute},
		About:   "a worker's heartbeats don't get through and all else does",
		Example: "mute: shell-1, for: 60s",
		Draw:    func(d *Dice) string { return "mute: " + d.Worker() },
	}, (*muteWorker).inject)
}

type muteWorker struct{ workerTarget }

func (*muteWorker) inject(x *Injection, w Muteness) (func(), error) { return w.Mute(x) }
