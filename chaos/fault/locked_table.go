package fault

import "handoff/core/config/yamlfile"

func init() {
	Register(Kind{
		Name: "locked_table", Ends: WithFor, Hinders: true, Excuses: []Cause{DatabaseFails},
		About:   "a session of somebody else, such as an index build, locks a table: in mode share nobody writes it, in mode access_exclusive nobody reads it either",
		Example: "locked_table: {table: execution_record, mode: share}, for: 60s",
		Draw: func(d *Dice) string {
			return "locked_table: {table: " + d.Of(lockableTables()...) + ", mode: " + d.Of(tableModes()...) + "}"
		},
		Keys: []yamlfile.Key{
			yamlfile.Required("table", "a table of the schema", yamlfile.Enum(lockableTables())),
			yamlfile.Required("mode", "what it holds up", yamlfile.Enum(tableModes())),
		},
	}, (*lockedTable).inject)
}

// lockableTables returns the tables of the schema.
func lockableTables() []string {
	return []string{
		"action", "concurrency_slot", "dead_letter", "execution_record", "execution_transition_gone", "execution_unhandled", "execution_work",
		"observation", "refused_result", "transition_group", "worker", "worker_expiry", "worker_incarnation",
	}
}

func tableModes() []string { return []string{"share", "access_exclusive"} }

type lockedTable struct{ TableLock }

// Strikes implements Fault.
func (l *lockedTable) Strikes() Strikes { return Strikes{Target: Database, Ends: []string{l.Table}} }

// Read implements Fault.
func (l *lockedTable) Read(r *Reader) {
	if n := r.At("table"); n != nil {
		l.Table, _ = r.Choice(n, "table", lockableTables())
	}
	if n := r.At("mode"); n != nil {
		mode, _ := r.Choice(n, "mode", tableModes())
		l.Exclusive = mode == "access_exclusive"
	}
}

// Describe implements Describer.
func (l *lockedTable) Describe() string { return l.Table + " locked by a stranger" }

func (l *lockedTable) inject(x *Injection, w Strangers) (func(), error) {
	return w.LockTable(x, l.TableLock)
}
