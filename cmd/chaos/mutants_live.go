//go:build !simulator

package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"handoff/chaos/live"
	"handoff/chaos/live/capability"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/scenarios"
)

// liveKill is the result of one mutant in the live world.
type liveKill struct {
	mutant *mutant.Mutant
	target live.Target
	// lacks explains why the mutant was not run.
	lacks string
	runs  int
	found *verdict.Violation
}

func (l *liveKill) isKilled() bool { return l.found != nil && l.found.Invariant == l.mutant.Expected }

// liveMutants runs the own scenario of every mutant that can be planted into a daemon, and checks whether the
// expected invariant finds the mutant there too.
func (a *app) liveMutants(ctx context.Context, only string, seeds, parallel int) error {
	if err := mutatedDaemons(); err != nil {
		return err
	}
	planted, err := mutantsNamed(only)
	if err != nil {
		return err
	}
	bin, err := a.daemonsOnServers(ctx)
	if err != nil {
		return err
	}
	kills := make([]*liveKill, len(planted))
	for i, f := range planted {
		kills[i] = &liveKill{mutant: f, lacks: f.Lacks()}
		if kills[i].lacks == "" {
			kills[i].chooseTarget()
		}
	}
	for seed := uint64(1); seed <= uint64(seeds) && ctx.Err() == nil; seed++ {
		plan := live.Plan{First: seed, Seeds: 1, Scale: defaultScale, Parallel: parallel, Bin: bin}
		byMutant := make(map[string]*liveKill)
		for _, k := range kills {
			if k.lacks == "" && !k.isKilled() {
				plan.Targets = append(plan.Targets, k.target)
				byMutant[k.mutant.Name] = k
			}
		}
		if len(plan.Targets) == 0 {
			break
		}
		plan.Done = func(t live.Target, r *live.Result) { a.noteLiveRun(byMutant[t.Mutant], r) }
		if _, err := live.Execute(ctx, plan); err != nil {
			return harnessError("the environment failed: %v", err)
		}
	}
	a.printLiveKills(kills)
	return nil
}

// chooseTarget chooses the scenario and the profile in which the mutant is known to be found.
func (l *liveKill) chooseTarget() {
	s, err := scenarios.Find(l.mutant.Scenario)
	if err != nil {
		l.lacks = err.Error()
		return
	}
	l.target = live.Target{Scenario: s, Profile: s.Profiles[0], Mutant: l.mutant.Name}
	l.lacks = capability.Unable(s, l.target.Profile, defaultScale)
}

// noteLiveRun records a run's finding: the finding of the mutant's expected invariant, or else the first one.
func (a *app) noteLiveRun(k *liveKill, r *live.Result) {
	k.runs++
	for _, v := range r.Failures() {
		if k.found == nil || !k.isKilled() && v.Invariant == k.mutant.Expected {
			k.found = &v
		}
	}
	word := "survived"
	if k.found != nil {
		word = "found by " + k.found.Rule() + ": " + k.found.Message
	}
	if r.GaveUp != "" {
		word += " (" + r.GaveUp + ")"
	}
	fmt.Fprintf(a.err, "%s, seed %d: %s\n", k.mutant.Name, r.Seed, word)
}

// printLiveKills prints the table.
func (a *app) printLiveKills(kills []*liveKill) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MUTANT\tSOURCE\tRUNS\tSCENARIO\tINVARIANT\tRESULT")
	killed, run := 0, 0
	for _, k := range kills {
		if k.lacks != "" {
			continue
		}
		run++
		by, result := fmt.Sprintf("none, should be %d", k.mutant.Expected), "survived"
		if k.found != nil {
			by, result = strings.TrimPrefix(k.found.Rule(), "invariant "), "found"
		}
		if k.isKilled() {
			killed++
			result = "killed"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\n", k.mutant.Name, k.mutant.Source, k.runs, k.mutant.Scenario, by, result)
	}
	_ = w.Flush()
	a.printColouredTable(b.String())
	for _, k := range kills {
		if k.lacks != "" {
			fmt.Fprintf(a.out, "%s%s: %s\n", notExpressible, k.mutant.Name, k.lacks)
		}
	}
	fmt.Fprintf(a.out, "%d of %d mutants killed in the live world by the invariant that is named for them; %d are not expressible there\n",
		killed, run, len(kills)-run)
	if killed < run {
		a.code = verdict.ExitInconclusive
	}
}
