// Package testenv decides for tests what the machine and the tier decide: how long a wait is, and
// which tests run. It is in core because core's own tests need it; it imports nothing of Handoff.
//
// The three tiers are make check (go test -short), make test and make test-all
// (HANDOFF_TESTS=all). docs/testing.md says what belongs where.
package testenv

import (
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
// of a RabbitMQ node took 27 seconds.
const patience = 5 * time.Minute

// Patience returns how long a test waits for something that has to happen. When it is over, the
// thing hangs; no test judges how long it took. It is five minutes, multiplied by HANDOFF_PATIENCE
// (a value that is no number above zero counts as 1).
func Patience() time.Duration {
	factor, err := strconv.ParseFloat(os.Getenv(PatienceFactor), 64)
	if err != nil || factor <= 0 || factor > 1000 {
		return patience
	}
	return time.Duration(float64(patience) * factor)
}

// All reports whether everything runs in full (make test-all). Without it, a test that has a large
// size takes a smaller one.
func All() bool { return os.Getenv(Tests) == "all" }

// TB is the part of *testing.T that Nightly uses. It keeps package testing out of binaries.
type TB interface {
	Helper()
	Skipf(format string, args ...any)
}

// Nightly skips the test unless everything runs in full. reason says why it need not hold for every
// change: what it costs, and what proves the same on a smaller scale. docs/testing.md lists the
// reasons.
func Nightly(t TB, reason string) {
	t.Helper()
	if !All() {
		t.Skipf("not run: make test-all has it: %s", reason)
	}
}
