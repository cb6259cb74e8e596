//go:build unix && !linux

package rundir

import "golang.org/x/sys/unix"

// unlock gives the owner access to a directory.
func unlock(dir int, name string) error {
	return unix.Fchmodat(dir, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
}
