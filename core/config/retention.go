package config

import "time"

// Retention configures how long the database keeps rows that nothing works with any more. A time of
// 0 keeps the rows for ever. Each is DefaultRetention by default, and 0 in the profile documented,
// whose sources delete nothing. Idempotency keys have no setting here: they leave
// execution.KeyLifetime after their creation, whatever is kept.
type Retention struct {
	// Executions is how long a chain is kept after its last row has ended. It leaves as a whole, and
	// only if nobody waits for it any more: it has no children left, its parent's chain has ended as
	// long ago, and none of its rows has an idempotency key.
	Executions time.Duration `yaml:"executions"`
	// Transitions is how long a line of the audit is kept, whatever becomes of its execution. A
	// reader of the stream of changes may be away for so long.
	Transitions time.Duration `yaml:"transitions"`
	// RefusedResults is how long the result of a worker that had lost the execution is kept.
	RefusedResults time.Duration `yaml:"refused_results"`
	// Expiries is how long it is kept that a dispatch stayed unclaimed at a worker. It counts for the
	// worker's health for no longer than health.window.
	Expiries time.Duration `yaml:"expiries"`
	// Incarnations is how long an incarnation that is stopped or lost, and not the latest of its
	// worker, is kept after its lease.
	Incarnations time.Duration `yaml:"incarnations"`
	// Workers is how long a worker is kept after the lease of its last incarnation, which leaves with
	// it. A cordoned worker stays, and so does one to which an execution is pinned that has not ended.
	Workers time.Duration `yaml:"workers"`
	// StepSize bounds the rows that one statement looks at.
	StepSize int `yaml:"step_size"`
	// Interval is the time between two passes. A pass repeats its steps while they find full pages.
	Interval time.Duration `yaml:"interval"`
}

// DefaultRetention is the default of each time of the profile hardened. Without one, the audit and
// the list of workers grow for as long as the installation lives, and with them what each pass of an
// executor costs. It is far longer than executor.queue_retention, so a worker's queues are deleted
// long before the worker itself, which is how the executor knows of them.
const DefaultRetention = 30 * 24 * time.Hour

// defaultRetention is the section as a profile has it.
func defaultRetention(p Profile) Retention {
	r := Retention{StepSize: 1000, Interval: 10 * time.Second}
	if p != Documented {
		const d = DefaultRetention
		r.Executions, r.Transitions, r.RefusedResults, r.Expiries, r.Incarnations, r.Workers = d, d, d, d, d, d
	}
	return r
}

// longestKept bounds how long something can be kept, apart from for ever: ten years.
const longestKept = 10 * 365 * 24 * time.Hour

// Any says whether anything leaves at all.
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
