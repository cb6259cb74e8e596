package kernel

import (
	"runtime"
	"sync"
	"time"
)

// Watchdog finds runs that hang in real time: a task that blocks on something the kernel can't see, or
// loops without a kernel call. One watchdog serves any number of kernels on any number of goroutines. It
// only reports. Its owner usually prints the stacks with the seed and exits.
type Watchdog struct {
	limit   time.Duration
	onStuck func(k *Kernel, stacks []byte)
	quit    chan struct{}
	over    chan struct{}

	mu      sync.Mutex
	watched map[*Kernel]*watch
}

type watch struct {
	progress uint64
	since    time.Time
	reported bool
}

// NewWatchdog starts a watchdog. onStuck is called once, on the watchdog's goroutine, for every kernel that
// is in Run and makes no progress for limit of real time, with the stacks of all goroutines. Progress is
// recorded every 64 steps, so limit should be several seconds.
func NewWatchdog(limit time.Duration, onStuck func(k *Kernel, stacks []byte)) *Watchdog {
	wd := &Watchdog{
		limit:   limit,
		onStuck: onStuck,
		quit:    make(chan struct{}), //detlint:ok the watchdog lives in real time, outside of every run
		over:    make(chan struct{}), //detlint:ok the watchdog lives in real time, outside of every run
		watched: make(map[*Kernel]*watch),
	}
	go wd.watchKernels() //detlint:ok the watchdog lives in real time, outside of every run
	return wd
}

// Watch starts watching k. The function that it returns ends the watching, not the run.
func (wa *Watchdog) Watch(k *Kernel) (stop func()) {
	wa.mu.Lock()
	defer wa.mu.Unlock()
	wa.watched[k] = &watch{progress: k.progress.Load(), since: time.Now()} //detlint:ok the watchdog lives in real time, outside of every run
	return func() {
		wa.mu.Lock()
		defer wa.mu.Unlock()
		delete(wa.watched, k)
	}
}

// Close ends the watchdog, after any report in progress. It must not be called from onStuck.
func (wa *Watchdog) Close() {
	close(wa.quit)
	<-wa.over //detlint:ok the watchdog lives in real time, outside of every run
}

func (wa *Watchdog) watchKernels() {
	defer close(wa.over)
	ticker := time.NewTicker(max(wa.limit/4, time.Millisecond)) //detlint:ok the watchdog lives in real time, outside of every run
	defer ticker.Stop()
	for {
		select { //detlint:ok the watchdog lives in real time, outside of every run
		case <-wa.quit: //detlint:ok the watchdog lives in real time, outside of every run
			return
		case now := <-ticker.C: //detlint:ok the watchdog lives in real time, outside of every run
			for _, k := range wa.stuckKernels(now) {
				wa.onStuck(k, allStacks())
			}
		}
	}
}

func (wa *Watchdog) stuckKernels(now time.Time) []*Kernel {
	wa.mu.Lock()
	defer wa.mu.Unlock()
	var found []*Kernel
	for k, w := range wa.watched { //detlint:ok the watchdog lives in real time, outside of every run
		progress := k.progress.Load()
		if progress != w.progress || !k.active.Load() {
			*w = watch{progress: progress, since: now}
			continue
		}
		if !w.reported && now.Sub(w.since) >= wa.limit {
			w.reported = true
			found = append(found, k)
		}
	}
	return found
}

func allStacks() []byte {
	buf := make([]byte, 1<<16)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			return buf[:n]
		}
		buf = make([]byte, 2*len(buf))
	}
}
