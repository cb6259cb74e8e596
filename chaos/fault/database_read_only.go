package fault

func init() {
	Register(Kind{
		Name: "database_read_only", Under: "database", As: "read_only", Ends: WithFor, Hinders: true, Excuses: []Cause{DatabaseFails},
		About:   "the database answers and refuses every write",
		Example: "database: read_only, for: 20s",
		Draw:    func(*Dice) string { return "database: read_only" },
	}, (*databaseReadOnly).inject)
}

type databaseReadOnly struct{ databaseFault }

func (*databaseReadOnly) inject(x *Injection, w DatabaseReadOnly) (func(), error) {
	return w.RefuseWrites(x)
}
