package fault

func init() {
	Register(Kind{
		Name: "open_transaction", Under: "database", As: "open_transaction", Ends: WithFor, Edits: true,
		About:   "a session of somebody else, such as a long import, has written and leaves its transaction open: no row that leaves meanwhile can be removed, and the stream of changes stands still",
		Example: "database: open_transaction, for: 5m",
	}, (*openTransaction).inject)
}

type openTransaction struct{ databaseFault }

func (*openTransaction) inject(x *Injection, w Strangers) (func(), error) {
	end, err := w.OpenTransaction(x)
	if err == nil {
		x.Touch(Touched{Process: Database})
	}
	return end, err
}
