package fault

func init() {
	Register(Kind{
		Name: "unbind_queue", Ends: WithFor, Excuses: []Cause{WorkerQueue},
		About:   "a queue loses its bindings, so that what is sent to it has no route",
		Example: "unbind_queue: shell-1, for: 20s",
		Draw:    func(d *Dice) string { return "unbind_queue: " + d.Queue() },
	}, (*unbindQueue).inject)
}

type unbindQueue struct{ queueTarget }

func (u *unbindQueue) inject(x *Injection, w Queues) (func(), error) {
	var bind []func()
	for _, b := range u.targetBindings(x, w) {
		again, err := w.UnbindQueue(x, b)
		if err != nil {
			InOrder(bind)()
			return nil, err
		}
		bind = append(bind, again)
	}
	return InOrder(bind), nil
}
