package fault

import (
	"fmt"
)

func init() {
	Register(Kind{
		Name: "reset", Ends: WithFor, Excuses: []Cause{LinkToDatabase, LinkToBroker},
		About:   "calls between a process and other ends lose their connection, before or after they took effect",
		Example: "reset: {of: executor-1, to: [database], rate: 5%}, for: 30s",
		Draw: func(d *Dice) string {
			return fmt.Sprintf("reset: {%s, rate: %s}", d.Link("of", "to"), d.Percent(5, 100))
		},
		Keys: linkKeys("of", "the process whose calls lose their connection", "to", rateKey("calls")),
	}, (*reset).inject)
}

type reset struct {
	link
	// PerMillion is the share of the calls whose connection breaks.
	PerMillion uint64
}

// Read implements Fault.
func (f *reset) Read(r *Reader) {
	f.read(r, "of", "to")
	f.PerMillion = r.Rate("rate")
}

// Describe implements Describer.
func (f *reset) Describe() string { return f.describe("reset", "to") }

func (f *reset) inject(x *Injection, w Links) (func(), error) {
	return f.affect(x, w, Effect{ResetPerMillion: f.PerMillion})
}
