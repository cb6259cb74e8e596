package invariant

import (
	"testing"
	"time"

	"handoff/core/config"
)

// Looks at the fleet are a second apart whatever events come in between, so their result must not
// depend on these.
func TestLooksAtTheFleetAreASecondApart(t *testing.T) {
	f := newFleet(config.Default(config.Hardened))
	for _, now := range []time.Duration{0, 1900 * time.Millisecond, 2300 * time.Millisecond, 5 * second} {
		f.pass(now)
		if f.next <= now || f.next > now+look || f.next%look != 0 {
			t.Errorf("after %v the next look is at %v", now, f.next)
		}
	}
}
