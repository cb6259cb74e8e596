//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package servers

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"sync"
	"syscall"
)

const privateSupported = true

type signal = syscall.Signal

const (
	sigInt  = syscall.SIGINT
	sigTerm = syscall.SIGTERM
	sigKill = syscall.SIGKILL
	sigStop = syscall.SIGSTOP
	sigCont = syscall.SIGCONT
)

// signalProcess sends a signal to a process, or to a process group if pid is negative. It ignores a process
// that is gone.
func signalProcess(pid int, sig signal) { _ = syscall.Kill(pid, sig) }

func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// lockFile opens a file, creating it if asked, and takes its lock without waiting. Children don't
// inherit the descriptor, so the lock ends with this process.
func lockFile(path string, create bool) (*os.File, error) {
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// ownDir reports whether path is a directory, not a link, that belongs to this process's user.
func ownDir(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// account is the user under which a server runs; nil for this process's own.
type account struct {
	name     string
	uid, gid uint32
}

func (a *account) sysCredential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// takeOwnership makes the account the owner of a file or directory.
func (a *account) takeOwnership(path string) error {
	if a == nil {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// serverAccount chooses the user under which a server runs. Root uses the first existing one of
// these users (PostgreSQL refuses to run as root); any other user runs the server as itself.
func serverAccount(names ...string) (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return &account{name: name, uid: uint32(uid), gid: uint32(gid)}, nil
		}
	}
	return nil, fmt.Errorf("this process is root, and none of the users %q exists, under which the server could run", names)
}

// claimFile is a file with a byte for every port. A process that has chosen a port locks its byte, so that no
// other harness of the same user chooses the port before its server has started. The kernel releases the
// locks when the process ends. The empty file stays.
var claimFile = sync.OnceValue(func() *os.File {
	// Ports belong to the machine, so TMPDIR does not matter. Without the file, only this protection is
	// missing.
	f, err := os.OpenFile(fmt.Sprintf("/tmp/handoff-ports-%d", os.Getuid()), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil
	}
	return f
})

// claimPort reserves a port against other processes of this user, until releasePort. It returns false if
// another process has reserved the port.
func claimPort(port int) bool { return lockPort(port, syscall.F_WRLCK) }

func releasePort(port int) { lockPort(port, syscall.F_UNLCK) }

func lockPort(port int, kind int16) bool {
	f := claimFile()
	return f == nil || syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: kind, Start: int64(port), Len: 1}) == nil
}
