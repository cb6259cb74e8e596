package main

import "testing"

func TestASampleThatIsNoneIsRefused(t *testing.T) {
	chaos(t, "mutants", "--source", "--sample", "61").wants(t, 2, "--sample 61: allowed are 300, and 60")
}

func TestWhatBrokeAProgramIsItsFirstLine(t *testing.T) {
	if got := firstLine("noise\npanic: runtime error: index out of range\n\ngoroutine 1"); got != "panic: runtime error: index out of range" {
		t.Errorf("%q", got)
	}
	if got := firstLine("chaos: something\nmore"); got != "chaos: something" {
		t.Errorf("%q", got)
	}
}

func TestTheFailedCaseIsTheInnermostOne(t *testing.T) {
	out := "=== RUN x\n--- FAIL: TestContract (3s)\n    --- FAIL: TestContract/claim/a_late_one (0.1s)\n"
	if got := firstFailure(out); got != "TestContract/claim/a_late_one (0.1s)" {
		t.Errorf("%q", got)
	}
	if !notTaken.MatchString(`ERROR: syntax error at or near "and" (SQLSTATE 42601)`) || notTaken.MatchString("SQLSTATE 23505") {
		t.Error("class 42 alone is what PostgreSQL does not take")
	}
}
