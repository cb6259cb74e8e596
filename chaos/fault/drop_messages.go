package fault

func init() {
	const about = "messages of one type are routed, confirmed and lost"
	Register(Kind{
		Name: "drop_messages", Under: "messages", As: "drop", Ends: WithFor, Excuses: []Cause{DispatchesFail},
		About:   about,
		Example: "messages: {drop: execution.completed, rate: 100%}, for: 60s",
		Draw:    func(d *Dice) string { return d.Messages("drop", "") },
		Keys:    messageKeys("drop", about),
	}, (*dropMessages).inject)
}

type dropMessages struct{ messageSelector }

// Read implements Fault.
func (d *dropMessages) Read(r *Reader) { d.readSelector(r) }

// Describe implements Describer.
func (d *dropMessages) Describe() string { return d.describeMessages("drop") }

func (d *dropMessages) inject(x *Injection, w Messages) (func(), error) {
	return d.interceptMessages(x, w, func() Fate { return Fate{Drop: true} })
}
