package fault

import "handoff/core/config/yamlfile"

func init() {
	const about = "a share of the statements that only read is refused, as by a server that is short of memory; writes go on"
	Register(Kind{
		Name: "database_read_errors", Under: "database", As: "read_errors", Ends: WithFor, Hinders: true,
		Excuses: []Cause{DatabaseFails},
		About:   about, Example: "database: {read_errors: 10%}, for: 30s",
		Draw: func(d *Dice) string { return "database: {read_errors: " + d.Percent(5, 60) + "}" },
		Keys: []yamlfile.Key{yamlfile.Required("read_errors", about, yamlfile.ShareSchema())},
	}, (*databaseReadErrors).inject)
}

type databaseReadErrors struct {
	databaseFault
	// PerMillion is how many of a million read statements are refused.
	PerMillion uint64
}

// Read implements Fault.
func (d *databaseReadErrors) Read(r *Reader) { d.PerMillion = r.Rate("read_errors") }

// Every part of the core begins by reading the database. In an outage all reads fail together. Only single
// failing reads show which part continues as if it had read an empty result.
func (d *databaseReadErrors) inject(x *Injection, w DatabaseReadFailures) (func(), error) {
	return w.FailReads(x, d.PerMillion)
}
