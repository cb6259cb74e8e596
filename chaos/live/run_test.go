package live

import (
	"errors"
	"testing"
)

// A run ends if the broker doesn't answer several consecutive queries. A shorter outage doesn't.
func TestRunEndsAfterConsecutiveBrokerErrors(t *testing.T) {
	wrong := errors.New("function_clause")
	var u unansweredCount
	for i, c := range []struct {
		err  error
		ends bool
	}{{wrong, false}, {wrong, false}, {nil, false}, {wrong, false}, {wrong, false}, {wrong, true}} {
		if got := u.reachesLimit(c.err); got != c.ends {
			t.Errorf("after query %d (%v): ends %v", i+1, c.err, got)
		}
	}
}
