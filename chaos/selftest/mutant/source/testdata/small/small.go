// Command small has one place for each operator, to see what they find, and a main that tells which
// mutant it is.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

type status uint8

const (
	none status = iota
	waiting
	running
)

type record struct {
	begin, end time.Duration
	status     status
}

type box struct {
	mu    sync.Mutex
	items []record
	host  interface {
		Monotonic() time.Duration
		Now() time.Time
	}
}

const pause = 3 * time.Second

func (b *box) add(_ context.Context, r record) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.status == none || r.end > 0 && r.begin > r.end {
		return false
	}
	b.items = append(b.items, r)
	return true
}

func (b *box) first(wanted ...status) (record, error) {
	for _, r := range b.items {
		for _, s := range wanted {
			if s == r.status {
				return r, nil
			}
		}
	}
	return record{}, errors.New("none is there")
}

func (b *box) late(r *record) time.Duration {
	now := b.host.Monotonic()
	return max(0, now-r.end)
}

func (b *box) finish(cancel context.CancelFunc) error {
	cancel()
	r, err := b.first(waiting, running)
	if err != nil {
		return err
	}
	switch r.status {
	case waiting, none:
		time.Sleep(pause)
	case running:
		return b.clear()
	}
	return nil
}

func (b *box) clear() error {
	b.items = b.items[:len(b.items)-1]
	b.tell()
	b.told()
	return nil
}

func (b *box) tell() {}
func (b *box) told() {}

func largest[T int | float64](_ string, list ...T) (most T) {
	for _, x := range list {
		if x > most {
			most = x
		}
	}
	return most
}

func (b *box) String() string { return fmt.Sprint(len(b.items)) }

func main() {
	b := new(box)
	fmt.Println(b.add(context.Background(), record{status: none}), b.add(context.Background(), record{status: running, begin: 5, end: 5}), largest("of", 1, 3, 2))
}
