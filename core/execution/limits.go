package execution

import "time"

// Limits are values with which a request overrides the action's for its execution. They apply to the whole
// chain of retries, but not to its workflow children. The zero value leaves everything to the action.
type Limits struct {
	// Timeout ends a run; 0 leaves it to the action.
	Timeout time.Duration
	// DispatchTimeout is how long a dispatch may wait for its claim; 0 leaves it to the action.
	DispatchTimeout time.Duration
	// MaxRetries bounds the retries that may follow. It counts only if OwnRetries is true, because 0 is
	// a valid number of retries.
	MaxRetries int
	OwnRetries bool
}

// On returns the action with these limits applied.
func (l Limits) On(a Action) Action {
	if l.Timeout != 0 {
		a.Timeout = l.Timeout
	}
	if l.DispatchTimeout != 0 {
		a.DispatchTimeout = l.DispatchTimeout
	}
	if l.OwnRetries {
		a.MaxRetries = l.MaxRetries
	}
	return a
}

// The names of the limits in the API and in the database.
const (
	LimitTimeout         = "timeout_seconds"
	LimitDispatchTimeout = "dispatch_timeout_seconds"
	LimitRetries         = "max_retries"
)

// Names lists the limits that the request sets, in a fixed order; empty, not nil, if it sets none.
func (l Limits) Names() []string {
	names := []string{}
	if l.Timeout != 0 {
		names = append(names, LimitTimeout)
	}
	if l.DispatchTimeout != 0 {
		names = append(names, LimitDispatchTimeout)
	}
	if l.OwnRetries {
		names = append(names, LimitRetries)
	}
	return names
}

// LimitsNamed extracts the named limits from an action to which they were applied: the reverse of
// On and Names. It ignores unknown names.
func LimitsNamed(names []string, a Action) (l Limits) {
	for _, name := range names {
		switch name {
		case LimitTimeout:
			l.Timeout = a.Timeout
		case LimitDispatchTimeout:
			l.DispatchTimeout = a.DispatchTimeout
		case LimitRetries:
			l.MaxRetries, l.OwnRetries = a.MaxRetries, true
		}
	}
	return l
}
