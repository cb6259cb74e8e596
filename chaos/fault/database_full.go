package fault

func init() {
	Register(Kind{
		Name: "database_full", Under: "database", As: "full", Ends: WithFor, Hinders: true, Excuses: []Cause{DatabaseFails},
		About:   "the database's disk is full: it refuses every write, and reads go on",
		Example: "database: full, for: 20s",
		Draw:    func(*Dice) string { return "database: full" },
	}, (*databaseFull).inject)
}

type databaseFull struct{ databaseFault }

func (*databaseFull) inject(x *Injection, w DatabaseFull) (func(), error) { return w.FillDatabase(x) }
