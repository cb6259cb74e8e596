package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"handoff/chaos/invariant"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/shard"
	"handoff/chaos/verdict"
	"handoff/reports"
	"handoff/sim/explore"
)

// mutantShares is the kind of shares that divide the mutants.
const mutantShares = "mutants"

// fate is the result of one mutant in mutants.json. It depends only on the commit.
type fate struct {
	Mutant   string `json:"mutant"`
	Source   string `json:"source"`
	Expected int    `json:"expected"`
	// Result is killed, MISSED or stopped. For a scenario that does not have to find the mutant it may also
	// be found (by a rule other than the expected one) or survived.
	Result string `json:"result"`
	// Scenario, Profile, Seed and Rule describe the finding; empty without one.
	Scenario  string `json:"scenario,omitempty"`
	Profile   string `json:"profile,omitempty"`
	Seed      uint64 `json:"seed,omitempty"`
	Rule      string `json:"rule,omitempty"`
	Reproduce string `json:"reproduce,omitempty"`
	// Runs is the number of runs until the kill, or of all runs if the mutant survived. GaveUp counts the
	// runs that could not be judged.
	Runs   int `json:"runs"`
	GaveUp int `json:"gave_up"`

	wall time.Duration
}

// The possible results of a mutant.
const (
	fateKilled   = "killed"
	fateMissed   = "MISSED"
	fateFound    = "found"
	fateSurvived = "survived"
	fateStopped  = "stopped"
)

// fatesOf returns the results of mutants. If only one scenario was requested, home is its name, and mutants
// of other scenarios may survive it.
func fatesOf(kills []*explore.Kill, home string) []fate {
	var list []fate
	for _, k := range kills {
		f := fate{Mutant: k.Mutant.Name, Source: k.Mutant.Source, Expected: k.Mutant.Expected, Runs: k.Runs, GaveUp: k.GaveUp, wall: k.Wall}
		if v := k.Violation(); v != nil {
			f.Scenario, f.Profile, f.Seed, f.Rule = k.Target.Scenario.Name, string(k.Target.Profile), k.Seed, v.Rule()
			f.Reproduce = k.Target.Reproduce(k.Seed, k.Mutant)
		}
		switch {
		case k.Stopped:
			f.Result = fateStopped
		case k.Killed():
			f.Result = fateKilled
		case home == "" || k.Mutant.Scenario == home:
			f.Result = fateMissed
		case f.Rule != "":
			f.Result = fateFound
		default:
			f.Result = fateSurvived
		}
		list = append(list, f)
	}
	return list
}

// fewMutants is the maximum number of mutants for which each mutant gets a row by default.
const fewMutants = 12

// printFates prints the results and sets the exit code. Many mutants are summarized by invariant, with rows
// only for notable ones; with every, all have a row.
func (a *app) printFates(list []fate, every bool) {
	shown := list
	if every = every || len(list) <= fewMutants; !every {
		a.printByInvariant(list)
		shown = notableFates(list)
	}
	a.printFateRows(shown)
	count := make(map[string]int)
	runs, work := 0, time.Duration(0)
	for _, f := range list {
		count[f.Result]++
		runs += f.Runs
		work += f.wall
	}
	fmt.Fprintf(a.out, "%d of %d mutants killed by the invariant that is named for them\n", count[fateKilled], len(list))
	if hidden := len(list) - len(shown); hidden > 0 {
		if count[fateSurvived] > 0 {
			fmt.Fprintf(a.out, "%d survived that other scenarios have to find\n", hidden)
		}
		fmt.Fprintln(a.out, "--all shows every mutant")
	}
	if count[fateMissed] > 0 {
		a.code = verdict.ExitFail
	} else if count[fateStopped] > 0 {
		a.code = verdict.ExitInconclusive
	}
	other := false
	for _, f := range list {
		if f.Rule != "" && f.Result != fateKilled {
			if !other {
				fmt.Fprintln(a.out, "Found, but by another rule than the one that is named for them:")
				other = true
			}
			fmt.Fprintf(a.out, "to see %s: %s\n", f.Mutant, f.Reproduce)
		}
		if f.GaveUp > 0 {
			fmt.Fprintf(a.out, "%s: %d runs could not be judged\n", f.Mutant, f.GaveUp)
		}
	}
	fmt.Fprintf(a.out, "%d runs, %s of work\n", runs, humanDuration(work))
}

// notableFates returns the results that need a reader's attention. For the whole library these are the
// mutants that their own invariant did not find. For a single scenario, where most mutants belong to others,
// these are all findings and the scenario's own mutants.
func notableFates(list []fate) (shown []fate) {
	single := slices.ContainsFunc(list, func(f fate) bool { return f.Result == fateSurvived || f.Result == fateFound })
	for _, f := range list {
		if f.Result == fateSurvived || f.Result == fateKilled && !single {
			continue
		}
		shown = append(shown, f)
	}
	return shown
}

// printByInvariant prints a line for each invariant with mutants: how many there are, how many it found, and
// the median of the seeds.
func (a *app) printByInvariant(list []fate) {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "INVARIANT\tMUTANTS\tKILLED BY IT\tMEDIAN SEED")
	for _, i := range invariant.All() {
		mutants := 0
		var seeds []uint64
		for _, f := range list {
			if f.Expected != i.Number {
				continue
			}
			if mutants++; f.Result == fateKilled {
				seeds = append(seeds, f.Seed)
			}
		}
		median := "-"
		if slices.Sort(seeds); len(seeds) > 0 {
			median = fmt.Sprint(seeds[len(seeds)/2])
		}
		if mutants > 0 {
			fmt.Fprintf(w, "%d %s\t%d\t%d\t%s\n", i.Number, i.Name, mutants, len(seeds), median)
		}
	}
	_ = w.Flush()
	fmt.Fprintln(a.out)
}

// printFateRows prints a row for each result.
func (a *app) printFateRows(list []fate) {
	if len(list) == 0 {
		return
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MUTANT\tSOURCE\tRUNS\tSECONDS\tSCENARIO\tSEED\tINVARIANT\tRESULT")
	for _, f := range list {
		where, seed, by := "-", "-", fmt.Sprintf("none, should be %d", f.Expected)
		if f.Rule != "" {
			where, seed, by = fmt.Sprintf("%s (%s)", f.Scenario, f.Profile), fmt.Sprint(f.Seed), strings.TrimPrefix(f.Rule, "invariant ")
			if f.Result != fateKilled {
				by += fmt.Sprintf(", should be %d", f.Expected)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%.1f\t%s\t%s\t%s\t%s\n", f.Mutant, f.Source, f.Runs, f.wall.Seconds(), where, seed, by, f.Result)
	}
	_ = w.Flush()
	a.printColouredTable(b.String())
}

// fateItem is a line of a share: a mutant's index in the list of all mutants, and its result.
type fateItem struct {
	At   int  `json:"at"`
	Fate fate `json:"fate"`
}

// writeFates writes mutants.json and, for a share, the share's file. A mutant without a result was not
// reached, because another one hung.
func writeFates(h hunt, list []fate, header shard.Header, all []*mutant.Mutant) error {
	if h.out == "" {
		return nil
	}
	if err := writeFatesJSON(h.out, list); err != nil || h.share.Whole() {
		return err
	}
	header.Kind = mutantShares
	var items []any
	var walls []float64
	for at, m := range all {
		if !h.share.Has(at) {
			continue
		}
		f := fate{Mutant: m.Name, Result: fateStopped}
		if i := slices.IndexFunc(list, func(f fate) bool { return f.Mutant == m.Name }); i >= 0 {
			f = list[i]
		}
		items, walls = append(items, fateItem{at, f}), append(walls, f.wall.Seconds())
	}
	return reports.WriteFile(filepath.Join(h.out, shard.FileName), func(w io.Writer) error { return shard.Write(w, header, items, walls) })
}

func writeFatesJSON(out string, list []fate) error {
	return reports.WriteFile(filepath.Join(out, "mutants.json"), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(append([]fate{}, list...))
	})
}

func (a *app) mergeMutants(set shard.Set, f mergeFlags) error {
	var items []fateItem
	for _, file := range set.Files {
		first := len(items)
		var walls []float64
		err := shard.Each(file, &walls, func(item fateItem) error {
			m := &item.Fate
			if !file.Header.Share.Has(item.At) {
				return fmt.Errorf("mutant %d is not in share %s", item.At, file.Header.Share)
			}
			for _, text := range []string{m.Mutant, m.Source, m.Result, m.Scenario, m.Profile, m.Rule, m.Reproduce} {
				if text != reports.Printable(text, "") {
					return fmt.Errorf("mutant %d has letters that can't be shown", item.At)
				}
			}
			items = append(items, item)
			return nil
		})
		if err != nil {
			return usageError("%v", err)
		}
		for i, wall := range walls[:min(len(walls), len(items)-first)] {
			items[first+i].Fate.wall = time.Duration(wall * float64(time.Second))
		}
	}
	slices.SortFunc(items, func(x, y fateItem) int { return cmp.Compare(x.At, y.At) })
	list := make([]fate, len(items))
	for i := range items {
		list[i] = items[i].Fate
	}
	a.printFates(list, f.all)
	if missing := set.Absent(); missing != "" {
		fmt.Fprintf(a.out, "Not everything was merged: without share %s this proves less than was asked for.\n", missing)
		if a.code == verdict.ExitPass {
			a.code = verdict.ExitInconclusive
		}
	}
	if err := writeFatesJSON(f.out, list); err != nil {
		return harnessError("the shares are merged, but writing mutants.json failed: %v", err)
	}
	fmt.Fprintf(a.out, "mutants: %s\n", filepath.Join(f.out, "mutants.json"))
	return nil
}
