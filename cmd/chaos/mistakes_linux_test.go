package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// Output folders are checked before the runs, which may take hours. No file can be made in /proc.
func TestUnwritableFolderIsRefusedBeforeRuns(t *testing.T) {
	calmFile := writeFile(t, "calm.yaml", calm)
	for _, args := range [][]string{{"--out", "/proc"}, {"--out", t.TempDir(), "--json", "/proc/result.json"}} {
		said := runChaos(t, append([]string{"run", calmFile, "--seed", "1"}, args...)...)
		said.expectOutput(t, 2, "no file can be written into the folder /proc", "name another folder")
		if strings.Contains(said.out, "pass") {
			t.Errorf("it ran:\n%s", said.out)
		}
	}
	folder := t.TempDir()
	runChaos(t, "run", calmFile, "--seed", "1", "--profile", "hardened", "--out", folder).expectOutput(t, 0, "pass")
	if left, err := filepath.Glob(filepath.Join(folder, ".chaos-*")); err != nil || len(left) > 0 {
		t.Errorf("the trial leaves %v, %v", left, err)
	}
}
