package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// dryMake returns the commands that `make -n` would run, and its messages, in the folder of the
// Makefile.
func dryMake(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("make", append([]string{"-C", "../..", "--no-print-directory", "-n"}, args...)...)
	// The tests may run under make themselves.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "MAKE") || strings.HasPrefix(pair, "MFLAGS")
	})
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "are the same") {
		t.Fatalf("make -n %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestOldWordsOfMakeStillWork(t *testing.T) {
	for old, now := range map[string]string{"flaws": "mutants", "live-flaws": "live-mutants", "flawed": "mutated"} {
		was, is := dryMake(t, old), dryMake(t, now)
		if notice := "make " + old + " is called make " + now + " now"; !strings.Contains(was, notice) || strings.Contains(is, "is called") || !strings.HasSuffix(was, is) {
			t.Errorf("make %s would run\n%s\nand make %s\n%s", old, was, now, is)
		}
	}
	for _, v := range []struct{ target, old, now, seen string }{
		{"demo", "FLAW", "MUTANT", "--mutant late "},
		{"chaos-live", "LIVE_LANES", "LIVE_PARALLEL", "--parallel late "},
	} {
		was, is := dryMake(t, v.target, v.old+"=late"), dryMake(t, v.target, v.now+"=late")
		if !strings.Contains(was, v.seen) || was != v.old+" is called "+v.now+" now\n"+is {
			t.Errorf("make %s %s=late would run\n%s\nand with %s\n%s", v.target, v.old, was, v.now, is)
		}
		if both := dryMake(t, v.target, v.old+"=a", v.now+"=b"); !strings.Contains(both, v.old+" is called "+v.now+" now; give that one only") {
			t.Errorf("make %s with both: %s", v.target, both)
		}
	}
}
