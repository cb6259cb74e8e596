package fault

import "handoff/core/config/yamlfile"

func init() {
	const about = "a share of the writes is rolled back, as by a serialization failure or a deadlock"
	Register(Kind{
		Name: "serialization_failures", Under: "database", As: "serialization_failures", Ends: WithFor, Hinders: true,
		Excuses: []Cause{DatabaseFails},
		About:   about, Example: "database: {serialization_failures: 30%}, for: 30s",
		Draw: func(d *Dice) string { return "database: {serialization_failures: " + d.Percent(5, 80) + "}" },
		Keys: []yamlfile.Key{yamlfile.Required("serialization_failures", about, yamlfile.ShareSchema())},
	}, (*serializationFailures).inject)
}

type serializationFailures struct {
	databaseFault
	// PerMillion is how many of a million write statements are rolled back.
	PerMillion uint64
}

// Read implements Fault.
func (s *serializationFailures) Read(r *Reader) { s.PerMillion = r.Rate("serialization_failures") }

func (s *serializationFailures) inject(x *Injection, w DatabaseFailures) (func(), error) {
	return w.FailWrites(x, s.PerMillion, WriteFailure{Code: "40001", Message: "could not serialize access due to concurrent update"})
}
