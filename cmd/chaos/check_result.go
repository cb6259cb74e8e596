package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"handoff/chaos/audit"
	"handoff/chaos/history"
	"handoff/chaos/invariant"
	"handoff/chaos/verdict"
	"handoff/reports"
)

// This file prints the result of chaos check. It always distinguishes rules that hold, are broken, or were
// not judged: a rule without occasions must not look like one that holds.

// printJudgement prints a judgement, writes it as JSON to a file if one is named, and sets the exit code.
func (a *app) printJudgement(r *audit.Result, of checkHead, file string) error {
	v := verdictOf(r)
	a.code = v.ExitCode()
	say := a.out
	if file == standardOutput {
		say = a.err // standard output is only for the JSON
	}
	if of.title != "" {
		fmt.Fprintln(say, of.title)
	}
	fmt.Fprintf(say, "%s, %s, %d still open\n\n", plural(r.Executions, "execution"), plural(r.Events, "event"), r.Open)
	printRules(say, r)
	printUnread(say, r)
	printDeleted(say, r)
	if of.title != "" {
		fmt.Fprintln(say, "\n  not judged  what the scenario itself expects: chaos run and chaos replay judge that")
	}
	for _, v := range r.Violations {
		about := "no execution in particular"
		if v.Execution != 0 {
			about = fmt.Sprintf("execution %d", v.Execution)
		}
		fmt.Fprintf(say, "\n%s invariant %d, %s\n  %s: %s\n", say.red("FAIL"), v.Invariant.Number, v.Invariant.Name, about, reports.Printable(v.Message, ""))
	}
	if of.replay != "" {
		fmt.Fprintf(say, "\nreplay: %s\n", reports.Printable(of.replay, ""))
	}
	if v == verdict.Inconclusive {
		fmt.Fprintln(say, "\nthere was nothing to judge")
	}
	fmt.Fprintf(say, "\n%s: %s, %d broken, %d not judged\n", say.colourVerdict(v.String()), rulesHoldText(r.Count(audit.Holds)), r.Count(audit.Broken), r.Count(audit.NotJudged))
	switch file {
	case "":
		return nil
	case standardOutput:
		return writeCheck(a.out.Writer, r, of)
	}
	if err := reports.WriteFile(file, func(w io.Writer) error { return writeCheck(w, r, of) }); err != nil {
		return harnessError("the history is judged, but %v", err)
	}
	return nil
}

func rulesHoldText(n int) string {
	if n == 1 {
		return "1 rule holds"
	}
	return fmt.Sprintf("%d rules hold", n)
}

// verdictOf returns the verdict on a judgement: inconclusive without an execution or a rule that holds.
func verdictOf(r *audit.Result) verdict.Verdict {
	switch {
	case r.Count(audit.Broken) > 0:
		return verdict.Fail
	case r.Executions == 0 || r.Count(audit.Holds) == 0:
		return verdict.Inconclusive
	}
	return verdict.Pass
}

// printRules prints the judged rules, then the partly judged rules, then the rules that were not judged.
func printRules(say *terminal, r *audit.Result) {
	for i := range r.Rules {
		rule := &r.Rules[i]
		word := say.green("holds     ")
		switch rule.Outcome {
		case audit.NotJudged:
			continue
		case audit.Broken:
			word = say.red("BROKEN    ")
		case audit.Holds:
		}
		never := ""
		if len(rule.Never) > 0 {
			never = "; " + strings.Join(kindNames(rule.Never), ", ") + " never occurred"
		}
		fmt.Fprintf(say, "  %s  %2d %s (%s%s): %s\n", word, rule.Invariant.Number, rule.Invariant.Name, plural(rule.Occasions, "occasion"), never, rule.Invariant.Statement)
	}
	fmt.Fprintln(say)
	for i := range r.Rules {
		if rule := &r.Rules[i]; rule.Part != "" {
			fmt.Fprintf(say, "  in part     %2d %s: judged %s\n", rule.Invariant.Number, rule.Invariant.Name, rule.Part)
		}
	}
	for i := range r.Rules {
		if rule := &r.Rules[i]; rule.Outcome == audit.NotJudged {
			fmt.Fprintf(say, "  not judged  %2d %s: %s\n", rule.Invariant.Number, rule.Invariant.Name, rule.Why)
		}
	}
}

func kindNames(kinds []history.Kind) []string {
	list := make([]string, len(kinds))
	for i, k := range kinds {
		list[i] = k.String()
	}
	return list
}

// printUnread prints the events that could not be read.
func printUnread(say *terminal, r *audit.Result) {
	if r.Unread == 0 {
		return
	}
	fmt.Fprintf(say, "\n  not read    %s with a word that this program does not know; a newer one wrote it, and can judge it (%s not judged)\n",
		plural(r.Unread, "event"), plural(r.Aside, "execution"))
	for _, why := range r.Unknown {
		fmt.Fprintf(say, "              %s\n", reports.Printable(why, ""))
	}
	if more := r.Unread - len(r.Unknown); more > 0 {
		fmt.Fprintf(say, "              and %d more\n", more)
	}
}

// printDeleted lists what retention has deleted, so that nobody takes deleted data for data that never existed.
func printDeleted(say *terminal, r *audit.Result) {
	if !r.Since.IsZero() {
		fmt.Fprintf(say, "\n  not there   the audit up to %s, which the retention has deleted: what was created before is not judged (%s)\n",
			r.Since.UTC().Format(time.RFC3339), plural(r.Aside, "execution"))
	}
	if r.Left > 0 {
		fmt.Fprintf(say, "\n  not there   %s, of which the audit still has lines: the retention has deleted them, and they are not judged\n", plural(r.Left, "execution"))
	}
}

// checkSchema is the version of the format that chaos check --json writes.
const checkSchema = 1

// checkHead identifies the judged history. For a database, only the profile is known.
type checkHead struct {
	Schema   int    `json:"schema"`
	Scenario string `json:"scenario,omitempty"`
	Profile  string `json:"profile"`
	Seed     uint64 `json:"seed,omitempty"`
	// title is the headline, and replay the command that replays the run; empty for none.
	title, replay string
}

// checkResult is the file that chaos check --json writes.
type checkResult struct {
	checkHead
	Verdict    string      `json:"verdict"`
	Executions int         `json:"executions"`
	Events     int         `json:"events"`
	Open       int         `json:"open"`
	Unread     int         `json:"unread"`
	Aside      int         `json:"aside"`
	Since      *time.Time  `json:"since,omitempty"`
	Left       int         `json:"left,omitempty"`
	Holds      int         `json:"holds"`
	Broken     int         `json:"broken"`
	NotJudged  int         `json:"not_judged"`
	Rules      []checkRule `json:"rules"`
}

// checkRule is the judgement of one rule. Why explains why it was not judged, Part names the judged part, and
// Never lists the needed kinds of events that never occurred. Finding is set if it is broken.
type checkRule struct {
	Number    int           `json:"number"`
	Name      string        `json:"name"`
	Statement string        `json:"statement"`
	Outcome   audit.Outcome `json:"outcome"`
	Occasions uint64        `json:"occasions"`
	Why       string        `json:"why,omitempty"`
	Part      string        `json:"part,omitempty"`
	Never     []string      `json:"never,omitempty"`
	Finding   *checkFinding `json:"finding,omitempty"`
}

// checkFinding is the place and the message of a broken rule.
type checkFinding struct {
	Execution int64  `json:"execution"`
	Step      uint64 `json:"step"`
	At        int64  `json:"at_ns"`
	Message   string `json:"message"`
}

func writeCheck(w io.Writer, r *audit.Result, of checkHead) error {
	of.Schema = checkSchema
	out := checkResult{
		checkHead: of, Verdict: verdictOf(r).String(), Executions: r.Executions, Events: r.Events, Open: r.Open, Unread: r.Unread, Aside: r.Aside,
		Holds: r.Count(audit.Holds), Broken: r.Count(audit.Broken), NotJudged: r.Count(audit.NotJudged),
	}
	if out.Left = r.Left; !r.Since.IsZero() {
		since := r.Since.UTC()
		out.Since = &since
	}
	for i := range r.Rules {
		rule := &r.Rules[i]
		j := checkRule{
			Number: rule.Invariant.Number, Name: rule.Invariant.Name, Statement: rule.Invariant.Statement,
			Outcome: rule.Outcome, Occasions: rule.Occasions, Why: rule.Why, Part: rule.Part, Never: kindNames(rule.Never),
		}
		at := slices.IndexFunc(r.Violations, func(f invariant.Finding) bool { return f.Invariant == rule.Invariant })
		if at >= 0 {
			f := &r.Violations[at]
			j.Finding = &checkFinding{int64(f.Execution), f.Step, int64(f.At), reports.Printable(f.Message, "")}
		}
		out.Rules = append(out.Rules, j)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}
