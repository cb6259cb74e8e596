package fault

import (
	"time"

	"handoff/core/config/yamlfile"
)

func init() {
	Register(Kind{
		Name: "unreadable_rows", Ends: WithFor, Edits: true,
		About:   "a newer program writes what no program of the run can read into rows of executions that wait",
		Example: "unreadable_rows: {count: 2}, for: 1m",
		Keys:    []yamlfile.Key{yamlfile.Required("count", "how many", yamlfile.IntegerSchema(1, mostHidden))},
	}, (*unreadableRows).inject)
}

// mostHidden is the largest number of rows that one fault can hide.
const mostHidden = 1000

type unreadableRows struct {
	databaseFault
	Count int
}

// Read implements Fault.
func (u *unreadableRows) Read(r *Reader) {
	if n := r.At("count"); n != nil {
		count, _ := r.Integer(n, "count", 1, mostHidden)
		u.Count = int(count)
	}
}

// Describe implements Describer.
func (*unreadableRows) Describe() string { return "unreadable rows" }

// inject hides rows as their executions begin to wait, until Count rows are hidden. At the end, their
// content is restored.
func (u *unreadableRows) inject(x *Injection, w RowEdits) (func(), error) {
	var shows []func()
	left, over := u.Count, false
	var hide func()
	hide = func() {
		if over {
			return
		}
		hidden, show := w.HideRows(x, left)
		if hidden > 0 {
			x.Touch(Touched{Process: Database})
			shows = append(shows, show)
		}
		if left -= hidden; left > 0 {
			x.After(100*time.Millisecond, hide)
		}
	}
	hide()
	return func() {
		over = true
		InOrder(shows)()
	}, nil
}
