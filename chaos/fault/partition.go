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
func (f *partition) Read(r *Reader) { f.read(r, "cut", "from") }

// Describe implements Describer.
func (f *partition) Describe() string { return f.describe("partition", "from") }

func (f *partition) inject(x *Injection, w Links) (func(), error) {
	return f.affect(x, w, Effect{Cut: true})
}
