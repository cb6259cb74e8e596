package fault

func init() {
	Register(Kind{
		Name: "block_consumers", Ends: WithFor, Excuses: []Cause{WorkerQueue},
		About:   "the consumers of a queue end, and nobody can consume it until the end; all else of their processes goes on",
		Example: "block_consumers: dead_letters, for: 3m",
		Draw:    func(d *Dice) string { return "block_consumers: " + d.Queue() },
	}, (*blockConsumers).inject)
}

type blockConsumers struct{ queueTarget }

func (b *blockConsumers) inject(x *Injection, w Queues) (func(), error) {
	return w.BlockConsumers(x, b.targetBindings(x, w))
}
