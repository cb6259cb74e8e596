package testenv_test

import (
	"strings"
	"testing"
	"time"

	"handoff/core/testenv"
)

func TestPatienceIsMultipliedByVariable(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 5 * time.Minute, "3": 15 * time.Minute, "0.5": 150 * time.Second,
	} {
		t.Setenv(testenv.PatienceFactor, value)
		if got := testenv.Patience(); got != want {
			t.Errorf("%s=%q: %v, want %v", testenv.PatienceFactor, value, got, want)
		}
	}
}

func TestInvalidVariablesPanic(t *testing.T) {
	panics := func(f func()) (text string) {
		defer func() { text, _ = recover().(string) }()
		f()
		return ""
	}
	for _, value := range []string{"0", "-1", "much", "NaN", "1001"} {
		t.Setenv(testenv.PatienceFactor, value)
		if got := panics(func() { testenv.Patience() }); !strings.Contains(got, "must be a number above 0") {
			t.Errorf("%s=%q: %q", testenv.PatienceFactor, value, got)
		}
	}
	t.Setenv(testenv.Tests, "some")
	if got := panics(func() { testenv.All() }); !strings.Contains(got, "it must be all") {
		t.Errorf("%s=some: %q", testenv.Tests, got)
	}
}

type skipped struct{ bool }

func (*skipped) Helper()                {}
func (s *skipped) Skipf(string, ...any) { s.bool = true }

func TestNightlySkipsUnlessTestsRunInFull(t *testing.T) {
	for value, want := range map[string]bool{"": true, "all": false} {
		t.Setenv(testenv.Tests, value)
		var s skipped
		if testenv.Nightly(&s, "its size"); s.bool != want {
			t.Errorf("%s=%q: skipped is %v, want %v", testenv.Tests, value, s.bool, want)
		}
	}
}
