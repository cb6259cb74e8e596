package fault

import "reflect"

func init() {
	Register(Kind{
		// It is not drawn: from the loss on a run is judged only by what is accepted when all from before has ended.
		Name: "database_rewound", Under: "database", As: "rewound", Ends: WithFor, Hinders: true, Excuses: []Cause{DatabaseFails},
		About: "the standby stops following; at the end the primary dies and the standby takes over, without anything that was " +
			"written meanwhile",
		Example: "database: rewound, for: 15s",
	}, (*databaseRewound).inject)
}

// Rewinds says that a fault of the kind has the database lose what was written last.
func (k *Kind) Rewinds() bool { return k.needs == reflect.TypeFor[DatabaseRewinding]() }

type databaseRewound struct{ databaseStruck }

func (*databaseRewound) inject(x *Injection, w DatabaseRewinding) (func(), error) {
	return w.RewindDatabase(x)
}
