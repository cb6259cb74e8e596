//go:build !simulator

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"handoff/chaos/verdict"
	"handoff/sim/explore"
)

// agreeSeeds is the number of simulated runs that are compared with one live run. It is large enough to reach
// rare situations. If it doesn't, manySeeds are tried.
const (
	agreeSeeds = 50
	manySeeds  = 400
)

// compareWorlds runs the same scenarios in the simulated world and compares the results.
func (a *app) compareWorlds(ctx context.Context, targets []explore.Target, live *verdict.Sweep, scale float64) error {
	out, err := explore.Sweep(ctx, targets, explore.Options{First: 1, Seeds: agreeSeeds})
	if err != nil {
		return err
	}
	for i := range targets {
		if out.Sweep.Scenarios[i].Verdict == verdict.Inconclusive {
			again, err := explore.Sweep(ctx, targets[i:i+1], explore.Options{First: 1, Seeds: manySeeds})
			if err != nil {
				return err
			}
			out.Sweep.Scenarios[i] = again.Sweep.Scenarios[0]
		}
		live.Agreement = append(live.Agreement, verdict.Agree(out.Sweep.Scenarios[i], live.Scenarios[i], scale))
	}
	return nil
}

// printAgreement prints the table, and the number of agreeing results.
func (a *app) printAgreement(rows []verdict.Agreement) {
	if len(rows) == 0 {
		return
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCENARIO\tPROFILE\tSIM\tLIVE\tCOMPLETED\tDETECTION, SLOWEST (SIM / LIVE, SCENARIO TIME)\tAGREE")
	differ := 0
	for i := range rows {
		r := &rows[i]
		word := "yes"
		if r.Differs != "" {
			differ++
			word = "NO"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d %% / %d %%\t%s\t%s\n", r.Scenario, r.Profile, r.Sim.Verdict, r.Live.Verdict,
			r.Sim.Completed(), r.Live.Completed(), slowestDetections(r), word)
	}
	_ = w.Flush()
	fmt.Fprint(a.out, b.String())
	fmt.Fprintf(a.out, "the two worlds agree in %d of %s\n", len(rows)-differ, plural(len(rows), "result"))
}

// slowestDetections lists the slowest detections of both worlds.
func slowestDetections(r *verdict.Agreement) string {
	names := slices.Sorted(maps.Keys(r.Sim.Detection))
	for name := range r.Live.Detection {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var all []string
	show := func(m map[string]time.Duration, name string) string {
		if d, has := m[name]; has {
			return d.Round(time.Second).String()
		}
		return "-"
	}
	for _, name := range names {
		all = append(all, fmt.Sprintf("%s %s / %s", name, show(r.Sim.Detection, name), show(r.Live.Detection, name)))
	}
	return strings.Join(all, ", ")
}
