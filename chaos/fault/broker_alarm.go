package fault

func init() {
	Register(Kind{
		Name: "broker_alarm", Under: "broker", As: "alarm", Ends: WithFor, Hinders: true, Excuses: []Cause{BrokerFails},
		About:   "the broker is short of memory and blocks publishers; consumers go on",
		Example: "broker: alarm, for: 20s",
		Draw:    func(*Dice) string { return "broker: alarm" },
	}, (*brokerAlarm).inject)
}

type brokerAlarm struct{ brokerFault }

func (*brokerAlarm) inject(x *Injection, w BrokerAlarm) (func(), error) { return w.RaiseAlarm(x) }
