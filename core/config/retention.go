package config

import "time"

// Retention configures how long the database keeps rows that are no longer in use. A time of 0 keeps the rows
// permanently. Each is DefaultRetention by default, and 0 in the profile documented, whose source documents
// delete nothing. Idempotency keys have no setting: they are deleted execution.KeyLifetime after their
// creation.
type Retention struct {
	// Executions is how long a chain is kept after its last row has ended. It is deleted as a whole, and only
	// if nothing needs it: it has no children, its parent's chain has ended as long ago, and none of its rows
	// has an idempotency key.
	Executions time.Duration `yaml:"executions"`
	// Transitions is how long a line of the audit is kept, independently of its execution. A reader of the
	// stream of changes may be disconnected for so long.
	Transitions time.Duration `yaml:"transitions"`
	// RefusedResults is how long results of workers that had lost the execution are kept.
	RefusedResults time.Duration `yaml:"refused_results"`
	// Expiries is how long records of unclaimed dispatches at a worker are kept. They affect the worker's
	// health only within health.window.
	Expiries time.Duration `yaml:"expiries"`
	// Incarnations is how long a stopped or lost incarnation is kept after its lease, unless it is its
	// worker's latest.
	Incarnations time.Duration `yaml:"incarnations"`
	// Workers is how long a worker is kept after the lease of its last incarnation, which is deleted with it.
	// Cordoned workers stay, and so do workers to which an unfinished execution is pinned.
	Workers time.Duration `yaml:"workers"`
	// StepSize bounds the rows that one statement examines.
	StepSize int `yaml:"step_size"`
	// Interval is the time between two passes. A pass repeats its steps while they find full pages.
	Interval time.Duration `yaml:"interval"`
}

// DefaultRetention is the default of each time in the profile hardened. Without it, the audit and the list of
// workers would grow without bound, and with them the cost of each pass of an executor. It is far longer than
// executor.queue_retention: the executor finds a worker's queues by its row, so it must delete the queues
// first.
const DefaultRetention = 30 * 24 * time.Hour

// defaultRetention returns a profile's defaults.
func defaultRetention(p Profile) Retention {
	r := Retention{StepSize: 1000, Interval: 10 * time.Second}
	if p != Documented {
		const d = DefaultRetention
		r.Executions, r.Transitions, r.RefusedResults, r.Expiries, r.Incarnations, r.Workers = d, d, d, d, d, d
	}
	return r
}

// longestKept is the longest finite retention: ten years.
const longestKept = 10 * 365 * 24 * time.Hour

// Any reports whether any rows are ever deleted.
func (r Retention) Any() bool {
	return r.Executions > 0 || r.Transitions > 0 || r.RefusedResults > 0 || r.Expiries > 0 || r.Incarnations > 0 || r.Workers > 0
}

func (v *validation) checkRetention(c Config) {
	r := c.Retention
	for _, t := range []struct {
		key   string
		d     time.Duration
		least time.Duration
		of    string
	}{
		{"retention.executions", r.Executions, 0, ""},
		{"retention.transitions", r.Transitions, 0, ""},
		{"retention.refused_results", r.RefusedResults, 0, ""},
		{"retention.expiries", r.Expiries, c.Health.Window, "health.window"},
		{"retention.incarnations", r.Incarnations, c.Worker.Lease(), "a lease"},
		{"retention.workers", r.Workers, c.Executor.QueueRetention, "executor.queue_retention"},
	} {
		switch {
		case t.d < 0:
			v.addProblem(t.key, "is %v, must not be negative; 0 keeps the rows for ever", t.d)
		case t.d > 0 && t.d < t.least:
			v.addProblem(t.key, "is %v, must be 0 or not shorter than %s (%v): the rows are still in use for so long", t.d, t.of, t.least)
		}
	}
	v.requireBetween("retention.step_size", r.StepSize, 1, 10_000)
	v.requirePositive("retention.interval", r.Interval)
}
