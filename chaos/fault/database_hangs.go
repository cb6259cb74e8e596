package fault

func init() {
	Register(Kind{
		Name: "database_hangs", Under: "database", As: "hangs", Ends: WithFor, Hinders: true, Excuses: []Cause{DatabaseFails},
		About:   "the database accepts connections and statements and answers nothing; what has come meanwhile it executes at the end",
		Example: "database: hangs, for: 20s",
		Draw:    func(*Dice) string { return "database: hangs" },
	}, (*databaseHangs).inject)
}

type databaseHangs struct{ databaseFault }

func (*databaseHangs) inject(x *Injection, w DatabaseHanging) (func(), error) {
	return w.HangDatabase(x)
}
