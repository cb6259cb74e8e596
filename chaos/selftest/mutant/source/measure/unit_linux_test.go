package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mutant may make a package's tests exhaust all memory. They are limited, so that they only fail.
func TestUnitTestsHaveBoundedMemory(t *testing.T) {
	script := filepath.Join(t.TempDir(), "some.test")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nulimit -v\nexit 2\n"), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	m := &measurement{root: t.TempDir()}
	failed, out, _, err := m.runUnitTests(t.Context(), script, ".", 1)
	if want := fmt.Sprint(unitMemory >> 10); err != nil || !failed || strings.TrimSpace(out) != want {
		t.Errorf("failed %v with %q and %v; want a failure with %s kB", failed, out, err, want)
	}
}
