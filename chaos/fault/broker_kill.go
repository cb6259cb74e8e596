package fault

func init() {
	Register(Kind{
		Name: "broker_kill", Under: "broker", As: "kill", Ends: WithFor, Hinders: true,
		About:   "the broker is killed, and is back after a while",
		Example: "broker: kill, for: 10s",
		Draw:    func(*Dice) string { return "broker: kill" },
	}, (*brokerKill).inject)
}

type brokerKill struct{ brokerFault }

// Describe implements Describer.
func (*brokerKill) Describe() string { return "kill broker" }

func (*brokerKill) inject(x *Injection, w BrokerServer) (func(), error) { return w.StopBroker(x, true) }
