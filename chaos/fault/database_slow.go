package fault

import (
	"time"

	"handoff/core/config/yamlfile"
)

func init() {
	const about = "every statement takes longer"
	Register(Kind{
		Name: "database_slow", Under: "database", As: "slow", Ends: WithFor, Hinders: true, Excuses: []Cause{DatabaseFails},
		About: about, Example: "database: {slow: [100ms, 3s]}, for: 30s",
		Draw: func(d *Dice) string { return "database: {slow: " + d.Span(5*time.Millisecond, 5*time.Second) + "}" },
		Keys: []yamlfile.Key{yamlfile.Required("slow", about+": by how much, or the least and the most", spanOrOne())},
	}, (*databaseSlow).inject)
}

type databaseSlow struct {
	databaseFault
	// Adds is the extra time for each statement.
	Adds Span
}

// Read implements Fault.
func (d *databaseSlow) Read(r *Reader) { d.Adds = r.Adds("slow") }

func (d *databaseSlow) inject(x *Injection, w DatabaseSlow) (func(), error) {
	return w.SlowDatabase(x, d.Adds)
}
