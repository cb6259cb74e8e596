package kernel

import (
	"context"
	"testing"
	"time"
)

// sets returns options in which strands are bit sets and Meet returns their union.
func sets() (Options, func(k *Kernel, bit int), func(k *Kernel) uint64) {
	all := []uint64{0}
	name := func(s uint64) Strand {
		all = append(all, s)
		return Strand(len(all) - 1)
	}
	o := Options{Meet: func(a, b Strand) Strand { return name(all[a] | all[b]) }}
	return o, func(k *Kernel, bit int) { k.SetStrand(name(all[k.Strand()] | 1<<bit)) },
		func(k *Kernel) uint64 { return all[k.Strand()] }
}

// A strand passes only to started and woken tasks and to timers.
func TestStrandFollowsStartsWakesAndTimers(t *testing.T) {
	o, did, led := sets()
	k := New(o)
	defer k.Close()
	p := k.NewProcess("p")
	var woken, fired, started, alone uint64
	var w Wait
	p.Go("sleeper", func() {
		did(k, 0)
		w = k.NewWait()
		if err := w.Await(context.Background()); err != nil {
			t.Error(err)
		}
		woken = led(k)
	})
	p.Go("waker", func() {
		k.NewWait().AwaitFor(context.Background(), time.Second)
		did(k, 1)
		k.After(time.Second, func() { fired = led(k) })
		p.Go("child", func() { started = led(k) })
		did(k, 2)
		w.Done()
	})
	p.Go("bystander", func() {
		k.NewWait().AwaitFor(context.Background(), 5*time.Second)
		did(k, 3)
		alone = led(k)
	})
	k.Run(nil, time.Minute)
	if woken != 0b111 || fired != 0b010 || started != 0b010 || alone != 0b1000 {
		t.Errorf("woken %04b, fired %04b, started %04b, alone %04b", woken, fired, started, alone)
	}
}

// Without Options.Meet, every strand stays 0.
func TestStrandsStayZeroWithoutMeet(t *testing.T) {
	k := New(Options{})
	defer k.Close()
	p := k.NewProcess("p")
	p.Go("one", func() {
		w := k.NewWait()
		k.After(time.Second, func() { w.Done() })
		if err := w.Await(context.Background()); err != nil || k.Strand() != 0 {
			t.Errorf("strand %d, %v", k.Strand(), err)
		}
	})
	k.Run(nil, time.Minute)
}
