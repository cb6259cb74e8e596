package explore

import (
	"slices"

	"handoff/chaos/scenario"
)

// This file removes unnecessary settings: keys of the configuration, and optional fields of the
// workload's steps, of actions and of workers.

// dropSettings removes keys of the configuration, all at once if possible; a removed key takes its default.
func (s *shrinker) dropSettings() (changed bool) {
	keys := s.doc.ConfigKeys()
	if len(keys) > 1 && s.tryDocument(s.editedCopy(func(d *scenario.Document) { d.Take("config") })) {
		return true
	}
	for size := len(keys) / 2; size >= 1; size /= 2 {
		for i := 0; i < len(keys) && !s.isOver(); {
			some := keys[i:min(i+size, len(keys))]
			if s.tryDocument(s.editedCopy(func(d *scenario.Document) {
				for _, key := range some {
					d.TakeConfig(key)
				}
			})) {
				changed, keys = true, slices.Delete(slices.Clone(keys), i, i+len(some))
				continue
			}
			i += size
		}
	}
	return changed
}

// plainWork removes optional fields of steps, actions and workers, one by one.
func (s *shrinker) plainWork() (changed bool) {
	drop := func(path func(d *scenario.Document) []any) {
		if s.isOver() || !s.doc.Has(path(s.doc)...) {
			return
		}
		changed = s.tryDocument(s.editedCopy(func(d *scenario.Document) { d.Take(path(d)...) })) || changed
	}
	for i := range s.bestScenario().Workload {
		for _, key := range []string{"copies", "pin", "timeout", "dispatch_timeout", "max_retries"} {
			drop(func(d *scenario.Document) []any { return append(d.Load(i), key) })
		}
	}
	for _, a := range s.bestScenario().Actions {
		for _, key := range []string{"fails", "concurrency", "timeout", "dispatch_timeout", "max_retries"} {
			drop(func(*scenario.Document) []any { return []any{"actions", a.Ref, key} })
		}
	}
	drop(func(*scenario.Document) []any { return []any{"cluster", "rabbitmq"} })
	for _, w := range s.bestScenario().Cluster.Workers {
		for _, key := range []string{"concurrency", "starts"} {
			drop(func(*scenario.Document) []any { return []any{"cluster", "workers", w.Name, key} })
		}
	}
	return changed
}
