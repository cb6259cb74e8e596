package subprocess

import (
	"context"
	"log/slog"
	"maps"
	"slices"
)

// Isolation says how far actions are kept from their worker, from each other and from what they leave behind.
type Isolation struct {
	// User is whom actions run as: a name or number, with :GROUP behind it for another group than the user's own.
	// Empty for the worker's user. Another user needs a worker that runs as root.
	User string
	// KeepPrivileges leaves actions the capabilities of the worker, and lets them gain others by programs like sudo. An
	// action of a worker that runs as root can read the worker's secrets then.
	KeepPrivileges bool
	// SharedTmp leaves /tmp, /var/tmp and /dev/shm to all runs and the machine. Else each run gets its own, where the
	// worker has the right to mount.
	SharedTmp bool
	// Cgroup is one of the Cgroup constants; empty for CgroupAuto.
	Cgroup string
	// MemoryBytes, CPUs and Processes bound each run; 0 for no limit. They need control groups, except that memory and
	// processes have a weaker limit without (see State).
	MemoryBytes int64
	CPUs        float64
	Processes   int64
	// DiskBytes bounds what the directory of a run may hold; 0 for no limit. It is measured every second.
	DiskBytes int64
	// OutputBytes bounds what a run may write to each of its output streams; 0 for no limit.
	OutputBytes int64
	// RunDir is the directory below which each run gets one of its own; empty for one in the directory for temporary files.
	RunDir string
	// Runs is how many runs there are at a time. It counts where a limit holds for all of them together only.
	Runs int
	// SecretFile is a file that actions should not be able to read; empty for none.
	SecretFile string
}

// What Isolation.Cgroup may be.
const (
	CgroupAuto    = "auto"    // use them where they can be had
	CgroupRequire = "require" // do not start without them, nor without a limit that is set
	CgroupOff     = "off"
)

// State is what holds on this machine, found by a rehearsal.
type State struct {
	// Holds lists what actions can't do here.
	Holds []string `json:"holds"`
	// Missing says what could be had elsewhere, and why not here.
	Missing map[string]string `json:"missing"`

	// asked are those of Missing that the configuration asks for.
	asked map[string]bool
}

func newState() *State {
	return &State{Holds: []string{}, Missing: map[string]string{}, asked: map[string]bool{}}
}

func (s *State) holds(what string) { s.Holds = append(s.Holds, what) }

func (s *State) lacks(what, why string) { s.Missing[what] = why }

// lacksAsked is for what the configuration asks for.
func (s *State) lacksAsked(what, why string) {
	s.Missing[what], s.asked[what] = why, true
}

// Log writes a line about what holds, and one for each thing that does not.
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
