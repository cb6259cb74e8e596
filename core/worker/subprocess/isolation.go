package subprocess

import (
	"context"
	"log/slog"
	"maps"
	"slices"
)

// Isolation says how far actions are separated from their worker, from each other and from what
// they leave behind.
type Isolation struct {
	// User is the user that actions run as: a name or number, with :GROUP behind it for a group
	// other than the user's own. Empty for the worker's user. Another user needs a worker that runs
	// as root.
	User string
	// KeepPrivileges leaves actions the capabilities of the worker, and lets them gain others by
	// programs like sudo. An action of a worker that runs as root can then read the worker's
	// secrets.
	KeepPrivileges bool
	// SharedTmp lets all runs and the machine share /tmp, /var/tmp and /dev/shm. Without it, each
	// run gets its own, if the worker may mount.
	SharedTmp bool
	// Cgroup is one of the Cgroup constants; empty for CgroupAuto.
	Cgroup string
	// MemoryBytes, CPUs and Processes bound each run; 0 for no limit. They need control groups.
	// Without those, memory and processes have a weaker limit (see State).
	MemoryBytes int64
	CPUs        float64
	Processes   int64
	// DiskBytes bounds the content of a run's directory; 0 for no limit. It is measured every
	// second.
	DiskBytes int64
	// OutputBytes bounds each of a run's output streams; 0 for no limit.
	OutputBytes int64
	// RunDir is the directory below which each run gets its own; empty for a directory below the
	// one for temporary files.
	RunDir string
	// Runs is how many runs there are at a time. It matters for limits that apply only to all of
	// them together.
	Runs int
	// SecretFile is a file that actions should not be able to read; empty for none.
	SecretFile string
}

// The values of Isolation.Cgroup.
const (
	CgroupAuto    = "auto"    // use them if the machine offers them
	CgroupRequire = "require" // do not start without them, or without one of the limits that are set
	CgroupOff     = "off"
)

// State is the isolation that works on this machine, found by a rehearsal.
type State struct {
	// Holds lists the protections that work here.
	Holds []string `json:"holds"`
	// Missing says which protections do not work here, and why.
	Missing map[string]string `json:"missing"`

	// asked are the entries of Missing that the configuration asks for.
	asked map[string]bool
}

func newState() *State {
	return &State{Holds: []string{}, Missing: map[string]string{}, asked: map[string]bool{}}
}

func (s *State) holds(what string) { s.Holds = append(s.Holds, what) }

func (s *State) lacks(what, why string) { s.Missing[what] = why }

// lacksAsked is lacks for a protection that the configuration asks for.
func (s *State) lacksAsked(what, why string) {
	s.Missing[what], s.asked[what] = why, true
}

// Log writes one line about what works, and one for each protection that is missing.
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
