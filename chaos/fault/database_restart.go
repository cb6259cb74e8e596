package fault

func init() {
	Register(Kind{
		Name: "database_restart", Under: "database", As: "restart", Ends: WithFor, Hinders: true,
		About:   "the database stops, and is back after a while",
		Example: "database: restart, for: 5s",
		Draw:    func(*Dice) string { return "database: restart" },
	}, (*databaseRestart).inject)
}

type databaseRestart struct{ databaseFault }

// Describe implements Describer.
func (*databaseRestart) Describe() string { return "restart database" }

func (*databaseRestart) inject(x *Injection, w DatabaseServer) (func(), error) {
	return w.StopDatabase(x, false)
}
