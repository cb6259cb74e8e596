package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"handoff/chaos/scenario"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/verdict"
	"handoff/core/config"
	"handoff/reports"
	"handoff/scenarios"
	"handoff/sim"
	"handoff/sim/explore"
)

// ownFile is the file name in messages about a text in the editor that is not a library scenario.
const ownFile = "my-scenario.yaml"

// choices holds the scenarios and mutants that can be selected on the page.
type choices struct {
	Scenarios []string      `json:"scenarios"`
	Mutants   []namedMutant `json:"mutants"`
}

type namedMutant struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

func offeredChoices() choices {
	c := choices{Scenarios: scenarios.Names()}
	for _, m := range mutant.All() {
		c.Mutants = append(c.Mutants, namedMutant{m.Name, m.About})
	}
	return c
}

// view describes the drawing of a scenario. Times are in milliseconds.
type view struct {
	Name     string           `json:"name"`
	Profiles []config.Profile `json:"profiles"`
	// End is the end of the drawing; a run may last longer.
	End    int64        `json:"end"`
	Faults []faultStrip `json:"faults"`
}

// faultStrip is a fault on the timeline.
type faultStrip struct {
	Name string `json:"name"`
	// From and To bound the randomly drawn start; they are equal for a fixed start. A fault that waits for an
	// event has After instead.
	From  int64  `json:"from"`
	To    int64  `json:"to"`
	After string `json:"after"`
	// Lasts is the longest duration; 0 for a fault that ends by itself and can't be made longer.
	Lasts int64 `json:"lasts"`
}

// parseText reads the text of the editor. An unchanged scenario of the library keeps its name in commands.
func parseText(text string) (*scenario.Scenario, error) {
	s, err := scenario.Parse(ownFile, []byte(text))
	if err != nil {
		return nil, err
	}
	if known, err := scenarios.Find(s.Name); err == nil && known.Digest == s.Digest {
		return known, nil
	}
	return s, nil
}

func newView(text string) (*view, error) {
	s, err := parseText(text)
	if err != nil {
		return nil, err
	}
	v := &view{Name: s.Name, Profiles: s.Profiles, Faults: []faultStrip{}}
	end := s.LastSubmission()
	for i := range s.Faults {
		f := &s.Faults[i]
		lasts := cmp.Or(f.For, f.RestartAfter)
		end = max(end, f.When.Max+lasts)
		mark := faultStrip{Name: f.Name, From: f.When.Min.Milliseconds(), To: f.When.Max.Milliseconds(), Lasts: lasts.Milliseconds()}
		if f.When.After != "" {
			mark.After = f.When.After
			if f.When.Nth > 1 {
				mark.After = fmt.Sprintf("%s, number %d", mark.After, f.When.Nth)
			}
			if f.When.Of != "" {
				mark.After += " of " + f.When.Of
			}
		}
		v.Faults = append(v.Faults, mark)
	}
	v.End = (end + end/5 + 10*time.Second).Milliseconds()
	return v, nil
}

// moveFault changes the times of a fault; -1 keeps a time.
func moveFault(text string, i int, at, lasts int64) (string, error) {
	span := func(ms int64) time.Duration {
		if ms < 0 {
			return scenario.Unmoved
		}
		return time.Duration(ms) * time.Millisecond
	}
	out, err := scenario.MoveFault(ownFile, []byte(text), i, span(at), span(lasts))
	return string(out), err
}

// outcome is the result of a finished run.
type outcome struct {
	Verdict string   `json:"verdict"`
	Why     []string `json:"why"`
	Run     string   `json:"run"`
	Hash    string   `json:"hash"`
	Steps   uint64   `json:"steps"`
	Virtual string   `json:"virtual"`
	// Took is the duration of the run itself, in milliseconds.
	Took int64 `json:"took"`
	// Page is the report, one HTML file.
	Page string `json:"page"`
}

func runScenario(text, profile string, seed uint64, planted string) (*outcome, error) {
	s, err := parseText(text)
	if err != nil {
		return nil, err
	}
	var m *mutant.Mutant
	if planted != "" {
		if m = mutant.Find(planted); m == nil {
			return nil, fmt.Errorf("no mutant is called %q", planted)
		}
	}
	for _, t := range explore.Targets([]*scenario.Scenario{s}) {
		if string(t.Profile) == profile {
			return runTarget(t, seed, m)
		}
	}
	return nil, fmt.Errorf("%s does not run under the profile %q; it says profile: %v", s.Name, profile, s.Profiles)
}

func runTarget(t explore.Target, seed uint64, m *mutant.Mutant) (*outcome, error) {
	begin := time.Now()
	rec, _ := explore.Record(context.Background(), t, seed, m)
	o := &outcome{Run: reports.RunLabel(rec), Hash: hashText(rec.Hash), Steps: rec.Steps, Took: time.Since(begin).Milliseconds()}
	sweep := &verdict.Sweep{Scenarios: []*verdict.Scenario{explore.Judge(t, &rec.Run, m)}}
	explore.Tell(sweep.Scenarios[0], rec)
	sweep.Judge()
	o.Verdict, o.Why, o.Virtual = sweep.Verdict.String(), sweep.Scenarios[0].Why, reports.FormatTime(rec.Virtual)
	var page strings.Builder
	if err := reports.WriteHTML(&page, sweep, []*verdict.Record{rec}); err != nil {
		return nil, err
	}
	o.Page = page.String()
	return o, nil
}

func hashText(hash uint64) string { return fmt.Sprintf("%016x", hash) }

// hashOf runs a scenario of the library, written as NAME/PROFILE/SEED, and returns the hash of its history.
func hashOf(run string) (string, error) {
	var seed uint64
	parts := strings.Split(run, "/")
	if len(parts) != 3 {
		return "", fmt.Errorf("%q is not NAME/PROFILE/SEED", run)
	}
	if _, err := fmt.Sscan(parts[2], &seed); err != nil {
		return "", fmt.Errorf("%q is not NAME/PROFILE/SEED: %w", run, err)
	}
	s, err := scenarios.Find(parts[0])
	if err != nil {
		return "", err
	}
	return hashText(sim.Run(s, config.Profile(parts[1]), sim.Options{Seed: seed}).Hash), nil
}

// textOf returns the file of a scenario of the library.
func textOf(name string) (string, error) {
	s, err := scenarios.Find(name)
	if err != nil {
		return "", err
	}
	return string(s.Text()), nil
}
