package fault

import (
	"time"

	"handoff/core/config/yamlfile"
)

func init() {
	Register(Kind{
		Name: "locked_rows", Ends: WithFor, Edits: true,
		About:   "a session of somebody else, such as a forgotten transaction in psql, locks rows of executions that were dispatched or run",
		Example: "locked_rows: {count: 2}, for: 70s",
		Keys:    []yamlfile.Key{yamlfile.Required("count", "how many", yamlfile.IntegerSchema(1, mostHidden))},
	}, (*lockedRows).inject)
}

type lockedRows struct {
	databaseFault
	Count int
}

// Read implements Fault.
func (l *lockedRows) Read(r *Reader) {
	if n := r.At("count"); n != nil {
		count, _ := r.Integer(n, "count", 1, mostHidden)
		l.Count = int(count)
	}
}

// Describe implements Describer.
func (*lockedRows) Describe() string { return "rows locked by a stranger" }

// inject locks rows as they are dispatched, until Count rows are locked. At the end, all locks are
// released.
func (l *lockedRows) inject(x *Injection, w Strangers) (func(), error) {
	var frees []func()
	left, over := l.Count, false
	var failed error
	var lock func()
	lock = func() {
		if over {
			return
		}
		locked, free, err := w.LockRows(x, left)
		if err != nil {
			failed = err
			x.Fail(err)
			return
		}
		if locked > 0 {
			x.Touch(Touched{Process: Database})
			frees = append(frees, free)
		}
		if left -= locked; left > 0 {
			x.After(100*time.Millisecond, lock)
		}
	}
	lock()
	return func() {
		over = true
		InOrder(frees)()
	}, failed
}
