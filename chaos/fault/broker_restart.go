package fault

func init() {
	Register(Kind{
		Name: "broker_restart", Under: "broker", As: "restart", Ends: WithFor, Hinders: true,
		About:   "the broker stops, and is back after a while",
		Example: "broker: restart, for: 10s",
		Draw:    func(*Dice) string { return "broker: restart" },
	}, (*brokerRestart).inject)
}

type brokerRestart struct{ brokerFault }

// Describe implements Describer.
func (*brokerRestart) Describe() string { return "restart broker" }

func (*brokerRestart) inject(x *Injection, w BrokerServer) (func(), error) {
	return w.StopBroker(x, false)
}
