//go:build unix

package rundir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// batch is the maximum number of names that one read returns.
const batch = 1000

// Remove removes a directory, or whatever is at its path, and gives up at the time until. A missing directory
// counts as removed.
//
// The number of open directories does not grow with the depth of the tree: Remove opens only the top
// directory and the directories in it. It moves deeper directories up to the top, and continues there. It
// changes modes that prevent this.
func Remove(dir string, until time.Time) error {
	parent, err := os.Open(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }()
	name := filepath.Base(dir)
	if removeOne(parent, name) == nil {
		return nil
	}
	top, err := openIn(parent, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a process of the run has moved it
	}
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }()
	r := removal{top: top, until: until}
	if err := r.emptyTop(); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return removeOne(parent, name)
}

type removal struct {
	top   *os.File
	moved int
	until time.Time
	// stuck is the reason why something could not be removed.
	stuck error
}

// emptyTop removes everything in top.
func (r *removal) emptyTop() error {
	for {
		left, progress := 0, false
		err := r.eachName(r.top, func(name string) {
			left++
			if r.flattenEntry(name) {
				progress = true
			}
		})
		switch {
		case err != nil:
			return err
		case left == 0:
			return nil
		case !progress:
			return r.stuck
		}
	}
}

// flattenEntry removes an entry of top. It moves directories in the entry up to top, for another round.
func (r *removal) flattenEntry(name string) bool {
	err := removeOne(r.top, name)
	if err == nil {
		return true
	}
	sub, openErr := openIn(r.top, name)
	if openErr != nil {
		r.stuck = errors.Join(err, openErr)
		return false
	}
	defer func() { _ = sub.Close() }()
	progress := false
	err = r.eachName(sub, func(inner string) {
		if removeOne(sub, inner) == nil || r.moveUp(sub, inner) {
			progress = true
		}
	})
	if err != nil {
		r.stuck = err
	}
	return removeOne(r.top, name) == nil || progress
}

// moveUp moves a directory up to top. The directory's own mode may prevent that, because its ".." changes.
func (r *removal) moveUp(from *os.File, name string) bool {
	for range 2 {
		r.moved++
		err := unix.Renameat(int(from.Fd()), name, int(r.top.Fd()), fmt.Sprintf(".handoff-%d", r.moved))
		if err == nil {
			return true
		}
		r.stuck = &os.PathError{Op: "rename", Path: name, Err: err}
		if sub, err := openIn(from, name); err == nil {
			_ = sub.Close()
		}
	}
	return false
}

// eachName calls f with each name in a directory. It returns an error at the time until.
func (r *removal) eachName(dir *os.File, f func(name string)) error {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return err
	}
	for {
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			f(name)
		}
		if time.Now().After(r.until) {
			return errors.New("not everything could be removed in time; the end of another run or the next worker removes the rest")
		}
		if err != nil || len(names) == 0 {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
	}
}

// removeOne removes a file, a link or an empty directory.
func removeOne(dir *os.File, name string) error {
	err := unix.Unlinkat(int(dir.Fd()), name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if dirErr := unix.Unlinkat(int(dir.Fd()), name, unix.AT_REMOVEDIR); dirErr == nil {
		return nil
	} else if !errors.Is(dirErr, unix.ENOTDIR) {
		err = dirErr
	}
	return &os.PathError{Op: "remove", Path: name, Err: err}
}

// openIn opens a directory in dir for reading and changing. It does not follow a link.
func openIn(dir *os.File, name string) (*os.File, error) {
	open := func() (int, error) {
		return unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	}
	fd, err := open()
	if errors.Is(err, unix.EACCES) && unlock(int(dir.Fd()), name) == nil {
		fd, err = open()
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	_ = unix.Fchmod(fd, 0o700)
	return os.NewFile(uintptr(fd), name), nil
}
