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
	// PerMillion is how many of a million calls break their connection.
	PerMillion uint64
}

// Read implements Fault.
func (re *reset) Read(r *Reader) {
	re.readLink(r, "of", "to")
	re.PerMillion = r.Rate("rate")
}

// Describe implements Describer.
func (re *reset) Describe() string { return re.describeLink("reset", "to") }

func (re *reset) inject(x *Injection, w Links) (func(), error) {
	return re.affectLinks(x, w, Effect{ResetPerMillion: re.PerMillion})
}
