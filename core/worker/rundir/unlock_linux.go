package rundir

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// unlock gives the owner access to a directory. Older kernels can change a mode without following a
// link only through a descriptor.
func unlock(dir int, name string) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return os.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700)
}
