package fault

func init() {
	Register(Kind{
		Name: "database_no_connections", Under: "database", As: "no_connections", Ends: WithFor, Hinders: true,
		Excuses: []Cause{DatabaseFails},
		About:   "the database has as many clients as it takes: it refuses new connections, and existing ones go on",
		Example: "database: no_connections, for: 20s",
		Draw:    func(*Dice) string { return "database: no_connections" },
	}, (*databaseNoConnections).inject)
}

type databaseNoConnections struct{ databaseFault }

func (*databaseNoConnections) inject(x *Injection, w DatabaseConnections) (func(), error) {
	return w.RefuseConnections(x)
}
