package fault

func init() {
	Register(Kind{
		// It has no Excuses: a process can detect that its connections lead to the old server and open new
		// ones.
		Name: "database_demoted", Under: "database", As: "demoted", Ends: WithFor,
		About: "another server becomes the primary and takes the address over; the connections that there are stay with the " +
			"old one, which answers reads and refuses writes, until it ends them",
		Example: "database: demoted, for: 60s",
		Draw:    func(*Dice) string { return "database: demoted" },
	}, (*databaseDemoted).inject)
}

type databaseDemoted struct{ databaseFault }

func (*databaseDemoted) inject(x *Injection, w DatabaseDemotion) (func(), error) {
	return w.DemoteDatabase(x)
}
