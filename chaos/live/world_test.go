package live

import (
	"os"
	"path/filepath"
	"testing"

	"handoff/chaos/scenario"
	"handoff/core/config"
)

// If a part of a world can't be created, newWorld returns an error and removes the other parts.
func TestNewWorldReportsFolderError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l := &Sandbox{folder: file}
	s := scenario.Scenario{}
	if w, err := l.newWorld(t.Context(), &s, config.Hardened, Options{Scale: 1}); err == nil || w != nil {
		t.Errorf("a folder inside a file was made: %v", err)
	}
}
