package fault

func init() {
	const about = "messages of one type arrive unreadable"
	Register(Kind{
		Name: "corrupt_messages", Under: "messages", As: "corrupt", Ends: WithFor, Excuses: []Cause{DispatchesFail},
		About:   about,
		Example: "messages: {corrupt: execution.scheduled, rate: 5%}, for: 60s",
		Draw:    func(d *Dice) string { return d.Messages("corrupt", "") },
		Keys:    messageKeys("corrupt", about),
	}, (*corruptMessages).inject)
}

type corruptMessages struct{ messageSelector }

// Read implements Fault.
func (c *corruptMessages) Read(r *Reader) { c.readSelector(r) }

// Describe implements Describer.
func (c *corruptMessages) Describe() string { return c.describeMessages("corrupt") }

func (c *corruptMessages) inject(x *Injection, w Messages) (func(), error) {
	return c.interceptMessages(x, w, func() Fate { return Fate{Corrupt: true} })
}
