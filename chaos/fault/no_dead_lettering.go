package fault

func init() {
	Register(Kind{
		Name: "broker_no_dead_lettering", Under: "broker", As: "no_dead_lettering", Ends: WithFor, Hinders: true,
		About:   "the broker's processes that move dead letters hang: what expires or is rejected stays in its quorum queue until the end",
		Example: "broker: no_dead_lettering, for: 5m",
		Draw:    func(*Dice) string { return "broker: no_dead_lettering" },
	}, (*noDeadLettering).inject)
}

type noDeadLettering struct{ brokerFault }

// Describe implements Describer.
func (*noDeadLettering) Describe() string { return "broker without dead lettering" }

func (*noDeadLettering) inject(x *Injection, w DeadLettering) (func(), error) {
	return w.StopDeadLettering(x)
}
