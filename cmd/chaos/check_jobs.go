package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"handoff/chaos/jobhistory"
	"handoff/chaos/promise"
	"handoff/chaos/verdict"
	"handoff/core/config/yamlfile"
	"handoff/reports"
)

// isJobHistory reports whether a file is a public history (docs/history.md), by its first line, and returns a reader
// that still has this line.
func isJobHistory(file io.Reader) (whole io.Reader, is bool) {
	from := bufio.NewReaderSize(file, jobhistory.MaxLine)
	begin, _ := from.Peek(64 << 10)
	line, _, _ := bytes.Cut(bytes.TrimLeft(begin, " \r\n\t"), []byte("\n"))
	return from, jobhistory.IsHeader(line) || jobhistory.IsLine(line)
}

// checkJobs judges a public history by the promises in its header, or in a file.
func (a *app) checkJobs(ctx context.Context, r *jobhistory.Reader, title string, f checkFlags) error {
	h := r.Header()
	text, from := []byte(h.Promises), title+", the header's promises"
	if f.promises != "" {
		var err error
		if text, err = readSmall(f.promises); err != nil {
			return usageError("reading the promises: %v", err)
		}
		from = f.promises
	}
	var p promise.Promises
	if len(text) > 0 {
		var err error
		if p, err = promise.Parse(from, text); err != nil {
			return usageError("%v", err)
		}
	}
	o, err := bookOptions(h)
	if err != nil {
		return usageError("%s: %v", title, err)
	}
	var book *promise.Book
	lines := 0
	var l jobhistory.Line
	for ; ctx.Err() == nil; lines++ {
		if err = r.Next(&l); err != nil {
			break
		}
		if book == nil {
			o.Origin = r.Origin()
			book = promise.New(p, o)
		}
		book.Observe(&l)
	}
	switch {
	case ctx.Err() != nil:
		return harnessError("interrupted: %s was not judged", title)
	case !errors.Is(err, io.EOF):
		return usageError("%s", reports.Printable(err.Error(), "\n"))
	case book == nil:
		return usageError("%s has no line but its header", title)
	}
	report := book.End()
	return a.printJobsJudgement(&report, p != promise.Promises{}, title, h.System, lines, f.json)
}

// bookOptions reads the times of a header.
func bookOptions(h jobhistory.Header) (o promise.Options, err error) {
	for name, field := range map[string]struct {
		text string
		to   *time.Duration
	}{"slack": {h.Slack, &o.Slack}, "starts": {h.Starts, &o.Starts}} {
		if field.text == "" {
			continue
		}
		if *field.to, err = time.ParseDuration(field.text); err != nil || *field.to <= 0 {
			return o, fmt.Errorf("the header's %s is %q, not a duration such as 1s", name, yamlfile.Cut(field.text))
		}
	}
	return o, nil
}

// readSmall reads a file that people write.
func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.LimitReader(file, yamlfile.MaxBytes+1))
}

// printJobsJudgement prints a report and sets the exit code: 1 for a broken rule, 3 where no rule that was promised was judged
// or one is inconclusive.
func (a *app) printJobsJudgement(r *promise.Report, promised bool, title, system string, lines int, file string) error {
	v := jobsVerdict(r)
	a.code = v.ExitCode()
	say := a.out
	if file == standardOutput {
		say = a.err
	}
	if system != "" {
		title = system + ", " + title
	}
	fmt.Fprintf(say, "%s: %s, %s\n\n", reports.Printable(title, ""), plural(r.Jobs, "job"), plural(lines, "line"))
	printPromises(say, r)
	if !promised {
		fmt.Fprintln(say, "\nNo promise was given, so only the rules that hold for any queue were judged. Give promises in the first line or by --promises FILE (docs/history.md).")
	}
	fmt.Fprintf(say, "\n%s\n", say.colourVerdict(v.String()))
	if v == verdict.Inconclusive {
		fmt.Fprintln(say, "no rule could be judged with certainty: the lines above say which evidence is missing or disturbed")
	}
	write := func(w io.Writer) error { return writeJobsCheck(w, r, title, v) }
	switch file {
	case "":
		return nil
	case standardOutput:
		return write(a.out.Writer)
	}
	if err := reports.WriteFile(file, write); err != nil {
		return harnessError("the history is judged, but %v", err)
	}
	return nil
}

func jobsVerdict(r *promise.Report) verdict.Verdict {
	held, inconclusive := 0, 0
	for i := range r.Results {
		switch r.Results[i].Verdict {
		case promise.Broken:
			return verdict.Fail
		case promise.Holds:
			held++
		case promise.Inconclusive:
			inconclusive++
		}
	}
	if held == 0 || inconclusive > 0 {
		return verdict.Inconclusive
	}
	return verdict.Pass
}

// printPromises prints each rule, what broke it, and what was measured.
func printPromises(say *terminal, r *promise.Report) {
	for i := range r.Results {
		one := &r.Results[i]
		word := map[promise.Verdict]string{
			promise.Holds: say.green("holds       "), promise.Broken: say.red("BROKEN      "), promise.Inconclusive: say.yellow("inconclusive"),
			promise.Measured: "measured    ", promise.NotJudged: "not judged  ",
		}[one.Verdict]
		note := ""
		switch {
		case one.Why != "":
			note = ": " + one.Why
		case one.Verdict == promise.Measured:
			note = ": not promised"
			if one.Count > 0 {
				note += "; broken " + countTimes(one.Count) + " if it were"
			}
		case one.Count > 0:
			note = ": " + countTimes(one.Count)
		}
		fmt.Fprintf(say, "  %s  %-3s %s%s\n", word, one.Rule.Name, one.Rule.Title, note)
		if one.Verdict == promise.Broken || one.Verdict == promise.Inconclusive {
			for _, v := range one.Violations[:min(3, len(one.Violations))] {
				fmt.Fprintf(say, "                    %s\n", reports.Printable(v.Text, ""))
			}
		}
	}
	fmt.Fprintln(say)
	for _, f := range r.Figures {
		fmt.Fprintf(say, "  %-34s %s\n", f.Name, f.Value)
	}
}

func countTimes(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// writeJobsCheck writes a report as JSON.
func writeJobsCheck(w io.Writer, r *promise.Report, title string, v verdict.Verdict) error {
	type violation struct {
		Job  string  `json:"job,omitempty"`
		At   float64 `json:"at_s"`
		Text string  `json:"text"`
	}
	type rule struct {
		Name       string          `json:"name"`
		Title      string          `json:"title"`
		Verdict    promise.Verdict `json:"verdict"`
		Why        string          `json:"why,omitempty"`
		Judged     int             `json:"judged"`
		Count      int             `json:"violations"`
		Violations []violation     `json:"first,omitempty"`
	}
	out := struct {
		Of      string            `json:"of"`
		Verdict string            `json:"verdict"`
		Jobs    int               `json:"jobs"`
		Rules   []rule            `json:"rules"`
		Figures map[string]string `json:"figures"`
	}{Of: title, Verdict: v.String(), Jobs: r.Jobs, Figures: map[string]string{}}
	for i := range r.Results {
		one := &r.Results[i]
		to := rule{Name: one.Rule.Name, Title: one.Rule.Title, Verdict: one.Verdict, Why: one.Why, Judged: one.Judged, Count: one.Count}
		for _, x := range one.Violations {
			to.Violations = append(to.Violations, violation{x.Job, x.At.Seconds(), x.Text})
		}
		out.Rules = append(out.Rules, to)
	}
	for _, f := range r.Figures {
		out.Figures[strings.ReplaceAll(f.Name, " ", "_")] = f.Value
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}
