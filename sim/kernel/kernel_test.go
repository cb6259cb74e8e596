package kernel

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSameSeedGivesSameTrace(t *testing.T) {
	seen := map[uint64]uint64{}
	for seed := range uint64(50) {
		for _, timeIsChoice := range []bool{false, true} {
			opts := Options{TimeIsChoice: timeIsChoice}
			opts.Chooser = NewRandom(seed)
			first, stop := newToy(opts).run()
			if stop != StopIdle && stop != StopHorizon {
				t.Fatalf("seed %d: stopped with %v", seed, stop)
			}
			opts.Chooser = NewRandom(seed)
			if second, _ := newToy(opts).run(); second != first {
				t.Errorf("seed %d, TimeIsChoice %v: %x, then %x", seed, timeIsChoice, first, second)
			}
			if other, ok := seen[first]; ok {
				t.Errorf("seeds %d and %d have the same trace", seed, other)
			}
			seen[first] = seed
		}
	}
}

// The trace pins the meaning of a seed: if it changes, every recorded seed stands for another run.
func TestTraceMatchesEarlierBuilds(t *testing.T) {
	got, _ := newToy(Options{Chooser: NewRandom(7)}).run()
	if want := uint64(pinnedTrace); got != want {
		t.Errorf("the trace of seed 7 is %#x, want %#x", got, want)
	}
}

func TestTraceIsIndependentOfProcessors(t *testing.T) {
	many, _ := newToy(Options{Chooser: NewRandom(3)}).run()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	one, _ := newToy(Options{Chooser: NewRandom(3)}).run()
	if one != many {
		t.Errorf("%x under GOMAXPROCS=1, else %x", one, many)
	}
}

func TestConcurrentRunsHaveSameTrace(t *testing.T) {
	want, _ := newToy(Options{Chooser: NewRandom(3)}).run()
	got := make(chan uint64)
	for range 4 {
		go func() {
			sum, _ := newToy(Options{Chooser: NewRandom(3)}).run()
			got <- sum
		}()
	}
	for range 4 {
		if sum := <-got; sum != want {
			t.Errorf("%x side by side, %x alone", sum, want)
		}
	}
}

func TestReplayGivesSameTrace(t *testing.T) {
	for seed := range uint64(20) {
		r := NewRecorder(NewRandom(seed))
		want, _ := newToy(Options{Chooser: r, TimeIsChoice: true}).run()
		if len(r.Choices()) < 50 {
			t.Fatalf("only %d choices: the toy has become too tame", len(r.Choices()))
		}
		replay := NewReplay(r.Choices())
		got, _ := newToy(Options{Chooser: replay, TimeIsChoice: true}).run()
		if got != want {
			t.Errorf("seed %d: recorded %x, replayed %x", seed, want, got)
		}
		if i, text, bad := replay.Diverged(); bad {
			t.Errorf("seed %d: diverged at %d: %s", seed, i, text)
		}
		if replay.Used() != len(r.Choices()) || replay.Asked() != replay.Used() {
			t.Errorf("seed %d: used %d, asked %d of %d", seed, replay.Used(), replay.Asked(), len(r.Choices()))
		}
	}
}

func TestReplayReportsDivergence(t *testing.T) {
	r := NewRecorder(NewRandom(1))
	newToy(Options{Chooser: r}).run()
	at := len(r.Choices()) / 2
	for name, change := range map[string]func(c *Choice){
		"other stream": func(c *Choice) { c.Stream = "elsewhere" },
		"among":        func(c *Choice) { c.N++ },
		"is not one":   func(c *Choice) { c.Value = c.N },
	} {
		choices := slices.Clone(r.Choices())
		change(&choices[at])
		replay := NewReplay(choices)
		newToy(Options{Chooser: replay}).run()
		i, text, bad := replay.Diverged()
		if !bad || i != at || text == "" {
			t.Errorf("%s: Diverged() = %d, %q, %v, want index %d", name, i, text, bad, at)
		}
		if replay.Used() != at {
			t.Errorf("%s: %d answers used after a divergence at %d", name, replay.Used(), at)
		}
	}
	short := NewReplay(r.Choices()[:at])
	newToy(Options{Chooser: short}).run()
	if _, _, bad := short.Diverged(); bad || short.Used() != at || short.Asked() <= at {
		t.Errorf("a short list: diverged %v, used %d, asked %d", bad, short.Used(), short.Asked())
	}
}

func TestRunReturnsStopReason(t *testing.T) {
	k := New(Options{MaxSteps: 30})
	defer k.Close()
	p := k.NewProcess("p")
	n := 0
	p.Go("loop", func() {
		for n = 1; n < 100; n++ {
			k.NewWait().AwaitFor(context.Background(), time.Second)
		}
	})
	if got := k.Run(func() bool { return n == 3 }, time.Hour); got != StopDone || n != 3 {
		t.Errorf("Run = %v with n = %d, want done with 3", got, n)
	}
	if got := k.Run(nil, 4500*time.Millisecond); got != StopHorizon || k.Now() != 4500*time.Millisecond {
		t.Errorf("Run = %v at %v, want horizon at 4.5s", got, k.Now())
	}
	if got := k.Run(nil, time.Hour); got != StopMaxSteps || k.Step() != 30 {
		t.Errorf("Run = %v at step %d, want max-steps at 30", got, k.Step())
	}
	idle := New(Options{})
	defer idle.Close()
	if got := idle.Run(nil, time.Hour); got != StopIdle {
		t.Errorf("Run of nothing = %v, want idle", got)
	}
}

func TestTimersFireByTimeThenCreation(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	var got []string
	add := func(d time.Duration, name string) Timer {
		return k.After(d, func() { got = append(got, fmt.Sprintf("%s@%d", name, k.Now().Milliseconds())) })
	}
	add(ms(2), "b")
	add(ms(1), "a")
	add(ms(2), "c")
	stopped := add(ms(1), "never")
	add(-1, "now")
	if !stopped.Stop() || stopped.Stop() {
		t.Error("Stop must be true once")
	}
	reused := add(ms(3), "d") // reuses the pooled timer
	if stopped.Stop() {
		t.Error("a stale handle stopped another timer")
	}
	k.Run(nil, time.Second)
	if want := "now@0 a@1 b@2 c@2 d@3"; strings.Join(got, " ") != want {
		t.Errorf("fired %v, want %s", got, want)
	}
	if reused.Stop() || (Timer{}).Stop() {
		t.Error("a fired timer was stopped")
	}
}

func TestTimersFireInSortedOrder(t *testing.T) {
	s := NewStream(NewRandom(1), "timers")
	for round := range 300 {
		var ts timers
		var all []*timer
		// Due times are close together, far apart, or as large as possible.
		spread := []uint64{20, 10_000, 1 << 40, 1 << 62}[round%4]
		now, seq := time.Duration(0), uint64(0)
		due := func() time.Duration {
			if s.Uint64N(20) == 0 {
				return maxDuration
			}
			return addSaturated(now, time.Duration(s.Uint64N(spread)))
		}
		sorted := func() {
			slices.SortFunc(all, func(a, b *timer) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) })
		}
		for range 600 {
			switch what := s.Uint64N(12); {
			case what < 6:
				seq++
				tm := &timer{at: due(), seq: seq}
				all = append(all, tm)
				ts.addTimer(tm)
			case what < 8 && len(all) > 0:
				i := int(s.Uint64N(uint64(len(all))))
				ts.removeTimer(all[i])
				all = slices.Delete(all, i, i+1)
			case what == 8 && s.Uint64N(10) == 0:
				keep := all[:0:0]
				ts.filterTimers(func(tm *timer) bool {
					if tm.seq%7 == 0 {
						return false
					}
					tm.at = due()
					keep = append(keep, tm)
					return true
				})
				all = keep
			case len(all) > 0:
				sorted()
				first := ts.firstSlot()
				if first.t != all[0] || first.at != all[0].at {
					t.Fatalf("got (%d, %d), want (%d, %d)", first.at, first.seq, all[0].at, all[0].seq)
				}
				now = first.at
				ts.removeTimer(first.t)
				all = all[1:]
			}
			if ts.len() != len(all) {
				t.Fatalf("%d timers, want %d", ts.len(), len(all))
			}
		}
		sorted()
		for _, want := range all {
			if got := ts.firstSlot().t; got != want {
				t.Fatalf("at the end: got (%d, %d), want (%d, %d)", got.at, got.seq, want.at, want.seq)
			}
			ts.removeTimer(want)
		}
	}
}

func TestRunQueueBehavesLikeSlice(t *testing.T) {
	s := NewStream(NewRandom(1), "queue")
	p, other := &Process{}, &Process{}
	var q runQueue
	var want []*Task
	for i := range 20_000 {
		if n := len(want); n > 0 && s.Uint64N(100) < 50 {
			j := int(s.Uint64N(uint64(n)))
			if got := q.removeAt(j); got != want[j] {
				t.Fatalf("operation %d: wrong task", i)
			}
			want = slices.Delete(want, j, j+1)
		} else {
			task := &Task{process: p}
			if s.Uint64N(4) == 0 {
				task.process = other
			}
			q.push(task)
			want = append(want, task)
		}
		if i%1000 == 999 {
			gone := q.extractTasks(other, nil)
			n := len(want)
			want = slices.DeleteFunc(want, func(t *Task) bool { return t.process == other })
			if len(gone) != n-len(want) {
				t.Fatalf("extracted %d, want %d", len(gone), n-len(want))
			}
		}
		if q.len() != len(want) {
			t.Fatalf("operation %d: length %d, want %d", i, q.len(), len(want))
		}
	}
}

// Only with TimeIsChoice can a timer overtake a runnable task.
func TestTimeIsChoiceLetsTimersOvertake(t *testing.T) {
	overtaken := func(timeIsChoice bool, seed uint64) bool {
		k := New(Options{Chooser: NewRandom(seed), TimeIsChoice: timeIsChoice})
		defer k.Close()
		fired, late := false, false
		k.After(time.Second, func() { fired = true })
		k.NewProcess("p").Go("main", func() { late = fired })
		k.Run(nil, time.Hour)
		return late
	}
	count := 0
	for seed := range uint64(20) {
		if overtaken(false, seed) {
			t.Error("time passed although a task was runnable")
		}
		if overtaken(true, seed) {
			count++
		}
	}
	if count == 0 || count == 20 {
		t.Errorf("overtaken in %d of 20 runs", count)
	}
}

func TestChooserCanListAlternatives(t *testing.T) {
	var seen []string
	c := &spy{}
	k := New(Options{Chooser: c, TimeIsChoice: true})
	defer k.Close()
	c.choose = func(s *Stream, n uint64) uint64 {
		for i := range n {
			name := "time"
			if task := k.Runnable(i); task != nil {
				name = task.Name()
			}
			seen = append(seen, name)
		}
		seen = append(seen, s.Label())
		return n - 1
	}
	k.After(time.Second, func() {})
	p := k.NewProcess("p")
	p.Go("one", func() {})
	p.Go("two", func() {})
	k.Run(nil, time.Hour)
	want := "one two time kernel/schedule one two kernel/schedule"
	if got := strings.Join(seen, " "); got != want {
		t.Errorf("asked %q, want %q", got, want)
	}
}

type spy struct {
	choose func(s *Stream, n uint64) uint64
}

func (sp *spy) Choose(s *Stream, n uint64) uint64 { return sp.choose(s, n) }
