package fault

import (
	"fmt"
	"time"

	"handoff/core/config/yamlfile"
)

func init() {
	Register(Kind{
		Name: "slow_link", Ends: WithFor, Excuses: []Cause{LinkToDatabase, LinkToBroker},
		About:   "a link carries one message at a time, and takes its time for each",
		Example: "slow_link: {of: shell-1, to: [broker], takes: [50ms, 500ms]}, for: 30s",
		Draw: func(d *Dice) string {
			return fmt.Sprintf("slow_link: {%s, takes: %s%s}", d.Link("of", "to"), d.Span(time.Millisecond, 500*time.Millisecond), d.Way())
		},
		Keys: linkKeys("of", "the process whose link is slow", "to",
			yamlfile.Required("takes", "how long the link is busy with one message, or the least and the most", spanOrOne()),
			directionKey("which way, seen from the process; left out: both")),
	}, (*slowLink).inject)
}

type slowLink struct {
	link
	// Takes is drawn for each message.
	Takes Span
}

// Read implements Fault.
func (s *slowLink) Read(r *Reader) {
	s.readLink(r, "of", "to")
	s.Takes = r.Adds("takes")
}

// Describe implements Describer.
func (s *slowLink) Describe() string { return s.describeLink("slow link", "to") }

func (s *slowLink) inject(x *Injection, w Links) (func(), error) {
	return s.affectLinks(x, w, Effect{Busy: s.Takes})
}
