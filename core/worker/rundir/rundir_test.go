//go:build unix

package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"handoff/core/testenv"
)

func soon() time.Time { return time.Now().Add(time.Minute) }

func write(t *testing.T, path string, bytes int) {
	t.Helper()
	if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, path string) string {
	t.Helper()
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// deep makes nested directories, deeper than any path can reach, and returns the outermost one.
func deep(t *testing.T, dir string, levels int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		err := unix.Mkdirat(at, "deeper", 0o700)
		if err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, "deeper", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(at)
		at = next
	}
	_ = unix.Close(at)
}

func TestRemoveHandlesAnyContent(t *testing.T) {
	parent := t.TempDir()
	outside := mkdir(t, filepath.Join(parent, "outside"))
	write(t, filepath.Join(outside, "kept"), 1)
	run := mkdir(t, filepath.Join(parent, "run"))
	deep(t, mkdir(t, filepath.Join(run, "deep")), 700)
	if err := os.Symlink(outside, filepath.Join(run, "link")); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"a", "a/b", "a/b/c", "a/.handoff-1"} {
		mkdir(t, filepath.Join(run, d))
		write(t, filepath.Join(run, d, strings.Repeat("n", 255)), 1)
	}
	if err := unix.Mkfifo(filepath.Join(run, "a", "b", "pipe"), 0); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"a/b/c", "a/b", "a", ""} {
		if err := os.Chmod(filepath.Join(run, d), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := Remove(run, soon()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(run); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(outside, "kept")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	if err := Remove(run, soon()); err != nil {
		t.Errorf("removing what is gone: %v", err)
	}
}

func TestLinksAreNotFollowed(t *testing.T) {
	parent := t.TempDir()
	outside := mkdir(t, filepath.Join(parent, "outside"))
	if err := os.Symlink(outside, filepath.Join(parent, "link")); err != nil {
		t.Fatal(err)
	}
	at, err := os.Open(parent)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = at.Close() }()
	for what, open := range map[string]func(*os.File, string) (*os.File, error){"remove": openIn, "measure": openToRead} {
		if f, err := open(at, "link"); err == nil {
			_ = f.Close()
			t.Errorf("to %s, a link was followed", what)
		}
	}
	if err := unlock(int(at.Fd()), "link"); err == nil {
		t.Error("the mode behind a link was changed")
	}
}

func TestRemoveStopsAtDeadline(t *testing.T) {
	run := mkdir(t, filepath.Join(t.TempDir(), "run"))
	for i := range 5 {
		write(t, filepath.Join(run, fmt.Sprint(i)), 0)
	}
	if err := Remove(run, time.Now().Add(-time.Second)); err == nil || !strings.Contains(err.Error(), "could be removed in time") {
		t.Errorf("%v", err)
	}
}

func TestSizeCountsBlocksNamesAndFilesOnce(t *testing.T) {
	dir := mkdir(t, filepath.Join(t.TempDir(), "run"))
	size := func(limit int64) int64 {
		t.Helper()
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		for range 2 { // a second call counts from the beginning
			if _, err := Size(f, limit); err != nil {
				t.Fatal(err)
			}
		}
		n, _ := Size(f, limit)
		return n
	}
	if n := size(1 << 40); n != 0 {
		t.Errorf("an empty directory holds %d bytes", n)
	}
	write(t, filepath.Join(dir, "file"), 1<<20)
	one := size(1 << 40)
	if one < 1<<20+perEntry || one > 1<<20+1<<16 {
		t.Errorf("1 MiB is measured as %d bytes", one)
	}
	for i := range 10 {
		if err := os.Link(filepath.Join(dir, "file"), filepath.Join(dir, fmt.Sprintf("link-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if n := size(1 << 40); n != one+10*perEntry {
		t.Errorf("ten more names of a file count %d bytes", n-one)
	}
	hidden := mkdir(t, filepath.Join(dir, "hidden"))
	write(t, filepath.Join(hidden, "file"), 1<<20)
	for _, mode := range []os.FileMode{0, 0o400, 0o100} {
		if err := os.Chmod(hidden, mode); err != nil {
			t.Fatal(err)
		}
		if n := size(1 << 40); n < one+1<<20 {
			t.Errorf("mode %o hides a file: %d bytes", mode, n)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "file"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if n := size(1 << 40); n > 4<<20 {
		t.Errorf("a hole is measured as %d bytes", n)
	}
	if n := size(1000); n < 1000 || n > 2<<20 {
		t.Errorf("beyond its limit it goes on to %d", n)
	}
	deep(t, dir, deepest+5)
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := Size(f, 1<<40); !errors.Is(err, ErrTooDeep) {
		t.Errorf("%v", err)
	}
}

func TestOpenRemovesOnlyDeadWorkersDirectories(t *testing.T) {
	base := filepath.Join(t.TempDir(), "runs")
	failed := func(err error) { t.Error(err) }
	living, err := Open(base, failed)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := living.New("1-1", -1, -1)
	if err != nil {
		t.Fatal(err)
	}
	dead := mkdir(t, filepath.Join(base, "worker-dead"))
	write(t, filepath.Join(dead, "left"), 1)
	next, err := Open(base, failed)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a dead worker left is still there: %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("the run of a living worker lost its directory: %v", err)
	}
	write(t, filepath.Join(filepath.Dir(mine), "stray"), 1)
	other, err := living.New("2-1", -1, -1)
	if err != nil {
		t.Fatal(err)
	}
	living.Remove(mine, time.Minute, failed)
	if left, err := os.ReadDir(filepath.Dir(mine)); err != nil || len(left) != 1 || left[0].Name() != filepath.Base(other) {
		t.Errorf("after the end of one of two runs there is %v, %v", left, err)
	}
	if err := living.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(base); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// An action that runs as the worker's user can put a FIFO among the directories of workers. Opening it would
// block the next worker until a writer opens it.
func TestFifoDoesNotBlockOpen(t *testing.T) {
	base := mkdir(t, filepath.Join(t.TempDir(), "runs"))
	fifo := filepath.Join(base, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		p, err := Open(base, func(err error) { t.Error(err) })
		if err == nil {
			err = p.Close(time.Minute)
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(testenv.Patience()):
		t.Fatal("a worker waits for the FIFO in " + base)
	}
	if _, err := os.Lstat(fifo); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the FIFO is still there: %v", err)
	}
}

func TestDirectoryWritableByOthersIsRefused(t *testing.T) {
	parent := t.TempDir()
	open := mkdir(t, filepath.Join(parent, "open"))
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(parent, "link")
	if err := os.Symlink(mkdir(t, filepath.Join(parent, "target")), link); err != nil {
		t.Fatal(err)
	}
	for _, base := range []string{open, link} {
		if _, err := Open(base, func(error) {}); err == nil || !strings.Contains(err.Error(), "must be") && !strings.Contains(err.Error(), "must belong") {
			t.Errorf("%s: %v", base, err)
		}
	}
}

// The end of a run removes strays: directories that belong to no run. A past bug removed the directory of a
// run that was just beginning, before the directory was opened.
func TestNewRunKeepsDirectoryWhileOthersEnd(t *testing.T) {
	p, err := Open(filepath.Join(t.TempDir(), "base"), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	var runs sync.WaitGroup
	for range 8 {
		runs.Go(func() {
			for range 200 {
				dir, err := p.New("1-1", -1, -1)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(dir); err != nil {
					t.Error(err)
				}
				p.Remove(dir, time.Minute, func(err error) { t.Error(err) })
			}
		})
	}
	runs.Wait()
	if err := p.Close(time.Minute); err != nil {
		t.Error(err)
	}
}
