// Package testenv tells tests what depends on the machine and the tier: how long to wait, and which tests to
// run. It is in core because core's own tests need it; it imports nothing of Handoff.
//
// The three tiers are make check (go test -short), make test and make test-all
// (HANDOFF_TESTS=all). docs/testing.md describes what belongs in which tier.
package testenv

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Tests is the environment variable that selects the tier above make test: "all" runs everything in full.
const Tests = "HANDOFF_TESTS"

// PatienceFactor is the environment variable with the factor of Patience: a number above zero, such as 3 or
// 0.5.
const PatienceFactor = "HANDOFF_PATIENCE"

// patience is much longer than anything takes on a busy machine, and short enough to wait for a test that
// hangs: in November 2026, with eight busy loops running on two processors, a RabbitMQ node took 169 seconds
// to start.
const patience = 5 * time.Minute

// Patience returns how long a test waits for something that has to happen: five minutes, multiplied by
// HANDOFF_PATIENCE. After that, the test fails because of a hang; no test judges how long the event took.
// Patience panics if the factor is not a number above 0 and at most 1000, rather than run with a patience
// that nobody asked for.
func Patience() time.Duration {
	value := os.Getenv(PatienceFactor)
	if value == "" {
		return patience
	}
	factor, err := strconv.ParseFloat(value, 64)
	if err != nil || !(factor > 0 && factor <= 1000) {
		panic(fmt.Sprintf("%s is %q: it multiplies how long a test waits, and must be a number above 0 and at most 1000, such as 3", PatienceFactor, value))
	}
	return time.Duration(float64(patience) * factor)
}

// All reports whether everything runs in full (make test-all). If not, a test that can run at a large size
// runs at a smaller size. Like Patience, All panics if the variable has a value other than "all".
func All() bool {
	value := os.Getenv(Tests)
	if value != "" && value != "all" {
		panic(fmt.Sprintf("%s is %q: it must be all, for every test in full, or not set", Tests, value))
	}
	return value == "all"
}

// TB is the part of *testing.T that Nightly uses. It keeps package testing out of binaries.
type TB interface {
	Helper()
	Skipf(format string, args ...any)
}

// Nightly skips the test unless everything runs in full. reason states why the test need not run for every
// change: what it costs, and what proves the same on a smaller scale.
func Nightly(t TB, reason string) {
	t.Helper()
	if !All() {
		t.Skipf("not run: make test-all has it: %s", reason)
	}
}
