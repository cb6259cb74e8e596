package live

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"handoff/chaos/run"
	"handoff/chaos/scenario"
	"handoff/chaos/verdict"
	"handoff/core/config"
)

// Target is one scenario under one profile.
type Target struct {
	Scenario *scenario.Scenario
	Profile  config.Profile
	// Mutant is planted into the daemons; empty for none.
	Mutant string
}

// String returns the target's name for messages.
func (t Target) String() string { return fmt.Sprintf("%s (%s)", t.Scenario.Name, t.Profile) }

// Plan describes the runs of a sweep.
type Plan struct {
	Targets []Target
	// First is the first seed, Seeds the number of seeds for each target.
	First uint64
	Seeds int
	Scale float64
	// More is the maximum number of runs added to a target, with the following seeds, as long as one of its
	// faults has made no difference: a single run in which the fault began at a quiet moment proves nothing.
	More int
	// Parallel is the number of parallel runs, each on its own servers.
	Parallel int
	// Bin is the folder with the daemons' binaries. Its subfolder Mutated holds the daemons for mutants.
	Bin string
	// Compose is the compose file for runs in containers; empty for processes of this machine.
	Compose string
	// Log receives a line for each step; may be nil.
	Log io.Writer
	// Done is called after every run, by one goroutine at a time.
	Done func(Target, *Result)
}

// Outcome is the result of executing a plan.
type Outcome struct {
	// Scenarios holds the results in the order of the targets.
	Scenarios []*verdict.Scenario
	// Records holds the record of the first failing run of each target that failed.
	Records []*verdict.Record
	// Repeated counts the runs that were repeated because the environment was too noisy.
	Repeated int
	// Runs counts the runs that ended, without those that were repeated. Unjudged counts, by the target's
	// index, those that were too noisy twice.
	Runs     int
	Unjudged map[int]int
	// Interrupted reports whether the plan was not completed.
	Interrupted bool
	Wall        time.Duration
}

// job is one run.
type job struct {
	target int
	seed   uint64
}

// Execute runs a plan. An error means that the environment failed to start or broke down. The outcome then
// holds the results so far.
func Execute(ctx context.Context, p Plan) (*Outcome, error) {
	began := time.Now()
	out := &Outcome{Unjudged: make(map[int]int)}
	for _, t := range p.Targets {
		e := t.Scenario.Expect(t.Profile)
		out.Scenarios = append(out.Scenarios, verdict.NewScenario(verdict.Scenario{
			Name: t.Scenario.Name, About: t.Scenario.About, World: string(scenario.Live), Strategy: p.strategyName(), Profile: t.Profile,
			Digest: t.Scenario.Digest, Mutant: t.Mutant,
		}, verdict.Want{Seeds: p.Seeds, Sometimes: e.Sometimes, Texts: e.Texts, Faults: len(t.Scenario.Faults) > 0}))
	}
	jobs := make(chan job, len(p.Targets)*p.Seeds)
	order := longestFirst(p.Targets)
	for n := range p.Seeds {
		for _, i := range order {
			jobs <- job{i, p.First + uint64(n)}
		}
	}
	close(jobs)
	x := &planRun{plan: p, out: out, records: make(map[int]*verdict.Record)}
	sandboxes, running := errgroup.WithContext(ctx)
	for range min(p.Parallel, len(p.Targets)*p.Seeds) {
		sandboxes.Go(func() error { return x.runJobs(running, jobs) })
	}
	err := sandboxes.Wait()
	for i := range p.Targets {
		out.Scenarios[i].Judge()
		if r := x.records[i]; r != nil {
			out.Records = append(out.Records, r)
		}
	}
	out.Interrupted = x.done < len(p.Targets)*p.Seeds
	out.Wall = time.Since(began)
	return out, err
}

// longestFirst returns the indices of the targets in the order of their runs: the longest first, so that at
// the end no sandbox is idle for long.
func longestFirst(targets []Target) []int {
	order := make([]int, len(targets))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(run.AtLeast(targets[b].Scenario), run.AtLeast(targets[a].Scenario))
	})
	return order
}

// planRun is a plan in progress.
type planRun struct {
	plan Plan

	mu      sync.Mutex
	out     *Outcome
	records map[int]*verdict.Record
	done    int
}

// strategyName returns the name of the plan's environment, for the report.
func (p *Plan) strategyName() string {
	if p.Compose != "" {
		return "containers"
	}
	return "real"
}

// openSandbox opens a sandbox in the plan's environment.
func (p *Plan) openSandbox(ctx context.Context) (*Sandbox, error) {
	if p.Compose != "" {
		return OpenCompose(ctx, p.Compose, p.Log)
	}
	return Open(ctx, p.Bin, false, p.Log)
}

// runJobs opens a sandbox and runs jobs on it until none is left.
func (p *planRun) runJobs(ctx context.Context, jobs <-chan job) (err error) {
	if ctx.Err() != nil {
		return nil
	}
	l, err := p.plan.openSandbox(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer func() {
		if closed := l.Close(); err == nil {
			err = closed
		}
	}()
	for j := range jobs {
		if ctx.Err() != nil {
			return nil
		}
		for ; ; j.seed++ {
			t := p.plan.Targets[j.target]
			r, err := l.runTarget(ctx, t, Options{Seed: j.seed, Scale: p.plan.Scale, Mutant: t.Mutant}, p.countRepeat)
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", t, j.seed, err)
			}
			if !p.addResult(j, r) {
				break
			}
		}
	}
	return nil
}

// runTarget runs a target, and repeats the run if the environment was too noisy for a verdict. A second noisy
// run proves nothing, and never passes.
func (sa *Sandbox) runTarget(ctx context.Context, t Target, o Options, again func()) (*Result, error) {
	r, err := sa.Run(ctx, t.Scenario, t.Profile, o)
	if err != nil || r.Noise == "" {
		return r, err
	}
	again()
	r, err = sa.Run(ctx, t.Scenario, t.Profile, o)
	if err == nil && r.Noise != "" {
		r.Violations, r.GaveUp = nil, "inconclusive (environment): "+r.Noise
	}
	return r, err
}

func (p *planRun) countRepeat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Repeated++
}

// addResult records a run, and reports whether its target needs another run.
func (p *planRun) addResult(j job, r *Result) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sc := p.out.Scenarios[j.target]
	p.out.Runs++
	if r.Noise != "" {
		p.out.Unjudged[j.target]++
	}
	sc.Add(&r.Run)
	sc.Wall += r.Wall
	if failures := r.Failures(); len(failures) > 0 && p.records[j.target] == nil {
		r.Violations = failures
		r.ScenarioText = p.plan.Targets[j.target].Scenario.Text()
		p.records[j.target] = &r.Record
	}
	if p.plan.Done != nil {
		p.plan.Done(p.plan.Targets[j.target], r)
	}
	idle := slices.ContainsFunc(sc.Faults, func(f verdict.FaultCount) bool { return f.Fired > 0 && f.Touched == 0 })
	if idle && len(r.Failures()) == 0 && j.seed < p.plan.First+uint64(p.plan.Seeds-1+p.plan.More) {
		return true
	}
	p.done++
	return false
}
