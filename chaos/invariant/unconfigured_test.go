package invariant

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The code of an Unconfigured rule must read neither the configuration nor a bound that depends on it.
func TestUnconfiguredRulesReadNoConfiguration(t *testing.T) {
	reads := regexp.MustCompile(`\b(config|bounds|calmBounds|backoffs|patience)\b`)
	found := 0
	for _, i := range All() {
		if !i.Unconfigured {
			continue
		}
		found++
		files, err := filepath.Glob(fmt.Sprintf("i%02d_*.go", i.Number))
		if err != nil || len(files) == 0 {
			t.Fatalf("no source of invariant %d: %v", i.Number, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			source, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if at := reads.Find(source); at != nil {
				t.Errorf("invariant %d is judged without the configuration, and %s reads %s", i.Number, name, at)
			}
		}
	}
	if found == 0 {
		t.Error("every rule needs the configuration")
	}
}
