package config

import (
	"path/filepath"
	"strings"
)

// Isolation configures how a worker separates actions from itself, from each other and from the machine. The
// worker reports at start and in /readyz what its machine can't provide.
type Isolation struct {
	// User is the user that actions run as: a name or number, with :GROUP appended for a group other than the
	// user's own. It requires a worker that runs as root. If it is empty, actions run as the worker's user,
	// with all its rights over the worker.
	User string `yaml:"user"`
	// Privileges is drop or keep. With drop, an action can't gain rights through programs like sudo. Under a
	// worker that runs as root it also can't trace processes, mount, load modules or change the network. With
	// keep it can, and it can read the worker's secrets if the worker runs as root.
	Privileges string `yaml:"privileges"`
	// PrivateTmp is auto or off. With auto, each run has its own /tmp, /var/tmp and /dev/shm, like systemd's
	// PrivateTmp, if the worker may mount (CAP_SYS_ADMIN). They count towards disk_bytes and are removed
	// after the run. With off, or without that right, runs share the machine's directories.
	PrivateTmp string `yaml:"private_tmp"`
	// Cgroup is the use of control groups. auto creates one for each run if the kernel permits it. require
	// refuses to start without control groups, or without one of the limits set here. off creates none.
	Cgroup string `yaml:"cgroup"`
	// MemoryBytes bounds the memory of each run, in bytes; 0 for no limit. A run that exceeds it is ended.
	// Without control groups the limit applies to each process.
	MemoryBytes int64 `yaml:"memory_bytes"`
	// CPUs bounds the processor time of each run, in processors: 0.5 is half a processor; 0 for no limit. It
	// requires control groups.
	CPUs float64 `yaml:"cpus"`
	// Processes bounds the processes and threads of each run; 0 for no limit. Without control groups, it
	// bounds all processes of User together; without User as well, there is no bound.
	Processes int64 `yaml:"processes"`
	// DiskBytes bounds the content of a run's directory, in bytes, plus 1 KiB for each name; 0 for no limit.
	// It is measured every second, and a run that exceeds it is ended.
	DiskBytes int64 `yaml:"disk_bytes"`
	// OutputBytes bounds the output of a run, in bytes, separately for standard output and standard
	// error; 0 for no limit. The end of the output is kept.
	OutputBytes int64 `yaml:"output_bytes"`
	// RunDir is the parent of the runs' working directories. It must belong to the worker's user, and no
	// other user may write to it. Empty for handoff-UID in the directory for temporary files.
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

// maxInteger returns the largest integer that readNode and parseText accept for the key; Validate may set a
// lower maximum.
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
