package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/reports"
	"handoff/sim/explore"
)

// printSweepResult prints the result of a sweep: the failures and how to reproduce them, the inconclusive
// results with their reasons, and a line for each scenario.
func (a *app) printSweepResult(out *explore.Outcome, targets []explore.Target, f *mutant.Mutant, folder string) {
	index := filepath.Join(folder, "index.html")
	for i, sc := range out.Sweep.Scenarios {
		switch sc.Verdict {
		case verdict.Fail:
			a.printFailure(sc, index)
		case verdict.Inconclusive:
			// In an interrupted sweep every result is inconclusive, which the table shows once.
			if !out.Sweep.Interrupted || len(sc.Why) > 1 {
				a.printInconclusive(sc, targets[i].Argument())
			}
		case verdict.Pass:
		}
	}
	a.printTable(out.Sweep)
	runs, virtual := 0, time.Duration(0)
	for _, sc := range out.Sweep.Scenarios {
		runs += sc.Seeds
		virtual += sc.Virtual
	}
	planted := ""
	if f != nil {
		planted = fmt.Sprintf(", with the mutant %s planted", f.Name)
	}
	if out.Sweep.Interrupted {
		why := "Interrupted"
		if len(out.Sweep.Notes) > 0 {
			why = strings.ToUpper(out.Sweep.Notes[0][:1]) + out.Sweep.Notes[0][1:]
		}
		fmt.Fprintln(a.out, a.out.yellow(why+": this is what was done until then, and it proves less than was asked for."))
	}
	fmt.Fprintf(a.out, "%s: %s, %s of virtual time in %s%s\n", a.out.colourVerdict(out.Sweep.Verdict.String()), plural(runs, "run"), humanDuration(virtual), humanDuration(out.Wall), planted)
	if text := reports.Sure(out.Sweep); text != "" {
		fmt.Fprintln(a.out, text)
	}
	fmt.Fprintf(a.out, "report: %s\n", index)
}

// printFailure prints a failure: the broken rule, where it broke, and how to reproduce it.
func (a *app) printFailure(sc *verdict.Scenario, index string) {
	v := &sc.Violations[0]
	fmt.Fprintf(a.out, "%s %s (%s)\n", a.out.red("FAIL"), a.out.bold(sc.Name), profileOf(sc))
	what, rule := "broken   ", v.Statement
	if v.Invariant != 0 {
		what, rule = "invariant", fmt.Sprintf("%d %s: %s", v.Invariant, v.Name, v.Statement)
	}
	about := "none in particular"
	if v.Execution != 0 {
		about = fmt.Sprint(v.Execution)
	}
	seeds := ""
	if sc.Seeds > 1 {
		seeds = fmt.Sprintf(" (%d of %d seeds fail)", sc.Failing, sc.Seeds)
	}
	fmt.Fprintf(a.out, "  %s  %s\n", what, rule)
	fmt.Fprintf(a.out, "  execution  %s\n", about)
	fmt.Fprintf(a.out, "  seed       %d%s\n", v.Seed, seeds)
	fmt.Fprintf(a.out, "  reproduce  %s\n", a.out.bold(v.Reproduce))
	fmt.Fprintf(a.out, "  report     %s\n", index)
	fmt.Fprintf(a.out, "  what       %s\n", indentRest(v.Message, "             "))
	if len(v.Varied) > 0 {
		fmt.Fprintf(a.out, "  varied     %s\n", indentRest(strings.Join(v.Varied, "\n"), "             "))
	}
	for _, why := range sc.Why {
		if !strings.HasPrefix(why, v.Rule()+":") {
			fmt.Fprintf(a.out, "  also       %s\n", indentRest(why, "             "))
		}
	}
	fmt.Fprintln(a.out)
}

// printInconclusive prints why nothing was proven.
func (a *app) printInconclusive(sc *verdict.Scenario, argument string) {
	fmt.Fprintf(a.out, "%s %s (%s)\n", a.out.yellow("INCONCLUSIVE"), a.out.bold(sc.Name), profileOf(sc))
	for _, why := range sc.Why {
		fmt.Fprintf(a.out, "  %s\n", indentRest(why, "    "))
	}
	if sc.Seeds > 0 && sc.World != string(scenario.Live) { // a live run can't be replayed
		flag := ""
		if sc.Strategy == verdict.Varied {
			flag = " --varied"
		}
		if sc.Mutant != "" {
			flag += " --mutant " + sc.Mutant
		}
		fmt.Fprintf(a.out, "  to look at one of its runs: bin/chaos replay %s --profile %s --seed %d%s\n", argument, sc.Profile, sc.FirstSeed, flag)
	}
	fmt.Fprintln(a.out)
}

// printTable prints a line for every scenario and profile.
func (a *app) printTable(s *verdict.Sweep) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCENARIO\tPROFILE\tSEEDS\tFAILING\tEXECUTIONS\tSTEPS\tHISTORY HASH\tVERDICT")
	plain := slices.ContainsFunc(s.Scenarios, func(sc *verdict.Scenario) bool { return sc.Strategy != verdict.Varied })
	for _, sc := range s.Scenarios {
		if sc.Strategy == verdict.Varied && plain && sc.Verdict == verdict.Pass {
			continue // one line covers all varied results
		}
		var executions int64
		for _, n := range sc.Chains {
			executions += n
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%016x\t%s\n",
			sc.Name, profileOf(sc), sc.Seeds, sc.Failing, executions, sc.Steps, sc.Hash, sc.Verdict)
	}
	_ = w.Flush()
	a.printColouredTable(b.String())
	a.printVariedLine(s)
}

// printColouredTable prints a table whose last column is a coloured verdict. It must be last, because
// invisible characters would shift the next column.
func (a *app) printColouredTable(table string) {
	heading := true
	for line := range strings.Lines(table) {
		line = strings.TrimRight(line, "\n")
		if at := strings.LastIndexByte(line, ' '); at >= 0 && !heading {
			line = line[:at+1] + a.out.colourVerdict(line[at+1:])
		}
		heading = false
		fmt.Fprintln(a.out, line)
	}
}

// indentRest indents all lines except the first.
func indentRest(text, under string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+under)
}
