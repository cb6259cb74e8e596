package fault

import (
	"fmt"
	"time"

	"handoff/core/config/yamlfile"
)

func init() {
	Register(Kind{
		Name: "latency", Ends: WithFor, Excuses: []Cause{LinkToDatabase, LinkToBroker},
		About:   "messages between a process and other ends take longer",
		Example: "latency: {of: shell-1, to: [database], adds: [100ms, 2s]}, for: 30s",
		Draw: func(d *Dice) string {
			return fmt.Sprintf("latency: {%s, adds: %s%s}", d.Link("of", "to"), d.Span(5*time.Millisecond, 5*time.Second), d.Way())
		},
		Keys: linkKeys("of", "the process whose link is slow", "to",
			yamlfile.Required("adds", "what each message takes longer, or the least and the most", spanOrOne()),
			directionKey("which way, seen from the process; left out: both")),
	}, (*latency).inject)
}

type latency struct {
	link
	// Adds is the extra time, drawn for each message.
	Adds Span
}

// Read implements Fault.
func (l *latency) Read(r *Reader) {
	l.readLink(r, "of", "to")
	l.Adds = r.Adds("adds")
}

// Describe implements Describer.
func (l *latency) Describe() string { return l.describeLink("latency", "to") }

func (l *latency) inject(x *Injection, w Links) (func(), error) {
	return l.affectLinks(x, w, Effect{Delay: l.Adds})
}
