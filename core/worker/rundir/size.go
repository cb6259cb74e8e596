//go:build unix

package rundir

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// perEntry is the number of bytes added for each name, because millions of empty files fill a disk, too.
	perEntry = 1 << 10
	// deepest is the maximum number of directories open at a time.
	deepest = 500
	// block is the unit of st_blocks in bytes, which does not depend on the file system's block size.
	block = 512
)

// ErrTooDeep means that directories are nested too deeply to be measured.
var ErrTooDeep = errors.New("directories nested deeper than 500 levels")

// Size measures the space that an open directory takes on the disk, in bytes, plus 1 KiB for each name. It
// stops as soon as the sum exceeds limit. Files with several names count once. It does not count open files
// without a name.
func Size(top *os.File, limit int64) (int64, error) {
	if _, err := top.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	m := sizeMeasurement{limit: limit, seen: map[[2]uint64]bool{}}
	err := m.addDir(top, 0)
	return m.sum, err
}

type sizeMeasurement struct {
	sum, limit int64
	// seen holds the counted files that have more than one name.
	seen map[[2]uint64]bool
}

func (s *sizeMeasurement) addDir(dir *os.File, depth int) error {
	if depth > deepest {
		return ErrTooDeep
	}
	for {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			if err := s.addEntry(dir, name, depth); err != nil {
				return err
			}
			if s.sum > s.limit {
				return nil
			}
		}
		if err != nil || len(names) == 0 {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

func (s *sizeMeasurement) addEntry(dir *os.File, name string, depth int) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EACCES) && unix.Fchmod(int(dir.Fd()), 0o700) == nil {
		err = unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return nil // gone meanwhile
	}
	s.sum += perEntry
	if st.Mode&unix.S_IFMT != unix.S_IFDIR && st.Nlink > 1 {
		file := [2]uint64{uint64(st.Dev), st.Ino}
		if s.seen[file] {
			return nil
		}
		s.seen[file] = true
	}
	s.sum += st.Blocks * block
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	sub, err := openToRead(dir, name)
	if err != nil {
		return nil // gone meanwhile, or unreadable
	}
	defer func() { _ = sub.Close() }()
	return s.addDir(sub, depth+1)
}

// openToRead opens a directory for reading. It changes the mode only if the mode prevents reading.
func openToRead(dir *os.File, name string) (*os.File, error) {
	const how = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), name, how, 0)
	if errors.Is(err, unix.EACCES) && unlock(int(dir.Fd()), name) == nil {
		fd, err = unix.Openat(int(dir.Fd()), name, how, 0)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
