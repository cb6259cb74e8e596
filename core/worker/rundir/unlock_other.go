//go:build unix && !linux

package rundir

import "golang.org/x/sys/unix"

// unlock lets its owner use a directory.
func unlock(dir int, name string) error {
	return unix.Fchmodat(dir, name, 0o700, unix.AT_SYMLINK_NOFOLLOW)
}
