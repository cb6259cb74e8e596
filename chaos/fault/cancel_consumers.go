package fault

func init() {
	Register(Kind{
		Name: "cancel_consumers", Ends: ByItself, Excuses: []Cause{WorkerQueue},
		About:   "the broker cancels the consumers of a queue; their connections stay open",
		Example: "cancel_consumers: shell-1",
		Draw:    func(d *Dice) string { return "cancel_consumers: " + d.Queue() },
	}, (*cancelConsumers).inject)
}

type cancelConsumers struct{ queueTarget }

func (c *cancelConsumers) inject(x *Injection, w ConsumerCancelling) (func(), error) {
	defer x.End()
	for _, b := range c.targetBindings(x, w) {
		if err := w.CancelConsumers(x, b.Queue); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
