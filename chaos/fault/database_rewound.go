package fault

import "reflect"

func init() {
	Register(Kind{
		// Never drawn: after the loss, a run is judged only by executions that were accepted after all
		// earlier executions had ended.
		Name: "database_rewound", Under: "database", As: "rewound", Ends: WithFor, Hinders: true, Excuses: []Cause{DatabaseFails},
		About: "the standby stops following; at the end the primary dies and the standby takes over, without anything that was " +
			"written meanwhile",
		Example: "database: rewound, for: 15s",
	}, (*databaseRewound).inject)
}

// Rewinds reports whether a fault of this kind makes the database lose its latest writes.
func (k *Kind) Rewinds() bool { return k.needs == reflect.TypeFor[DatabaseRewinding]() }

type databaseRewound struct{ databaseFault }

func (*databaseRewound) inject(x *Injection, w DatabaseRewinding) (func(), error) {
	return w.RewindDatabase(x)
}
