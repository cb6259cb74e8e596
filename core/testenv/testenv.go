// Package testenv decides for tests what the machine and the tier decide: how long a wait is, and
// which tests run. It is in core because core's own tests need it; it imports nothing of Handoff.
//
// The three tiers are make check (go test -short), make test and make test-all
// (HANDOFF_TESTS=all). docs/testing.md says what belongs where.
package testenv

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Tests is the variable that names the tier beyond make test: "all" runs everything in full.
const Tests = "HANDOFF_TESTS"

// PatienceFactor is the variable that multiplies Patience: a number above zero, such as 3 or 0.5.
const PatienceFactor = "HANDOFF_PATIENCE"

// patience is far above what anything takes on a machine that does other work, and far below what
// a person waits for a hang: in November 2026, beside eight busy loops on two processors, the start
// of a RabbitMQ node took 169 seconds.
const patience = 5 * time.Minute

// Patience returns how long a test waits for something that has to happen. When it is over, the
// thing hangs; no test judges how long it took. It is five minutes, multiplied by HANDOFF_PATIENCE.
// It panics if the value is no number above 0 and at most 1000: a test that ignored the mistake would
// run with another patience than was asked for.
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

// All reports whether everything runs in full (make test-all). Without it, a test that has a large
// size takes a smaller one. A value other than "all" is a panic, as in Patience.
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

// Nightly skips the test unless everything runs in full. reason says why it need not hold for every
// change: what it costs, and what proves the same on a smaller scale.
func Nightly(t TB, reason string) {
	t.Helper()
	if !All() {
		t.Skipf("not run: make test-all has it: %s", reason)
	}
}
