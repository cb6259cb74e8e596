package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"handoff/chaos/selftest/mutant/source"
	"handoff/chaos/selftest/mutant/source/score"
	"handoff/core/host/without"
)

const (
	// unitPatience is the time limit for the short tests of a package with a mutant; they normally take a
	// second, and on a busy machine a minute.
	unitPatience = 3 * time.Minute
	// unitMemory bounds the addresses of that test process, in bytes. Go reserves far more than it uses.
	unitMemory = 12 << 30
	// goldenTests compare with recorded results of the original core. A difference is no mistake.
	goldenTests = "^TestHistories$"
)

// unitBinaries are the packages' test binaries, each built once with all mutants.
type unitBinaries struct {
	mu sync.Mutex
	by map[string]func() (string, error)
}

// oracleTests are the packages whose tests compare what the core exports with the oracle. A policy has
// no other test of its bounds.
var oracleTests = [...]string{"chaos/oracle", "chaos/selftest/conformance/policytest"} //detlint:ok a constant table, never written

// unitTests runs the tests of a mutant's package with the mutant, then those of the oracle, up to the first
// failure, and records the result.
func (m *measurement) unitTests(ctx context.Context, c *source.Candidate, r *score.Result) error {
	result := score.UnitSurvived
	for _, dir := range append([]string{c.Package}, oracleTests[:]...) {
		bin, err := m.checkedUnitBinary(ctx, dir)
		if err != nil {
			return err
		}
		failed, _, cpu, err := m.runUnitTests(ctx, bin, dir, m.numbers[c])
		if err != nil {
			return err
		}
		r.CPU += cpu
		if failed {
			result = score.UnitKilled
			break
		}
	}
	r.Unit = result
	return nil
}

// checkedUnitBinary returns the test binary of a package, after checking that it passes with the
// original core.
func (m *measurement) checkedUnitBinary(ctx context.Context, dir string) (string, error) {
	m.tests.mu.Lock()
	if m.tests.by == nil {
		m.tests.by = map[string]func() (string, error){}
	}
	if m.tests.by[dir] == nil {
		m.tests.by[dir] = sync.OnceValues(func() (string, error) {
			bin, err := m.unitBinary(ctx, dir)
			if err != nil {
				return "", err
			}
			failed, out, _, err := m.runUnitTests(ctx, bin, dir, 0)
			if err == nil && failed {
				err = brokenError("the unit tests of %s fail without any mutant:\n%s", dir, out)
			}
			return bin, err
		})
	}
	get := m.tests.by[dir]
	m.tests.mu.Unlock()
	return get()
}

// runUnitTests runs a package's short tests up to the first failure. It leaves out tests that need
// servers or anything else outside the package.
func (m *measurement) runUnitTests(ctx context.Context, bin, dir string, number int) (failed bool, out string, cpu float64, err error) {
	limit, cancel := context.WithTimeout(ctx, unitPatience+15*time.Second)
	defer cancel()
	args := []string{bin, "-test.short", "-test.failfast", "-test.skip", goldenTests, "-test.timeout", unitPatience.String()}
	if runtime.GOOS == "linux" {
		// A mutant may exhaust all memory. Then the kernel would kill any process of the machine.
		args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, unitMemory>>10)}, args...)
	}
	cmd := exec.CommandContext(limit, args[0], args[1:]...) //nolint:gosec // the program that was built for this
	cmd.Dir = filepath.Join(m.root, dir)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", source.Variable, number), without.Variable+"="+strings.Join(without.Known(), ","))
	cmd.WaitDelay = 5 * time.Second
	text, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return false, "", 0, ctx.Err()
	case cmd.ProcessState == nil || limit.Err() == nil && cmd.ProcessState.ExitCode() < 0:
		return false, "", 0, brokenError("running the unit tests of %s: %v\n%s", dir, err, bytes.TrimSpace(text))
	}
	return err != nil, string(text), processorTime(cmd), nil
}

// unitBinary builds the test binary of a package.
func (m *measurement) unitBinary(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(m.work, filepath.Base(dir)+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", m.overlay, "-o", bin, "./"+dir)
	cmd.Dir = m.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", brokenError("building the tests of %s with the mutants: %v\n%s", dir, err, out)
	}
	return bin, nil
}
