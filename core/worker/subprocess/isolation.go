package subprocess

import (
	"context"
	"log/slog"
	"maps"
	"slices"
)

// State is the isolation that works on this machine, found by a rehearsal.
type State struct {
	// Holds lists the protections that work here.
	Holds []string `json:"holds"`
	// Missing maps the protections that do not work here to the reasons.
	Missing map[string]string `json:"missing"`

	// asked holds those entries of Missing that the configuration requests.
	asked map[string]bool
}

func newState() *State {
	return &State{Holds: []string{}, Missing: map[string]string{}, asked: map[string]bool{}}
}

func (s *State) addHeld(what string) { s.Holds = append(s.Holds, what) }

func (s *State) addMissing(what, why string) { s.Missing[what] = why }

// addMissingAsked is addMissing for a protection that the configuration requests.
func (s *State) addMissingAsked(what, why string) {
	s.Missing[what], s.asked[what] = why, true
}

// Log writes one line about what works, and one for each missing protection.
func (s *State) Log(ctx context.Context, log *slog.Logger) {
	log.LogAttrs(ctx, slog.LevelInfo, "actions are isolated", slog.Any("holds", s.Holds))
	for _, what := range slices.Sorted(maps.Keys(s.Missing)) {
		level := slog.LevelInfo
		if s.asked[what] {
			level = slog.LevelWarn
		}
		log.LogAttrs(ctx, level, "isolation of actions lacks something", slog.String("what", what), slog.String("why", s.Missing[what]))
	}
}
