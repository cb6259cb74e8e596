package config

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Print writes the effective configuration as a YAML file, with the origin of each value as a comment.
// Secrets are masked, so that the output can be shared.
func (e *Effective) Print(w io.Writer) {
	type line struct{ text, about string }
	var lines []line
	var open []string
	for _, l := range daemonLeaves() {
		parts := strings.Split(l.Path, ".")
		sections := parts[:len(parts)-1]
		shared := 0
		for shared < min(len(open), len(sections)) && open[shared] == sections[shared] {
			shared++
		}
		for i := shared; i < len(sections); i++ {
			lines = append(lines, line{text: strings.Repeat("  ", i) + sections[i] + ":"})
		}
		open = slices.Clone(sections)
		text := fmt.Sprintf("%s%s: %s", strings.Repeat("  ", len(sections)), parts[len(parts)-1], l.maskedYAML(e.fieldValue(l)))
		lines = append(lines, line{text, e.Origin(l.Path)})
	}
	width := 0
	for _, l := range lines {
		width = max(width, min(60, utf8.RuneCountInString(l.text)))
	}
	for _, l := range lines {
		if l.about == "" {
			fmt.Fprintln(w, l.text)
			continue
		}
		fmt.Fprintf(w, "%s%s  # %s\n", l.text, strings.Repeat(" ", max(0, width-utf8.RuneCountInString(l.text))), l.about)
	}
}
