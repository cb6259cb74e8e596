package concurrency

import (
	"sync"

	"golang.org/x/sync/errgroup" // want `import of golang\.org/x/sync/errgroup: it starts goroutines`
)

type bad struct {
	m              sync.Map       // want `sync\.Map`
	c              sync.Cond      // want `sync\.Cond`
	wg             sync.WaitGroup // want `sync\.WaitGroup`
	g              errgroup.Group
	sync.WaitGroup // want `sync\.WaitGroup`
}

type list[T any] []T

func channels[C ~chan int](generic C) {
	c := make(chan int, 1) // want `make of a channel`
	type named chan int
	_ = make(named) // want `make of a channel`
	c <- 1          // want `channel send`
	<-c             // want `channel receive`
	x, ok := <-c    // want `channel receive`
	_, _ = x, ok
	for range c { // want `range over a channel`
	}
	for range generic { // want `range over a channel`
	}
	select { // want `select: its choice is random`
	default:
	}
	go channels(c)        // want `go statement`
	go func() {}()        // want `go statement`
	_ = sync.NewCond(nil) // want `sync\.NewCond`
}

type good struct {
	mu   sync.Mutex
	rw   sync.RWMutex
	once sync.Once
	end  <-chan struct{}
}

func (g *good) fine() {
	g.once.Do(func() {})
	_ = make([]int, 1)
	_ = make(list[int], 1)
	_ = make(map[int]int)
	for range 3 {
	}
	_ = -3
}
