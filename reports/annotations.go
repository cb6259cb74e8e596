package reports

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"handoff/chaos/verdict"
)

// Annotations is the maximum number of annotations. GitHub shows ten errors of a step and drops the rest.
const Annotations = 10

// annotationBytes is the maximum length of the text of one annotation.
const annotationBytes = 4000

// WriteAnnotations writes a line for each failing scenario, which GitHub Actions shows as an error at a line
// of the scenario's file:
//
//	::error file=scenarios/order/ttl-race.yaml,line=54,title=ttl-race (hardened)%3A invariant 4 (single run)::…
//
// locate returns the file of a violation, and its line from 1; an empty file or line 0 is left out. There are
// at most Annotations lines. If more scenarios fail, the last line gives their number.
func WriteAnnotations(w io.Writer, s *verdict.Sweep, locate func(*verdict.Scenario, *verdict.Violation) (file string, line int)) error {
	var failing []*verdict.Scenario
	for _, sc := range sortedScenarios(s) {
		if sc.Verdict == verdict.Fail {
			failing = append(failing, sc)
		}
	}
	shown := len(failing)
	if shown > Annotations {
		shown = Annotations - 1
	}
	var out bytes.Buffer
	for _, sc := range failing[:shown] {
		out.WriteString(annotationOf(sc, locate))
	}
	if more := len(failing) - shown; more > 0 {
		text := fmt.Sprintf("Of %d failing results %d are shown as annotations. The report has all.", len(failing), shown)
		out.WriteString("::error title=" + annotationProperty(fmt.Sprintf("%d more fail", more)) + "::" + annotationText(text) + "\n")
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("writing the annotations: %w", err)
	}
	return nil
}

func annotationOf(sc *verdict.Scenario, locate func(*verdict.Scenario, *verdict.Violation) (string, int)) string {
	title, text := sc.Name+" ("+caseName(sc)+")", strings.Join(sc.Why, "\n")
	v := &verdict.Violation{}
	if violations := sortedViolations(sc.Violations); len(violations) > 0 {
		v = violations[0]
		title += ": " + violationTitle(v)
		text = v.Message
		if v.Statement != "" {
			text += "\nrule: " + v.Statement
		}
		if sc.Seeds > 1 {
			text += fmt.Sprintf("\n%d of %d seeds fail", sc.Failing, sc.Seeds)
		}
		text = firstBytes(text, annotationBytes) + "\nreproduce: " + v.Reproduce
	}
	var properties []string
	file, line := locate(sc, v)
	if file != "" {
		properties = append(properties, "file="+annotationProperty(file))
		if line > 0 {
			properties = append(properties, fmt.Sprintf("line=%d", line))
		}
	}
	properties = append(properties, "title="+annotationProperty(title))
	return "::error " + strings.Join(properties, ",") + "::" + annotationText(text) + "\n"
}

// firstBytes truncates a text at the beginning of a character.
func firstBytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// annotationText escapes the text of a command for the runner of GitHub Actions, and annotationProperty one
// of its properties. The text comes from the product, so control characters are removed too.
func annotationText(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(sanitizeText(s))
}

func annotationProperty(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(annotationText(s))
}
