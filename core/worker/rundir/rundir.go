//go:build unix

package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// staleTimeout bounds the removal of one earlier worker's leftovers.
const staleTimeout = 10 * time.Minute

// Default returns the parent directory of runs if none is configured. It is below the directory for temporary
// files and has a name that no other user's worker uses.
func Default() string { return filepath.Join(os.TempDir(), fmt.Sprintf("handoff-%d", os.Getuid())) }

// Parent holds the directories of one worker's runs.
type Parent struct {
	dir  string
	lock *os.File

	mu sync.Mutex
	// runs holds the names of entries that belong to a run or are being removed.
	runs map[string]bool
	// removals counts the removals in the background.
	removals sync.WaitGroup
}

// Open makes a directory for the runs of a worker below base. It makes base if it is missing; base must
// belong to this user alone. It removes the leftovers of dead workers in the background, and calls failed
// with the errors.
func Open(base string, failed func(error)) (*Parent, error) {
	base, err := filepath.Abs(base)
	if err != nil {
		return nil, err
	}
	// Other users may pass through, because an action that runs as another user must reach its own directory.
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(base, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	all, err := openOwn(base)
	if err != nil {
		return nil, err
	}
	defer func() { _ = all.Close() }()
	// This lock prevents other workers from removing the new directory as a leftover before the directory
	// itself is locked.
	if err := flock(all, unix.LOCK_EX); err != nil {
		return nil, fmt.Errorf("locking %s: %w", base, err)
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	p := &Parent{runs: map[string]bool{}}
	for _, e := range entries {
		p.takeStale(filepath.Join(base, e.Name()), failed)
	}
	if p.dir, err = os.MkdirTemp(base, "worker-"); err != nil {
		return nil, err
	}
	if err := os.Chmod(p.dir, 0o711); err != nil {
		return nil, err
	}
	if p.lock, err = os.Open(p.dir); err != nil {
		return nil, err
	}
	return p, flock(p.lock, unix.LOCK_EX|unix.LOCK_NB)
}

// openOwn opens a directory, which must belong to this user and be writable by no other.
func openOwn(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s must be a directory, not a link: %w", dir, err)
	}
	f := os.NewFile(uintptr(fd), dir)
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		_ = f.Close()
		return nil, fmt.Errorf("%s belongs to user %d and has mode %04o; it must belong to the worker's user (%d), and nobody else may write to it",
			dir, owner, info.Mode().Perm(), os.Geteuid())
	}
	return f, nil
}

// takeStale removes the leftovers of a dead worker.
func (p *Parent) takeStale(dir string, failed func(error)) {
	// An action that runs as the worker's user may have put a FIFO here, and opening one would block.
	held, err := os.OpenFile(dir, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	if flock(held, unix.LOCK_EX|unix.LOCK_NB) != nil {
		_ = held.Close() // its worker is alive
		return
	}
	p.removals.Go(func() {
		defer func() { _ = held.Close() }()
		if err := Remove(dir, time.Now().Add(staleTimeout)); err != nil {
			failed(fmt.Errorf("removing what an earlier worker left: %w", err))
		}
	})
}

// New makes the directory of a run. The directory belongs to user and group unless they are negative.
func (p *Parent) New(name string, user, group int) (string, error) {
	// Without the lock, the end of another run could mistake the new directory for a stray.
	p.mu.Lock()
	dir, err := os.MkdirTemp(p.dir, name+".")
	p.runs[filepath.Base(dir)] = err == nil
	p.mu.Unlock()
	if err != nil {
		return "", fmt.Errorf("making the directory of a run: %w", err)
	}
	if user >= 0 {
		if err := os.Lchown(dir, user, group); err != nil {
			return "", errors.Join(fmt.Errorf("handing the directory of a run to its user: %w", err), os.Remove(dir))
		}
	}
	return dir, nil
}

// Remove removes the directory of a run, and all strays next to it, because an action may have moved its
// directory. A removal that takes longer than patience continues in the background; failed gets the errors.
func (p *Parent) Remove(dir string, patience time.Duration, failed func(error)) {
	done := make(chan struct{})
	p.removals.Go(func() {
		defer close(done)
		until := time.Now().Add(staleTimeout)
		err := Remove(dir, until)
		p.forgetEntry(filepath.Base(dir))
		for _, name := range p.takeStrays() {
			err = errors.Join(err, Remove(filepath.Join(p.dir, name), until))
			p.forgetEntry(name)
		}
		if err != nil {
			failed(fmt.Errorf("removing the directory of a run: %w", err))
		}
	})
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

// forgetEntry records that an entry no longer belongs to a run and is no longer being removed.
func (p *Parent) forgetEntry(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.runs, name)
}

// takeStrays returns the entries that belong to no run and are not being removed. The caller must remove them
// and call forgetEntry for each.
func (p *Parent) takeStrays() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, err := os.Open(p.dir)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	all, _ := f.Readdirnames(1000)
	for _, name := range all {
		if !p.runs[name] {
			p.runs[name] = true
			names = append(names, name)
		}
	}
	return names
}

// Close waits at most patience for removals, and removes the worker's own directory.
func (p *Parent) Close(patience time.Duration) error {
	done := make(chan struct{})
	go func() {
		p.removals.Wait()
		close(done)
	}()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
	err := Remove(p.dir, time.Now().Add(patience))
	return errors.Join(err, p.lock.Close())
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
