package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each line of the diagram in ARCHITECTURE.md names an existing file and function.
func TestArchitecture(t *testing.T) {
	var stages []string
	for _, m := range regexp.MustCompile(`(?m)^ ?(\w+)?.*\b(core/\S+\.go) +(\w+) `).FindAllStringSubmatch(readText(t, "../ARCHITECTURE.md"), -1) {
		if m[1] != "" {
			stages = append(stages, m[1])
		}
		if source := readText(t, "../"+m[2]); !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + m[3] + `\(`).MatchString(source) {
			t.Errorf("ARCHITECTURE.md names %s in %s, which has no such function", m[3], m[2])
		}
	}
	if want := strings.Fields("request row pass dispatch delivery claim run end retry taken epoch"); !slices.Equal(stages, want) {
		t.Errorf("the stages of the picture are %q, want %q", stages, want)
	}
}
