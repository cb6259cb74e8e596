package fault

func init() {
	const about = "messages of one type arrive twice"
	Register(Kind{
		Name: "duplicate_messages", Under: "messages", As: "duplicate", Ends: WithFor,
		About:   about,
		Example: "messages: {duplicate: execution.scheduled, rate: 20%}, for: 60s",
		Draw:    func(d *Dice) string { return d.Messages("duplicate", "") },
		Keys:    messageKeys("duplicate", about),
	}, (*duplicateMessages).inject)
}

type duplicateMessages struct{ messageSelector }

// Read implements Fault.
func (d *duplicateMessages) Read(r *Reader) { d.readSelector(r) }

// Describe implements Describer.
func (d *duplicateMessages) Describe() string { return d.describeMessages("duplicate") }

func (d *duplicateMessages) inject(x *Injection, w Messages) (func(), error) {
	return d.interceptMessages(x, w, func() Fate { return Fate{Duplicate: true} })
}
