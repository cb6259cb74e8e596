package subprocess

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// adopts reports whether this process adopts every descendant whose parent is gone, and kills all children
// that it did not start itself.
var adopts atomic.Bool

// ProtectWorker shields this process from the processes that it starts. A worker's main calls it right after
// ShimMain, because until then, processes of the same user can read its environment.
//
//   - It can't be traced, its memory, environment and descriptors can't be read, and it leaves no core file
//     (PR_SET_DUMPABLE). This does not stop root, so actions of a worker that runs as root also lose
//     CAP_SYS_PTRACE.
//   - Processes that it starts do not get the descriptors that it inherited.
//   - If an action kills its shim, surviving processes become children of this process
//     (PR_SET_CHILD_SUBREAPER), which kills them. Therefore no other code of this process may start
//     processes.
func ProtectWorker() {
	concealProcess()
	adopts.Store(unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil)
}

// concealProcess does the part of ProtectWorker that the shim needs, too: the shim holds its reports'
// descriptor.
func concealProcess() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	if unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	// Kernels before 5.11 need this.
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range all {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// keptCapabilities are the capabilities that actions keep under a worker that runs as root. They permit
// handling all users' files, changing to another user and listening on low ports. They do not permit tracing
// processes, loading modules, mounting, or access to devices and memory.
const keptCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_SETPCAP | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_NET_RAW |
	1<<unix.CAP_SYS_CHROOT | 1<<unix.CAP_SETFCAP | 1<<unix.CAP_AUDIT_WRITE

// dropPrivileges permanently drops all but the kept capabilities of this thread and of the processes that it
// starts. The caller has locked the thread.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("setting no_new_privs: %w", err)
	}
	for c := uintptr(0); c < 64; c++ {
		if keptCapabilities&(uint64(1)<<c) != 0 {
			continue
		}
		// Without CAP_SETPCAP the bounding set can't be reduced, but no_new_privs makes it useless.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); errors.Is(err, unix.EINVAL) {
			break // the kernel has no further capabilities
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	for i := range sets {
		kept := uint32(uint64(keptCapabilities) >> (32 * i))
		sets[i].Permitted &= kept
		sets[i].Effective &= kept
		sets[i].Inheritable &= kept
	}
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	return nil
}

// limitArgument is the first argument of a process that limits itself and then becomes an action.
// The kernel limits these resources by process. They can't be set for another process before it
// runs, and they must not limit the shim.
const limitArgument = "action-limits"

// limitedArgv wraps argv so that it runs under the limits by process and by user. Without such limits it
// returns argv unchanged.
func (l *launch) limitedArgv() []string {
	if l.Data == 0 && l.UserProcesses == 0 {
		return l.Argv
	}
	return append([]string{"/proc/self/exe", limitArgument, strconv.FormatInt(l.Data, 10), strconv.FormatInt(l.UserProcesses, 10)}, l.Argv...)
}

// limitMain sets the limits and replaces this process with the action. It returns only if that fails.
func limitMain(args []string) error {
	if len(args) < 3 {
		return errors.New("limits and a command are missing")
	}
	for i, resource := range []int{unix.RLIMIT_DATA, unix.RLIMIT_NPROC} {
		n, err := strconv.ParseUint(args[i], 10, 64)
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("setting limits: %w", err)
		}
	}
	return fmt.Errorf("starting %s: %w", args[2], syscall.Exec(args[2], args[2:], os.Environ()))
}

// useGuardGroup makes a shim start in the shims' control group.
func (r *Runner) useGuardGroup(attr *syscall.SysProcAttr) (release func(), err error) {
	if r.isolation.groups == nil {
		return func() {}, nil
	}
	f, err := r.isolation.groups.Guards().Open()
	if err != nil {
		return nil, fmt.Errorf("opening the control group of shims: %w", err)
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(f.Fd())
	return func() { _ = f.Close() }, nil
}

// processAttributes returns how the action starts: in its own process group, in its control group, as its
// user. Go sets the parent death signal after changing the user, because that change resets the signal.
func (l *launch) processAttributes() (attr *syscall.SysProcAttr, release func(), err error) {
	attr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	release = func() {}
	if l.Account != nil {
		attr.Credential = &syscall.Credential{Uid: l.Account.UID, Gid: l.Account.GID}
	}
	if l.Group != "" {
		f, err := l.Group.Open()
		if err != nil {
			return nil, nil, fmt.Errorf("opening the control group: %w", err)
		}
		attr.UseCgroupFD, attr.CgroupFD = true, int(f.Fd())
		release = func() { _ = f.Close() }
	}
	if err := l.secludeThread(); err != nil {
		release()
		return nil, nil, err
	}
	if !l.KeepPrivileges {
		if err := dropPrivileges(); err != nil {
			release()
			return nil, nil, err
		}
	}
	return attr, release, nil
}
