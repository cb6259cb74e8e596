package fault

func init() {
	Register(Kind{
		Name: "stuck_queue", Ends: WithFor, Excuses: []Cause{WorkerQueueStuck},
		About:   "the process of a queue hangs: the queue neither confirms what is published to it nor delivers; all other queues go on",
		Example: "stuck_queue: shell-1, for: 40s",
		Draw:    func(d *Dice) string { return "stuck_queue: " + d.Queue() },
	}, (*stuckQueue).inject)
}

type stuckQueue struct{ queueTarget }

func (s *stuckQueue) inject(x *Injection, w StuckQueues) (func(), error) {
	var resume []func()
	for _, b := range s.targetBindings(x, w) {
		end, err := w.SuspendQueue(x, b.Queue)
		if err != nil {
			InOrder(resume)()
			return nil, err
		}
		resume = append(resume, end)
	}
	return InOrder(resume), nil
}
