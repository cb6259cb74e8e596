package history_test

import (
	"testing"

	"handoff/chaos/history"
)

func TestKindNamesAreUnique(t *testing.T) {
	seen := make(map[string]history.Kind)
	for k := history.NoKind + 1; int(k) < history.Kinds; k++ {
		name := k.String()
		if name == "" || name[0] < 'a' || name[0] > 'z' {
			t.Errorf("kind %d has no name: %q", k, name)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("kinds %d and %d are both called %q", other, k, name)
		}
		seen[name] = k
		back, err := history.ParseKind(name)
		if err != nil || back != k {
			t.Errorf("ParseKind(%q) = %d, %v; want %d", name, back, err, k)
		}
	}
}

func TestParseKindRefusesNoKind(t *testing.T) {
	for _, name := range []string{"", "kind(200)", "nonsense"} {
		if k, err := history.ParseKind(name); err == nil {
			t.Errorf("ParseKind(%q) = %d, want an error", name, k)
		}
	}
	if got := history.Kind(200).String(); got != "kind(200)" {
		t.Errorf("Kind(200) is called %q", got)
	}
}
