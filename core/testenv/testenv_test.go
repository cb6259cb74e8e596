package testenv_test

import (
	"testing"
	"time"

	"handoff/core/testenv"
)

func TestPatience(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": 5 * time.Minute, "3": 15 * time.Minute, "0.5": 150 * time.Second, "0": 5 * time.Minute, "-1": 5 * time.Minute, "much": 5 * time.Minute,
	} {
		t.Setenv(testenv.PatienceFactor, value)
		if got := testenv.Patience(); got != want {
			t.Errorf("%s=%q: %v, want %v", testenv.PatienceFactor, value, got, want)
		}
	}
}

type skipped struct{ bool }

func (*skipped) Helper()                {}
func (s *skipped) Skipf(string, ...any) { s.bool = true }

func TestNightly(t *testing.T) {
	for value, want := range map[string]bool{"": true, "some": true, "all": false} {
		t.Setenv(testenv.Tests, value)
		var s skipped
		if testenv.Nightly(&s, "its size"); s.bool != want {
			t.Errorf("%s=%q: skipped is %v, want %v", testenv.Tests, value, s.bool, want)
		}
	}
}
