package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"handoff/chaos/verdict"
)

// Limits of the summary, because CI pages cut off the end of a long text.
const (
	summaryFailures = 10
	summaryLines    = 4
)

// WriteSummary writes Markdown for the summary page of a CI run.
func WriteSummary(w io.Writer, s *verdict.Sweep) error {
	var b strings.Builder
	list := sortedScenarios(s)
	fmt.Fprintf(&b, "## %s Chaos: %s\n\n%s\n\n", verdictSign(s.Verdict), s.Verdict, overallText(s))
	if text := Sure(s); text != "" {
		fmt.Fprintf(&b, "%s.\n\n", markdownCell(text))
	}
	for _, note := range s.Notes {
		fmt.Fprintf(&b, "- %s\n", markdownCell(note))
	}
	if len(s.Notes) > 0 {
		b.WriteString("\n")
	}
	summaryTable(&b, list)
	summaryFailed(&b, list)
	summaryCoverage(&b, list)
	if s.Go != "" || s.Commit != "" {
		fmt.Fprintf(&b, "%s, commit %s\n", markdownCell(s.Go), markdownCell(CommitText(s.Commit)))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the summary: %w", err)
	}
	return nil
}

// verdictSign returns a symbol for the verdict, which is always printed together with the word.
func verdictSign(v verdict.Verdict) string { return [...]string{"✔", "?", "✖"}[v] }

// overallText summarizes the whole sweep in one sentence.
func overallText(s *verdict.Sweep) string {
	var count [3]int
	seeds := 0
	for _, sc := range s.Scenarios {
		count[sc.Verdict]++
		seeds += sc.Seeds
	}
	text := fmt.Sprintf("%d passed, %d failed, %d inconclusive of %s, %s.",
		count[verdict.Pass], count[verdict.Fail], count[verdict.Inconclusive], plural(len(s.Scenarios), "result"), plural(seeds, "run"))
	if s.Interrupted {
		text += " Interrupted before every seed had run."
	}
	return text
}

func summaryTable(b *strings.Builder, list []*verdict.Scenario) {
	b.WriteString("| | Verdict | Scenario | Profile | Seeds | Executions | Outcomes | Failing seeds | Why |\n")
	b.WriteString("|---|---|---|---|--:|--:|---|---|---|\n")
	for _, sc := range worstFirst(list) {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %d | %d | %s | %s | %s |\n",
			verdictSign(sc.Verdict), sc.Verdict, markdownCell(sc.Name), markdownCell(caseName(sc)), sc.Seeds, executionCount(sc),
			markdownCell(outcomeText(sc)), markdownCell(failingText(sc)), markdownCell(strings.Join(sc.Why, "; ")))
	}
	b.WriteString("\n")
}

func summaryFailed(b *strings.Builder, list []*verdict.Scenario) {
	shown, more := 0, 0
	for _, sc := range list {
		if sc.Verdict != verdict.Fail {
			continue
		}
		if shown == summaryFailures {
			more++
			continue
		}
		if shown == 0 {
			b.WriteString("### What failed\n\n")
		}
		shown++
		violations := sortedViolations(sc.Violations)
		if len(violations) == 0 {
			fmt.Fprintf(b, "**%s, %s**\n\n%s\n", markdownCell(sc.Name), markdownCell(caseName(sc)), fencedBlock(strings.Join(sc.Why, "\n")))
			continue
		}
		v := violations[0]
		fmt.Fprintf(b, "**%s, %s: %s**, seed %d, at %s", markdownCell(sc.Name), markdownCell(caseName(sc)), markdownCell(violationTitle(v)), v.Seed, FormatTime(v.At))
		if v.Execution != 0 {
			fmt.Fprintf(b, ", execution %d", v.Execution)
		}
		if n := len(violations) - 1; n > 0 {
			fmt.Fprintf(b, " (and %s more)", plural(n, "violation"))
		}
		if len(v.Varied) > 0 {
			fmt.Fprintf(b, "\n\nVaried: %s", markdownCell(strings.Join(v.Varied, "; ")))
		}
		fmt.Fprintf(b, "\n\n%s\nReproduce:\n\n%s\n", fencedBlock(strings.Join(firstLines(v.Message, summaryLines), "\n")), fencedBlock(v.Reproduce))
	}
	if more > 0 {
		fmt.Fprintf(b, "… and %s more; see the report.\n\n", plural(more, "failed result"))
	}
}

// summaryCoverage lists only gaps.
func summaryCoverage(b *strings.Builder, list []*verdict.Scenario) {
	var lines []string
	for _, sc := range list {
		if sc.Strategy == verdict.Varied {
			continue // varied runs don't have to cover anything
		}
		where := markdownCell(sc.Name) + ", " + markdownCell(caseName(sc))
		for _, f := range sortedFaults(sc.Faults) {
			if f.Touched == 0 {
				lines = append(lines, fmt.Sprintf("- Fault not touched: %#q (%s): planned %d, fired %d, touched 0", markdownCode(f.Fault), where, f.Planned, f.Fired))
			}
		}
		for _, name := range unreachedSituations(sc) {
			lines = append(lines, fmt.Sprintf("- Never reached: %#q (%s). %s", markdownCode(name), where, markdownCell(sc.Nearness(name))))
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "### Not covered\n\n%s\n\n", strings.Join(lines, "\n"))
	}
}

func executionCount(sc *verdict.Scenario) int64 {
	var sum int64
	for _, n := range sc.Chains {
		sum += n
	}
	return sum
}

func outcomeText(sc *verdict.Scenario) string {
	var parts []string
	for _, o := range outcomeCounts(sc) {
		parts = append(parts, fmt.Sprintf("%d %s", o.Count, o.Name))
	}
	return strings.Join(parts, ", ")
}

func failingText(sc *verdict.Scenario) string {
	if sc.Failing == 0 {
		return ""
	}
	return fmt.Sprintf("%d, first %d", sc.Failing, sc.FirstFailing)
}

func sortedNames(m map[string]int) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// markdownCell makes a text safe for a line or a table of Markdown.
func markdownCell(s string) string {
	return strings.NewReplacer("\n", " ", "\r", " ", "|", "\\|", "<", "&lt;", "*", "\\*", "`", "'").Replace(s)
}

// markdownCode makes a text safe between single backticks, which %#q adds.
func markdownCode(s string) string { return strings.NewReplacer("`", "'", "\n", " ").Replace(s) }

// fencedBlock returns a code block with a fence that the text does not contain.
func fencedBlock(s string) string {
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "\n" + s + "\n" + fence + "\n"
}
