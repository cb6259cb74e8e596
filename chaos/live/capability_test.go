package live

import (
	"testing"

	"handoff/chaos/scenario"
)

// Every kind of fault can be brought about, or it is said why not; never both, and never neither.
func TestEveryFaultIsPossibleOrSaidNotToBe(t *testing.T) {
	for _, f := range scenario.Faults() {
		able, why := injectors()[f.Kind] != nil, f.Kind.Lacks(scenario.Live)
		if able == (why != "") {
			t.Errorf("%s: there is an injector: %v, and the reason why there is none: %q", f.Kind, able, why)
		}
	}
}
