package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// source has a function of four statements, of which the profile below says that the branch was never taken.
const source = `package small

func half(n int) int {
	if n%2 == 1 {
		// Odd numbers are rounded.
		n--
	}
	return n / 2
}
`

const profile = `mode: set
handoff/small/small.go:3.22,4.14 1 1
handoff/small/small.go:4.14,7.3 1 0
handoff/small/small.go:8.2,8.14 1 1
`

func TestEachStatementThatNothingReachedNeedsAReason(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) string {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	write("small/small.go", source)
	cover := write("cover.txt", profile)
	const why = "- {function: small/small.go half, first: [n--], why: no number is odd here}\n"
	const stale = "- {function: small/small.go half, first: [return n / 2], why: nobody asks}\n"
	for _, c := range []struct {
		name, reasons string
		most          float64
		ok            bool
		says          string
	}{
		{"without a reason", "", 50, false, "small/small.go:6 half: n-- (1)\n    NO REASON"},
		{"with its reason", why, 50, true, "reached: 2 of 3 statements, 33.3 % were not"},
		{"too many", why, 2, false, "2.0 % may be left out"},
		{"a reason for what was reached", why + stale, 50, false, "a reason for what was reached, or is not there: small/small.go half: return n / 2"},
	} {
		var said strings.Builder
		ok, err := report(&said, cover, write("reasons.yaml", c.reasons), c.most, []string{"small"})
		if err != nil || ok != c.ok || !strings.Contains(said.String(), c.says) {
			t.Errorf("%s: %v, %v\n%s", c.name, ok, err, &said)
		}
	}
	if _, err := reasonsIn(write("reasons.yaml", "- {function: f, because: typo}\n")); err == nil {
		t.Error("a file of reasons with an unknown key was read")
	}
	if _, _, err := gapsOf(cover, []string{"elsewhere"}); err == nil {
		t.Error("a profile without a statement of the folder was read")
	}
}
