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

	"handoff/chaos/mutant"
	"handoff/chaos/shard"
	"handoff/chaos/verdict"
	"handoff/reports"
	"handoff/sim/explore"
)

// mutantShares is the kind of a share of mutants.
const mutantShares = "mutants"

// fate is the result of one mutant in mutants.json. It depends only on the commit.
type fate struct {
	Mutant   string `json:"mutant"`
	Source   string `json:"source"`
	Expected int    `json:"expected"`
	// Result is killed, MISSED, survived (another scenario must find it) or stopped.
	Result string `json:"result"`
	// Scenario, Profile, Seed and Rule say where it was found and what was broken; empty if nothing
	// found it.
	Scenario  string `json:"scenario,omitempty"`
	Profile   string `json:"profile,omitempty"`
	Seed      uint64 `json:"seed,omitempty"`
	Rule      string `json:"rule,omitempty"`
	Reproduce string `json:"reproduce,omitempty"`
	// Runs is the number of runs until the kill, or of all runs that the mutant survived; GaveUp
	// counts those that could not be judged.
	Runs   int `json:"runs"`
	GaveUp int `json:"gave_up"`

	wall time.Duration
}

// The results of a mutant.
const (
	fateKilled   = "killed"
	fateMissed   = "MISSED"
	fateSurvived = "survived"
	fateStopped  = "stopped"
)

// fates returns the results of mutants. If only one scenario was requested, home is its name, and
// mutants of other scenarios may survive it.
func fates(kills []*explore.Kill, home string) []fate {
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
		default:
			f.Result = fateSurvived
		}
		list = append(list, f)
	}
	return list
}

// fates prints the table and sets the exit code.
func (a *app) fates(list []fate) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MUTANT\tSOURCE\tRUNS\tSECONDS\tSCENARIO\tSEED\tINVARIANT\tRESULT")
	count := make(map[string]int)
	runs, work := 0, time.Duration(0)
	for _, f := range list {
		where, seed, by := "-", "-", fmt.Sprintf("none, should be %d", f.Expected)
		if f.Rule != "" {
			where, seed, by = fmt.Sprintf("%s (%s)", f.Scenario, f.Profile), fmt.Sprint(f.Seed), strings.TrimPrefix(f.Rule, "invariant ")
			if f.Result != fateKilled {
				by += fmt.Sprintf(", should be %d", f.Expected)
			}
		}
		count[f.Result]++
		runs += f.Runs
		work += f.wall
		fmt.Fprintf(w, "%s\t%s\t%d\t%.1f\t%s\t%s\t%s\t%s\n", f.Mutant, f.Source, f.Runs, f.wall.Seconds(), where, seed, by, f.Result)
	}
	_ = w.Flush()
	a.lastColumn(b.String())
	fmt.Fprintf(a.out, "%d of %d mutants killed by the invariant that is named for them\n", count[fateKilled], len(list))
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
	fmt.Fprintf(a.out, "%d runs, %s of work\n", runs, human(work))
}

// shareOfMutants refuses flags that contradict each other.
func shareOfMutants(s shard.Share, out, matrix string) error {
	switch {
	case s.Whole():
		return nil
	case matrix != "":
		return usage("--shard with --matrix: the table is made in one piece; bin/chaos run --mutants N --shard %s divides it", s)
	case out == "":
		return usage("--shard %s: --report is needed, the folder that chaos merge reads", s)
	}
	return nil
}

// writeFates writes mutants.json, and the share beside it.
func writeFates(h hunt, list []fate, header shard.Header, all []*mutant.Mutant) error {
	if h.out == "" {
		return nil
	}
	if err := fatesJSON(h.out, list); err != nil || h.share.Whole() {
		return err
	}
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = f.Name
	}
	header.Kind = mutantShares
	items, walls := []any{fateItem{Order: names}}, make([]float64, len(list))
	for i := range list {
		items = append(items, fateItem{Fate: &list[i]})
		walls[i] = list[i].wall.Seconds()
	}
	return reports.WriteFile(filepath.Join(h.out, shard.FileName), func(w io.Writer) error { return shard.Write(w, header, items, walls) })
}

// fateItem is a line of a share: the names of all mutants in order, or the result of one.
type fateItem struct {
	Order []string `json:"order,omitempty"`
	Fate  *fate    `json:"fate,omitempty"`
}

func fatesJSON(out string, list []fate) error {
	return reports.WriteFile(filepath.Join(out, "mutants.json"), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(append([]fate{}, list...))
	})
}

// mergeMutants merges the shares of mutants.
func (a *app) mergeMutants(set shard.Set, f mergeFlags) error {
	var order []string
	var list []fate
	for _, file := range set.Files {
		first := len(list)
		r, err := shard.Each(file.Path, func(r *shard.Reader, item fateItem) error {
			if item.Fate == nil {
				order = item.Order
				return nil
			}
			if i := slices.Index(order, item.Fate.Mutant); i < 0 || !file.Header.Share.Has(i) {
				return r.Refuse(1, "fate: the mutant %q is not in share %s", reports.Printable(item.Fate.Mutant, ""), file.Header.Share)
			}
			for _, text := range []string{item.Fate.Source, item.Fate.Result, item.Fate.Scenario, item.Fate.Profile, item.Fate.Rule, item.Fate.Reproduce} {
				if text != reports.Printable(text, "") {
					return r.Refuse(1, "fate: %s has letters that can't be shown", item.Fate.Mutant)
				}
			}
			list = append(list, *item.Fate)
			return nil
		})
		if err != nil {
			return usage("%v", err)
		}
		var walls []float64
		if err := r.Aside(&walls); err != nil {
			return usage("%v", err)
		}
		// A share that hung has no results for the rest of its mutants.
		for i, name := range order {
			if file.Header.Share.Has(i) && !slices.ContainsFunc(list[first:], func(f fate) bool { return f.Mutant == name }) {
				list = append(list, fate{Mutant: name, Result: fateStopped})
			}
		}
		for i, wall := range walls[:min(len(walls), len(list)-first)] {
			list[first+i].wall = time.Duration(wall * float64(time.Second))
		}
	}
	slices.SortStableFunc(list, func(x, y fate) int {
		return cmp.Compare(slices.Index(order, x.Mutant), slices.Index(order, y.Mutant))
	})
	a.fates(list)
	if missing := set.Absent(); missing != "" {
		fmt.Fprintf(a.out, "Not everything was merged: without share %s this proves less than was asked for.\n", missing)
		if a.code == verdict.ExitPass {
			a.code = verdict.ExitInconclusive
		}
	}
	if err := fatesJSON(f.out, list); err != nil {
		return broken("the shares are merged, but writing mutants.json failed: %v", err)
	}
	fmt.Fprintf(a.out, "mutants: %s\n", filepath.Join(f.out, "mutants.json"))
	return nil
}
