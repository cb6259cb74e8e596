package fault

func init() {
	Register(Kind{
		Name: "database_kill", Under: "database", As: "kill", Ends: WithFor, Hinders: true,
		About:   "the database is killed, and is back after a while",
		Example: "database: kill, for: 5s",
		Draw:    func(*Dice) string { return "database: kill" },
	}, (*databaseKill).inject)
}

type databaseKill struct{ databaseFault }

// Describe implements Describer.
func (*databaseKill) Describe() string { return "kill database" }

func (*databaseKill) inject(x *Injection, w DatabaseServer) (func(), error) {
	return w.StopDatabase(x, true)
}
