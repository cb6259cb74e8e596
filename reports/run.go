package reports

import (
	"fmt"
	"io"

	"handoff/chaos/verdict"
)

// runPage is the name of a run's page in the folder of the run.
const runPage = "run.html"

// runBytes is the maximum size of the timeline on a run's page.
const runBytes = 1_500_000

// oneRun is the data of a run's page.
type oneRun struct {
	Sign, Verdict string
	Title         string
	Panic         string
	Violations    []runViolation
	More          int
	Reproduce     string
	Explained     *whyPage

	shownRuns
}

type runViolation struct {
	Title, Statement, Message string
	// When ends a sentence, as in "at 3.500s".
	When string
	// Said is the last logged warning about the failure, right before it; nil for none.
	Said *whySide
}

// runViolations is the maximum number of violations listed above the timeline, which shows all of them.
const runViolations = 10

// WriteRun writes the page of one failed run: the timeline, the state at the cursor and the story of each
// execution. key names the run in links; it is the run's folder. The page needs neither network nor server.
func WriteRun(w io.Writer, r *verdict.Record, key string) error {
	data, labels, err := pageData([]*verdict.Record{r}, map[*verdict.Record]string{r: key}, runBytes)
	if err != nil {
		return err
	}
	p := &oneRun{Sign: verdictSign(verdict.Fail), Verdict: verdict.Fail.String(), Title: runLabel(r), Explained: newWhy(r)}
	if r.Panic != "" {
		p.Panic = firstLines(r.Panic, 1)[0]
	}
	violations, tell := sortedViolations(r.Violations), newDescriber(r.Workers)
	for _, v := range violations[:min(len(violations), runViolations)] {
		p.Violations = append(p.Violations, runViolation{violationTitle(v), v.Statement, tell.nameQueueOwners(v.Message), "at " + FormatTime(v.At), lastWarningAbout(r, v, tell)})
		if p.Reproduce == "" {
			p.Reproduce = v.Reproduce
		}
	}
	p.More = len(violations) - len(p.Violations)
	p.embedRuns(data, labels, readAssets("core.js", "draw.js", "led.js", "panel.js"))
	if err := pageTemplates().ExecuteTemplate(w, "one", p); err != nil {
		return fmt.Errorf("writing the page of a run: %w", err)
	}
	return nil
}

// runLabel names a run for people.
func runLabel(r *verdict.Record) string {
	label := fmt.Sprintf("%s, %s, seed %d", r.Scenario, verdict.ProfileName(r.Profile, r.Varied != nil), r.Seed)
	if r.Mutant != "" {
		label += ", mutant " + r.Mutant
	}
	return label
}
