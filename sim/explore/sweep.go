package explore

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"handoff/chaos/history"
	"handoff/chaos/selftest/mutant"
	"handoff/chaos/shard"
	"handoff/chaos/verdict"
	"handoff/core/execution"
	"handoff/sim"
	"handoff/sim/kernel"
)

// Options configure a sweep.
type Options struct {
	// First is the first seed. Seeds is the number of seeds for each plain target, Varied for each
	// varied target.
	First         uint64
	Seeds, Varied int
	// Share leaves runs to other machines; every share has the same number of each target's runs, give or
	// take one.
	Share shard.Share
	// Mutant is planted into every run; nil for none.
	Mutant *mutant.Mutant
	// FailFast makes the sweep start no run after a failure. Runs in progress finish and count.
	FailFast bool
	// Workers is the number of goroutines; 0 means GOMAXPROCS.
	Workers int
	// Double is the number of seeds of each target that are run twice, to compare the histories.
	Double int
	// Progress is called after every run, by one goroutine at a time; nil for none.
	Progress func(Progress)
	// Patience is how long, in real time, a run may go without progress; 0 means DefaultPatience.
	Patience time.Duration
	// Describe describes an event, to show the difference between two runs of a seed; may be nil.
	Describe func(*history.Event, map[execution.WorkerID]string) string

	// run replaces the simulator in tests.
	run func(Target, sim.Options) *sim.Result
}

// DefaultPatience is much longer than any whole run takes.
const DefaultPatience = time.Minute

// Progress is the state of a sweep.
type Progress struct {
	Done, Total int
	Steps       uint64
	Virtual     time.Duration
	Elapsed     time.Duration
	// Failing is the number of failed runs.
	Failing int
	// Failed is the target of the latest run if that run is the target's first failure, else nil. Seed is its
	// seed, and Broken the first rule that it broke.
	Failed *Target
	Seed   uint64
	Broken string
}

// Rate returns the runs per second so far.
func (p Progress) Rate() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.Done) / p.Elapsed.Seconds()
}

// Left returns the expected duration of the remaining runs.
func (p Progress) Left() time.Duration {
	if p.Done == 0 {
		return 0
	}
	return time.Duration(float64(p.Elapsed) / float64(p.Done) * float64(p.Total-p.Done))
}

// Hung is the error for a run that made no progress in real time. The run can't be stopped, only abandoned.
type Hung struct {
	Target Target
	Seed   uint64
	Mutant *mutant.Mutant
	Stacks []byte
	limit  time.Duration
}

// Error implements error.
func (h *Hung) Error() string {
	return fmt.Sprintf("%s hung in seed %d: no progress for %v; to see it again: %s",
		h.Target, h.Seed, h.limit, h.Target.Reproduce(h.Seed, h.Mutant))
}

// Outcome is the result of a sweep.
type Outcome struct {
	Sweep *verdict.Sweep
	// Records are the full records of the smallest failing seed of every failed target.
	Records []*verdict.Record
	Wall    time.Duration
}

// Sweep runs every target under every seed. When ctx ends, it discards the runs in progress and returns the
// results so far. The error is a *Hung; the results so far are returned with it.
func Sweep(ctx context.Context, targets []Target, o Options) (*Outcome, error) {
	s := newSweep(targets, o)
	s.interrupted = interruptOn(ctx)
	err := s.runPool(ctx)
	s.mu.Lock()
	s.closed = true // a hung run may still return; its result is ignored
	s.mu.Unlock()
	out := &Outcome{Sweep: s.out}
	s.out.Interrupted = s.done < s.total
	if s.out.Interrupted && s.failedFast() {
		s.out.Notes = append(s.out.Notes, fmt.Sprintf("stopped at the first failure, after %d of %d runs", s.done, s.total))
	}
	s.out.Judge()
	if err == nil {
		out.Records = s.makeRecords(ctx)
	} else {
		s.markUnrecorded()
	}
	for i, t := range targets {
		violations := s.out.Scenarios[i].Violations
		for j := range violations {
			violations[j].Reproduce = t.Reproduce(violations[j].Seed, o.Mutant)
			_, violations[j].Varied, _ = t.Plain(violations[j].Seed)
		}
	}
	out.Wall = time.Since(s.start)
	return out, err
}

// sweep is a sweep in progress.
type sweep struct {
	o       Options
	targets []Target
	total   int
	start   time.Time
	watch   *watch
	// interrupted reports whether the runs in progress should stop.
	interrupted func() bool

	mu     sync.Mutex
	next   turn
	done   int
	closed bool
	out    *verdict.Sweep
	at     Progress
}

func newSweep(targets []Target, o Options) *sweep {
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.run == nil {
		o.run = runOnce
	}
	s := &sweep{o: o, targets: targets, start: time.Now()}
	s.out = &verdict.Sweep{Go: runtime.Version(), Commit: Commit()}
	for i, t := range targets {
		s.total += o.Share.Count(i, t.seedCount(o))
		s.out.Scenarios = append(s.out.Scenarios, newScenario(t, i, o))
	}
	s.at.Total = s.total
	return s
}

// newScenario returns the result of the i-th target, without runs.
func newScenario(t Target, i int, o Options) *verdict.Scenario {
	about := verdict.Scenario{
		Name: t.Scenario.Name, About: t.Scenario.About, World: "sim", Strategy: t.strategyName(), Profile: t.Profile, Digest: t.Scenario.Digest,
	}
	if o.Mutant != nil {
		about.Mutant = o.Mutant.Name
	}
	e := t.Scenario.Expect(t.Profile)
	return verdict.NewScenario(about, verdict.Want{
		Seeds: o.Share.Count(i, t.seedCount(o)), Sometimes: e.Sometimes, Texts: e.Texts, Faults: len(t.Scenario.Faults) > 0, Share: !o.Share.Whole(),
	})
}

// Judge returns the result of a single run, as a sweep of one seed.
func Judge(t Target, r *verdict.Run, f *mutant.Mutant) *verdict.Scenario {
	s := newScenario(t, 0, Options{Seeds: 1, Varied: 1, Mutant: f})
	s.Add(r)
	s.Judge()
	return s
}

// runPool makes the runs of the sweep and waits until they are done, or until one hangs.
func (s *sweep) runPool(ctx context.Context) error {
	hung := make(chan *Hung, s.o.Workers)
	s.watch = newWatch(s.o.Patience, func(h *Hung) { hung <- h })
	over := make(chan struct{})
	var group sync.WaitGroup
	for range min(s.o.Workers, s.total) {
		group.Go(func() {
			for ctx.Err() == nil && s.runNext() {
			}
		})
	}
	go func() {
		group.Wait()
		close(over)
	}()
	select {
	case <-over:
		s.watch.dog.Close()
		return nil
	case h := <-hung:
		return h
	}
}

// runNext makes the next run; it returns false if there is none or it was interrupted.
func (s *sweep) runNext() bool {
	target, n, there := s.claimRun()
	if !there {
		return false
	}
	t, seed := s.targets[target], s.o.First+uint64(n)
	begin := time.Now()
	o := sim.Options{Seed: seed, Mutant: s.o.Mutant, Watch: s.watch.watchRun(t, seed, s.o.Mutant), Interrupted: s.interrupted}
	r := s.o.run(t, o)
	if r.Interrupted {
		return false
	}
	if n < s.o.Double {
		s.checkDeterminism(t, r, o)
	}
	s.addResult(target, r, time.Since(begin))
	return true
}

// claimRun returns the next run of this share: a target, and the index of its seed, counted from 0. Target
// and index together decide the share, so that each target and each seed is spread over all shares.
func (s *sweep) claimRun() (target, n int, there bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.closed && !s.failedFast() {
		target, n, there = s.next.nextRun(s.targets, s.o)
		if !there || s.o.Share.Has(target+n) {
			return target, n, there
		}
	}
	return 0, 0, false
}

// failedFast reports whether a failure ended the sweep.
func (s *sweep) failedFast() bool { return s.o.FailFast && s.at.Failing > 0 }

func (s *sweep) addResult(target int, r *sim.Result, wall time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	sc := s.out.Scenarios[target]
	failing := sc.Failing
	sc.Add(&r.Run)
	sc.Wall += wall
	s.done++
	s.at.Done, s.at.Elapsed = s.done, time.Since(s.start)
	s.at.Steps += r.Steps
	s.at.Virtual += r.Virtual
	s.at.Failed = nil
	if sc.Failing > failing {
		s.at.Failing++
		if failing == 0 {
			s.at.Failed, s.at.Seed, s.at.Broken = &s.targets[target], r.Seed, r.Failures()[0].Rule()
		}
	}
	if s.o.Progress != nil {
		s.o.Progress(s.at)
	}
}

// forRecords limits the time for making records after an interruption.
const forRecords = 500 * time.Millisecond

// makeRecords repeats the smallest failing seed of every failed target with a record. Once ctx has ended,
// it takes at most forRecords, because a user who interrupts a program won't wait longer.
func (s *sweep) makeRecords(ctx context.Context) []*verdict.Record {
	var records []*verdict.Record
	var told []Target
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(forRecords, cancel) })()
	for i, t := range s.targets {
		sc := s.out.Scenarios[i]
		if sc.Failing == 0 {
			continue
		}
		rec, r := Record(late, t, sc.FirstFailing, s.o.Mutant)
		if r.Interrupted {
			sc.NotRecorded(fmt.Sprintf("seed %d was not recorded: the sweep was interrupted", sc.FirstFailing))
			continue
		}
		if len(rec.Violations) == 0 {
			sc.NotRecorded(fmt.Sprintf("seed %d did not show its violation again: the run is not deterministic", sc.FirstFailing))
		}
		Tell(sc, rec)
		records = append(records, rec)
		told = append(told, t)
	}
	s.explainRecords(late, told, records)
	return records
}

// Retell repeats the smallest failing seed of every failed target of a sweep that was merged from shares,
// and returns the records. targets are the targets of its results, in their order.
func Retell(ctx context.Context, merged *verdict.Sweep, targets []Target, f *mutant.Mutant) []*verdict.Record {
	s := &sweep{o: Options{Mutant: f, Workers: runtime.GOMAXPROCS(0)}, targets: targets, out: merged}
	return s.makeRecords(ctx)
}

// explainRecords compares every recorded failure with its counterpart and finds the faults that it needed.
// It skips that when ctx has ended.
func (s *sweep) explainRecords(ctx context.Context, targets []Target, records []*verdict.Record) {
	var group sync.WaitGroup
	next := make(chan int)
	for range min(s.o.Workers, len(records)) {
		group.Go(func() {
			for i := range next {
				c, err := NewCase(ctx, targets[i], records[i].Seed, s.o.Mutant)
				if err != nil {
					continue
				}
				if x := c.Compare(); c.Ablate() {
					records[i].Explained = x
				}
			}
		})
	}
	for i := range records {
		next <- i
	}
	close(next)
	group.Wait()
}

// markUnrecorded marks every failed target's record as missing because a run hung.
func (s *sweep) markUnrecorded() {
	for _, sc := range s.out.Scenarios {
		if sc.Failing > 0 {
			sc.NotRecorded(fmt.Sprintf("seed %d was not recorded: another run hung", sc.FirstFailing))
		}
	}
}

// Tell adds to a recorded run the causes of its violations.
func Tell(sc *verdict.Scenario, rec *verdict.Record) {
	for i := range sc.Violations {
		if v := &sc.Violations[i]; v.Seed == rec.Seed {
			v.Causes, v.Past = Causes(rec, v)
		}
	}
	for i := range rec.Violations {
		v := &rec.Violations[i]
		v.Causes, v.Past = Causes(rec, v)
	}
}

// watch is the watchdog of a sweep; it knows the run of each kernel.
type watch struct {
	dog  *kernel.Watchdog
	mu   sync.Mutex
	runs map[*kernel.Kernel]Hung
}

func newWatch(patience time.Duration, stuck func(*Hung)) *watch {
	if patience == 0 {
		patience = DefaultPatience
	}
	w := &watch{runs: make(map[*kernel.Kernel]Hung)}
	w.dog = kernel.NewWatchdog(patience, func(k *kernel.Kernel, stacks []byte) {
		w.mu.Lock()
		h := w.runs[k]
		w.mu.Unlock()
		h.Stacks, h.limit = stacks, patience
		stuck(&h)
	})
	return w
}

// watchRun returns the sim.Options.Watch of one run.
func (w *watch) watchRun(t Target, seed uint64, f *mutant.Mutant) func(*kernel.Kernel) func() {
	return func(k *kernel.Kernel) func() {
		w.mu.Lock()
		w.runs[k] = Hung{Target: t, Seed: seed, Mutant: f}
		w.mu.Unlock()
		stop := w.dog.Watch(k)
		return func() {
			stop()
			w.mu.Lock()
			delete(w.runs, k)
			w.mu.Unlock()
		}
	}
}

// Commit returns the revision from which the program was built, or "" if it is unknown.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision, dirty := "", ""
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			revision = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			dirty = "-dirty"
		}
	}
	if revision == "" {
		return ""
	}
	return revision + dirty
}
