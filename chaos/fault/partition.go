package fault

func init() {
	Register(Kind{
		Name: "partition", Ends: WithFor, Excuses: []Cause{LinkToDatabase, LinkToBroker},
		About:   "the link between a process and other ends is cut, one way or both",
		Example: "partition: {cut: shell-1, from: [broker], direction: both}, for: 45s",
		Draw:    func(d *Dice) string { return "partition: {" + d.Link("cut", "from") + d.Way() + "}" },
		Keys: linkKeys("cut", "the process that is cut off", "from",
			directionKey("which way, seen from the process: outgoing loses what it sends, incoming what is sent to it; left out: both")),
	}, (*partition).inject)
}

type partition struct{ link }

// Read implements Fault.
func (p *partition) Read(r *Reader) { p.readLink(r, "cut", "from") }

// Describe implements Describer.
func (p *partition) Describe() string { return p.describeLink("partition", "from") }

func (p *partition) inject(x *Injection, w Links) (func(), error) {
	return p.affectLinks(x, w, Effect{Cut: true})
}
