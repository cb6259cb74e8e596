package locks

import (
	"context"
	"log/slog"
	"sync"

	"handoff/core/host"
)

type store interface {
	Read(ctx context.Context, id int) error
}

type service struct {
	mu    sync.Mutex
	rw    sync.RWMutex
	host  host.Host
	store store
	log   *slog.Logger
	n     int
}

type embedded struct {
	sync.Mutex
	store store
}

func (s *service) held(ctx context.Context) {
	s.mu.Lock()
	s.n++
	_ = s.store.Read(ctx, 1) // want `s\.mu is held across this call`
	s.mu.Unlock()
	_ = s.store.Read(ctx, 1)
}

func (s *service) deferred(ctx context.Context) error {
	s.rw.RLock()
	defer s.rw.RUnlock()
	return s.store.Read(ctx, 1) // want `s\.rw is held across this call`
}

func (s *service) hostCall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.host.Go("task", func() {}) // want `s\.mu is held across this call`
}

func (s *service) branches(ctx context.Context, stop bool) {
	s.mu.Lock()
	if stop {
		s.mu.Unlock()
		_ = s.store.Read(ctx, 1)
		return
	}
	_ = s.store.Read(ctx, 1) // want `s\.mu is held`
	s.mu.Unlock()
	for range 3 {
		s.mu.Lock()
		if stop {
			_ = s.store.Read(ctx, 1) // want `s\.mu is held`
		}
		s.mu.Unlock()
	}
	switch {
	case stop:
		s.mu.Lock()
	default:
	}
	_ = s.store.Read(ctx, 1) // want `s\.mu is held`
}

func (s *service) literals(ctx context.Context) {
	s.mu.Lock()
	later := func() { _ = s.store.Read(ctx, 1) }
	func() {
		_ = s.store.Read(ctx, 1) // want `s\.mu is held`
	}()
	s.mu.Unlock()
	later()
	_ = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = s.store.Read(ctx, 1) // want `s\.mu is held`
	}
}

func (e *embedded) held(ctx context.Context, call func(context.Context)) {
	e.Lock()
	call(ctx) // want `e is held`
	e.Unlock()
	call(ctx)
}

func (s *service) good(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = context.WithValue(ctx, s, 1)
	s.log.InfoContext(ctx, "held")
	_ = ctx.Err()
	s.n = max(s.n, 1)
}
