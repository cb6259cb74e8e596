package fault

func init() {
	Register(Kind{
		Name: "delete_queue", Ends: ByItself, Excuses: []Cause{WorkerQueue},
		About:   "a queue is deleted with everything in it",
		Example: "delete_queue: shell-1",
		Draw:    func(d *Dice) string { return "delete_queue: " + d.Queue() },
	}, (*deleteQueue).inject)
}

type deleteQueue struct{ queueTarget }

func (d *deleteQueue) inject(x *Injection, w Queues) (func(), error) {
	defer x.End()
	for _, b := range d.targetBindings(x, w) {
		if err := w.DeleteQueue(x, b); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
