//go:build preempt

package woven

import (
	"context"
	"slices"
	"sync"

	"handoff/sim/kernel"
)

// Mutex replaces sync.Mutex in the woven core. A task that finds it locked waits in the kernel; the longest
// waiter is woken first. So it may be held across a switch, and a deadlock shows as tasks that wait
// forever.
//
// Code outside a task can't wait, so a timer's function passes through a locked mutex. A task of another
// process also passes through: it stands for a handler that would run in the owner's process. Two processes
// share no lock, and a crashed owner never unlocks.
type Mutex struct {
	owner   *kernel.Task
	waiters []kernel.Wait
	guests  []*kernel.Task // tasks of other processes that passed through while it was locked
	real    sync.Mutex     // used outside a run, when a woven program runs on the real host
}

// Lock implements sync.Locker.
func (m *Mutex) Lock() {
	r := current
	if r == nil {
		m.real.Lock()
		return
	}
	t := r.k.Current()
	if t == nil || r.k.Dying() {
		return
	}
	if m.owner == t {
		panic("woven: the task locks a mutex that it has locked")
	}
	for m.owner != nil {
		if m.owner.Process() != t.Process() {
			m.guests = append(m.guests, t)
			return
		}
		w := r.k.NewWait()
		m.waiters = append(m.waiters, w)
		_ = w.Await(context.Background())
	}
	m.owner = t
}

// Unlock implements sync.Locker.
func (m *Mutex) Unlock() {
	r := current
	if r == nil {
		m.real.Unlock()
		return
	}
	t := r.k.Current()
	if t == nil || r.k.Dying() {
		return
	}
	if i := slices.Index(m.guests, t); i >= 0 {
		m.guests = slices.Delete(m.guests, i, i+1)
		return
	}
	if m.owner != t {
		panic("woven: the task unlocks a mutex that it has not locked")
	}
	m.owner = nil
	for len(m.waiters) > 0 {
		w := m.waiters[0]
		m.waiters = m.waiters[1:]
		if w.Done() {
			return
		}
	}
}
