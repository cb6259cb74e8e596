package fault

import "handoff/core/config/yamlfile"

func init() {
	const about = "a share of the writes is refused with an error that does not say that it will pass, as in a failed migration"
	Register(Kind{
		Name: "database_errors", Under: "database", As: "errors", Ends: WithFor, Hinders: true,
		Excuses: []Cause{DatabaseFails},
		About:   about, Example: "database: {errors: 10%}, for: 30s",
		Draw: func(d *Dice) string { return "database: {errors: " + d.Percent(5, 80) + "}" },
		Keys: []yamlfile.Key{yamlfile.Required("errors", about, yamlfile.ShareSchema())},
	}, (*databaseErrors).inject)
}

type databaseErrors struct {
	databaseFault
	// PerMillion is how many of a million write statements are refused.
	PerMillion uint64
}

// Read implements Fault.
func (d *databaseErrors) Read(r *Reader) { d.PerMillion = r.Rate("errors") }

// A revoked privilege, a damaged page or a column that the next version renamed: their SQLSTATEs
// (42501, XX001, 42703) all blame the statement, not the server.
func (d *databaseErrors) inject(x *Injection, w DatabaseFailures) (func(), error) {
	return w.FailWrites(x, d.PerMillion, WriteFailure{Code: "XX000", Message: "internal error"})
}
