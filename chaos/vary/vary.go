// Package vary draws variants of a scenario: it changes some of the configuration, the cluster, the actions,
// the workload and the faults, and adds faults. A scenario covers a situation that its author foresaw; most
// defects that no scenario finds occur in other situations.
//
// A varied run is swarm testing (Groce, Zhang, Eide, Chen, Regehr, "Swarm Testing", 2012). A dimension is a
// property that can change, such as the number of workers, or a group of related settings. Each seed changes
// some dimensions and keeps the others. A changed dimension takes its plain form (such as one executor or no
// failures) or is drawn from a wide range with extremes. If every dimension changed a little in every run,
// the dimensions would hide each other's effects.
//
// In one build, a draw depends only on the scenario's digest, the profile and the seed. A new setting, kind
// of fault or dimension changes the draws of all seeds, unless it draws separately (drawSeparately). The
// result is an ordinary scenario, made by editing the file, so that all tools for scenarios work with it.
// Expectations about the original situation (counts, situations to be reached, error texts, alerts) are
// dropped; the list of invariants applies.
package vary

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/invariant"
	"handoff/chaos/scenario"
	"handoff/core/config"
	"handoff/core/config/yamlfile"
)

// MostSteps is the number of simulation steps after which the caller stops a varied run and judges its events
// so far.
const MostSteps = 30_000

// Varied is a variant of a scenario.
type Varied struct {
	// Scenario has the name, file and digest of the original, so they do not distinguish it from the
	// original. It has one profile and runs only in the simulator.
	Scenario *scenario.Scenario
	// Changes describes each change in one line.
	Changes []string
	// Refused counts the drawn edits that were left out because they conflict with the others.
	Refused int
}

// Of draws the variant for a seed. It fails only if the original scenario can't be edited as a file.
func Of(s *scenario.Scenario, p config.Profile, seed uint64) (*Varied, error) {
	doc, err := scenario.Edit(s)
	if err != nil {
		return nil, fmt.Errorf("varying %s: %w", s.Name, err)
	}
	d := newDraw(s, p, seed)
	d.drawDimensions()
	d.drawSeparately("exit codes", exitCodes)
	restrictScenario(doc, s, p)
	v, err := d.applyEdits(doc)
	if err != nil {
		return nil, fmt.Errorf("varying %s: %w", s.Name, err)
	}
	v.Scenario.Name, v.Scenario.File, v.Scenario.Digest = s.Name, s.File, s.Digest
	return v, nil
}

// restrictScenario removes the expectations that were written for the original, and restricts the scenario to
// one profile and the simulator.
func restrictScenario(doc *scenario.Document, s *scenario.Scenario, p config.Profile) {
	e := s.Expect(p)
	// If the scenario intends an action that no worker can run, its variant must say so too.
	meant := slices.ContainsFunc(s.Profiles, func(p config.Profile) bool {
		return slices.Contains(s.Expect(p).Sometimes, "no_workers_failed")
	})
	doc.Take("expect")
	doc.Take("regression")
	doc.Take("settle")
	doc.Put(string(p), "profile")
	doc.Put("["+string(scenario.Sim)+"]", "worlds")
	if e.Invariants != nil {
		doc.Put(flowList(e.Invariants), "expect", "invariants")
	}
	if meant {
		doc.Put("[no_workers_failed]", "expect", "sometimes")
	}
}

// draw is the state of drawing one variant.
type draw struct {
	*fault.Dice
	s       *scenario.Scenario
	profile config.Profile
	// label identifies the draw: the scenario's digest, the profile and the seed.
	label string
	// config is the configuration drawn so far.
	config config.Config
	// workers are the workers drawn so far.
	workers []scenario.Worker
	// longest maps each action to the longest duration of its runs.
	longest map[string]time.Duration
	edits   []edit
}

// edit is one change of the file. texts describe it, one line for each changed thing; an edit without texts
// is not reported.
type edit struct {
	texts []string
	make  func(doc *scenario.Document)
}

func newDraw(s *scenario.Scenario, p config.Profile, seed uint64) *draw {
	label := fmt.Sprintf("%s %s %d", s.Digest, p, seed)
	d := &draw{
		Dice: &fault.Dice{Choose: newChooser(label), Cluster: s.Cluster.Names()}, s: s, profile: p, label: label,
		config: s.Config(p), workers: slices.Clone(s.Cluster.Workers), longest: make(map[string]time.Duration),
	}
	for _, a := range s.Actions {
		d.longest[a.Ref] = a.TakesMax
	}
	// A drawn fault must not name a worker that starts late: the fault may strike before that.
	d.Cluster.Workers = slices.DeleteFunc(d.Cluster.Workers, func(name string) bool {
		return slices.ContainsFunc(s.Cluster.Workers, func(w scenario.Worker) bool { return w.Name == name && w.Starts > 0 })
	})
	return d
}

// newChooser returns the random numbers of a label: a function that draws below its argument.
func newChooser(label string) func(n int) int {
	sum := sha256.Sum256([]byte(label))
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(sum[:]), binary.LittleEndian.Uint64(sum[8:]))).IntN
}

// drawSeparately calls a dimension with separate random numbers, so that it shifts no other draws.
func (d *draw) drawSeparately(label string, dimension func(*draw)) {
	choose := d.Choose
	d.Choose = newChooser(d.label + " " + label)
	dimension(d)
	d.Choose = choose
}

// dimension is a property that a seed keeps, changes to a plain form (leaveOut) or draws from a wide range
// (exaggerate). A nil leaveOut means that it has no plain form.
type dimension struct {
	leaveOut, exaggerate func(d *draw)
}

// drawDimensions draws every dimension. Later dimensions depend on the draws of earlier ones.
func (d *draw) drawDimensions() {
	dimensions := slices.Concat(configDimensions(), clusterDimensions(), actionDimensions(), workloadDimensions(), faultDimensions())
	// The share of changed dimensions is also drawn, from one to three fifths: few changes show their effects
	// more clearly, and many create unforeseen situations. At least one changes.
	changed := d.Number(1, 3)
	sure := d.Choose(len(dimensions))
	for i, dim := range dimensions {
		if d.Choose(5) >= changed && i != sure {
			continue
		}
		if dim.leaveOut != nil && d.Choose(3) == 0 {
			dim.leaveOut(d)
			continue
		}
		dim.exaggerate(d)
	}
	d.writeConfig()
	d.extendSettle()
}

// oneIn returns true in one of n draws.
func (d *draw) oneIn(n int) bool { return d.Choose(n) == 0 }

// addEdit adds an edit with its description.
func (d *draw) addEdit(make func(doc *scenario.Document), text string, args ...any) {
	d.edits = append(d.edits, edit{[]string{fmt.Sprintf(text, args...)}, make})
}

// applyEdits applies all edits at once. If the result is refused, it applies them one by one and leaves out
// each that is refused after those before it.
func (d *draw) applyEdits(doc *scenario.Document) (*Varied, error) {
	v := &Varied{}
	whole := doc.Clone()
	for _, e := range d.edits {
		e.make(whole)
	}
	s, err := whole.Read(d.s.File)
	if err == nil {
		v.Scenario = s
		for _, e := range d.edits {
			v.Changes = append(v.Changes, e.texts...)
		}
		return v, nil
	}
	if v.Scenario, err = doc.Read(d.s.File); err != nil {
		return nil, err
	}
	for _, e := range d.edits {
		next := doc.Clone()
		e.make(next)
		if s, err := next.Read(d.s.File); err == nil {
			doc, v.Scenario = next, s
			v.Changes = append(v.Changes, e.texts...)
			continue
		}
		v.Refused++
	}
	return v, nil
}

// longestDuration returns the longest duration that may be drawn: ten times the longest deadline. It is
// shorter if the run would take too many steps, but at least a minute.
func (d *draw) longestDuration() time.Duration {
	e := d.config.Executor
	deadline := max(e.ScheduledTimeout, e.UnschedulableGrace, d.config.Worker.Lease(), d.config.MessageQueue.RabbitMQ.WorkerQueueTTL())
	beats := time.Duration(beatsOfAll / max(1, len(d.workers)))
	passes := time.Duration(passesOfAll / d.s.Cluster.Executors)
	return max(time.Minute, min(10*deadline, beats*d.config.Worker.HeartbeatInterval, passes*e.ReconcileInterval))
}

// Within longestDuration, all workers together send at most beatsOfAll heartbeats, and all executors together
// make at most passesOfAll passes of their reconcilers. A heartbeat takes about ten steps, a pass about
// fifteen.
const (
	beatsOfAll  = 400
	passesOfAll = 280
)

// extendSettle gives the run enough time to do all of its work sequentially: an overloaded worker is late,
// not stuck.
func (d *draw) extendSettle() {
	var work, longest time.Duration
	retries := 0
	for i := range d.s.Workload {
		load := &d.s.Workload[i]
		work += time.Duration(load.Count) * (d.longest[load.Action] + time.Minute)
		longest = max(longest, d.longest[load.Action])
		retries = max(retries, load.Limits.MaxRetries)
	}
	for _, a := range d.s.Actions {
		retries = max(retries, a.MaxRetries)
	}
	retries = max(retries, mostRetries)
	within := time.Duration(d.s.Generations())*invariant.Settle(d.config, longest, retries) + time.Duration(mostMore*(retries+1))*work
	within = min(within, 29*24*time.Hour).Truncate(time.Second)
	d.edits = append(d.edits, edit{make: func(doc *scenario.Document) { doc.Put(yamlfile.Short(within), "settle", "within") }})
}

// flowList formats numbers as a YAML list.
func flowList(numbers []int) string {
	text := "["
	for i, n := range numbers {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprint(n)
	}
	return text + "]"
}
