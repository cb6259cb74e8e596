package config

import (
	"path/filepath"
	"strings"
)

// Isolation says how far a worker separates actions from itself, from each other and from the
// machine. The worker reports at start and in /readyz what its machine can't provide.
type Isolation struct {
	// User is the user that actions run as: a name or number, with :GROUP behind it for a group
	// other than the user's own. It needs a worker that runs as root. If it is empty, actions run
	// as the worker's user and can do to the worker whatever that user can.
	User string `yaml:"user"`
	// Privileges is drop or keep. With drop, an action can't gain rights by programs like sudo, and
	// under a worker that runs as root it can't trace processes, mount, load modules or change the
	// network. With keep it can, and it can read the worker's secrets if the worker runs as root.
	Privileges string `yaml:"privileges"`
	// PrivateTmp is auto or off. With auto, each run has its own /tmp, /var/tmp and /dev/shm, like
	// systemd's PrivateTmp, if the worker may mount (CAP_SYS_ADMIN). They count towards disk_bytes
	// and are removed after the run. With off, or without that right, runs share those of the
	// machine.
	PrivateTmp string `yaml:"private_tmp"`
	// Cgroup says whether each run gets a control group. auto makes one where the kernel lets the
	// worker. require refuses to start without control groups, or without one of the limits set
	// here. off makes none.
	Cgroup string `yaml:"cgroup"`
	// MemoryBytes bounds the memory of each run, in bytes; 0 for no limit. A run that needs more is
	// ended. Without control groups the limit applies to each process.
	MemoryBytes int64 `yaml:"memory_bytes"`
	// CPUs is how much processor time each run may take, in processors: 0.5 is half a processor; 0
	// is no limit. It needs control groups.
	CPUs float64 `yaml:"cpus"`
	// Processes bounds the processes and threads of each run; 0 for no limit. Without control
	// groups it bounds those of User in all runs together; without User, too, nothing is bounded.
	Processes int64 `yaml:"processes"`
	// DiskBytes bounds the content of a run's directory, in bytes, with 1 KiB added for each name;
	// 0 for no limit. It is measured every second, and a run that exceeds it is ended.
	DiskBytes int64 `yaml:"disk_bytes"`
	// OutputBytes bounds the output of a run, in bytes, separately for standard output and standard
	// error; 0 for no limit. The end of the output is kept.
	OutputBytes int64 `yaml:"output_bytes"`
	// RunDir is the directory below which each run gets its working directory. It must belong to
	// the worker's user, and nobody else may write to it. Empty for handoff-UID in the directory
	// for temporary files.
	RunDir string `yaml:"run_dir"`
}

// The values of Isolation.Privileges.
const (
	DropPrivileges = "drop"
	KeepPrivileges = "keep"
)

// The values of Isolation.PrivateTmp.
const (
	PrivateTmpAuto = "auto"
	PrivateTmpOff  = "off"
)

// The values of Isolation.Cgroup.
const (
	CgroupAuto    = "auto"
	CgroupRequire = "require"
	CgroupOff     = "off"
)

// mostBytes is the maximum of keys that end in _bytes: 1 PiB.
const mostBytes = int64(1) << 50

func defaultIsolation() Isolation {
	return Isolation{Privileges: DropPrivileges, PrivateTmp: PrivateTmpAuto, Cgroup: CgroupAuto, DiskBytes: 1 << 30, OutputBytes: 1 << 30}
}

// maxInteger is the maximum of a whole number that the key accepts while it is read; Validate may set a
// lower one.
func (l Leaf) maxInteger() int64 {
	if strings.HasSuffix(l.Path, "_bytes") {
		return mostBytes
	}
	return largest
}

func (v *validation) checkIsolation(i Isolation) {
	if i.RunDir != "" && !filepath.IsAbs(i.RunDir) {
		v.addProblem("worker.isolation.run_dir", "is %q, must be an absolute path: it is where actions start, whatever directory the worker is in", i.RunDir)
	}
	if name, group, hasGroup := strings.Cut(i.User, ":"); i.User != "" && (name == "" || hasGroup && group == "") {
		v.addProblem("worker.isolation.user", "is %q; it should look like runner, runner:runner or 10002:10002", i.User)
	}
	if !(i.CPUs >= 0 && i.CPUs <= 10_000) {
		v.addProblem("worker.isolation.cpus", "is %v, must be from 0 to 10000; 0 is no limit", i.CPUs)
	}
	for _, n := range []struct {
		key          string
		value, least int64
		why          string
	}{
		{"memory_bytes", i.MemoryBytes, 8 << 20, "no interpreter starts with less than 8 MiB"},
		{"processes", i.Processes, 4, "a shell that runs a pipeline needs a few"},
		{"disk_bytes", i.DiskBytes, 64 << 10, "less than 64 KiB holds no file worth the name"},
		{"output_bytes", i.OutputBytes, 256 << 10, "the last 256 KiB are kept"},
	} {
		if n.value != 0 && n.value < n.least {
			v.addProblem("worker.isolation."+n.key, "is %d, must be 0, which is no limit, or at least %d: %s", n.value, n.least, n.why)
		}
	}
}
