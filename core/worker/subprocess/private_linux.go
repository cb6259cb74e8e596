package subprocess

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// sharedDirs lists directories that every user may write to, and that are not emptied when a run ends.
var sharedDirs = []string{"/tmp", "/var/tmp", "/dev/shm"}

// privateDirs returns the directories of sharedDirs that this machine has, with links resolved.
func privateDirs() (dirs []string) {
	for _, dir := range sharedDirs {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || slices.Contains(dirs, real) {
			continue
		}
		if info, err := os.Stat(real); err == nil && info.IsDir() {
			dirs = append(dirs, real)
		}
	}
	return dirs
}

// mountLack returns why this process can't mount, or "" if it can.
func mountLack() string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Sprintf("reading capabilities: %v", err)
	}
	if sets[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return fmt.Sprintf("it needs CAP_SYS_ADMIN, which this worker (user %d) does not have", os.Geteuid())
	}
	return ""
}

// secludeThread moves this thread, and the processes that it starts, into a mount namespace. In it, the
// launch's Private directories belong to the run, and the path of the run's directory shows only its work
// part. The paths in Keep stay visible. The caller has locked the thread; the shim's other threads keep the
// machine's view.
func (l *launch) secludeThread() error {
	if len(l.Private) == 0 {
		return nil
	}
	if err := l.mountPrivate(); err != nil {
		return fmt.Errorf("%s: %w", privateFailure, err)
	}
	return nil
}

func (l *launch) mountPrivate() error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	// Mounts made here do not affect the machine, but the machine's unmounts take effect here, too.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("making / a slave: %w", err)
	}
	// Everything is opened before the first mount hides it, and inside this namespace, because it could not
	// be mounted if opened in another one.
	var all []binding
	defer func() {
		for _, b := range all {
			_ = unix.Close(b.fd)
		}
	}()
	add := func(from, at string) error {
		b := binding{at: at}
		var err error
		if b.fd, err = unix.Open(from, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
			return &os.PathError{Op: "open", Path: from, Err: err}
		}
		all = append(all, b)
		return nil
	}
	for _, dir := range l.Private {
		if err := add(privatePart(l.RunDir, dir), dir); err != nil {
			return err
		}
	}
	for _, path := range l.Keep {
		if err := add(path, path); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	if err := add(privatePart(l.RunDir, workPart), l.RunDir); err != nil {
		return err
	}
	for _, b := range all {
		if err := b.mount(); err != nil {
			return fmt.Errorf("mounting over %s: %w", b.at, err)
		}
	}
	return nil
}

// binding is an open file or directory and the path at which to mount it.
type binding struct {
	fd int
	at string
}

// mount mounts the file at the path, unless the path already leads to it.
func (b binding) mount() error {
	var want, seen unix.Stat_t
	if err := unix.Fstat(b.fd, &want); err != nil {
		return err
	}
	err := unix.Stat(b.at, &seen)
	if err == nil && seen.Dev == want.Dev && seen.Ino == want.Ino {
		return nil
	}
	if err != nil {
		if want.Mode&unix.S_IFMT != unix.S_IFDIR {
			return err
		}
		if err := os.MkdirAll(b.at, 0o755); err != nil { //nolint:gosec // actions of any user must be able to pass through it
			return err
		}
	}
	return unix.Mount(fmt.Sprintf("/proc/thread-self/fd/%d", b.fd), b.at, "", unix.MS_BIND|unix.MS_REC, "")
}

// keptPaths returns the paths of a launch that private directories would hide: those of its commands, scripts
// and home.
func (l *launch) keptPaths(private []string) (paths []string) {
	add := func(path string, whole bool) {
		if !filepath.IsAbs(path) {
			return
		}
		path = filepath.Clean(path)
		for _, dir := range slices.Concat(private, sharedDirs) {
			if strings.HasPrefix(path, dir+"/") || whole && path == dir {
				if info, err := os.Stat(path); err == nil && info.IsDir() && !slices.Contains(paths, path) {
					paths = append(paths, path)
				}
			}
		}
	}
	for _, v := range l.Environment {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "HANDOFF_ACTIONS_DIR":
			add(value, true)
		case "HOME":
			add(value, false)
		case "PATH":
			for _, dir := range filepath.SplitList(value) {
				add(dir, false)
			}
		}
	}
	slices.Sort(paths) // a directory comes before the directories in it
	return paths
}
