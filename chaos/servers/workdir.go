package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Directories are created with the pending prefix and renamed once their lock is held, so that a sweep never
// finds a running process's directory with a free lock.
const (
	dirPrefix     = "handoff-chaos-"
	pendingPrefix = "." + dirPrefix
	lockName      = "lock"

	// A directory that is still pending after this time belongs to a process that died before the renaming.
	pendingFor = time.Minute
)

// workDir is a process's directory of private instances. The process holds the lock for its lifetime; the
// kernel releases it at the process's end.
type workDir struct {
	path string
	lock *os.File
	keep bool // the directory outlives the process: see openKept
}

func makeWorkDir(base string) (*workDir, error) {
	pending, err := os.MkdirTemp(base, pendingPrefix+"*")
	if err != nil {
		return nil, err
	}
	d := &workDir{path: filepath.Join(base, strings.TrimPrefix(filepath.Base(pending), "."))}
	if d.lock, err = lockFile(filepath.Join(pending, lockName), true); err != nil {
		return nil, errors.Join(err, os.RemoveAll(pending))
	}
	// The servers run as other users, which must be able to traverse the directory.
	if err := os.Chmod(pending, 0o711); err != nil { //nolint:gosec // pass through, not list
		return nil, errors.Join(err, d.lock.Close(), os.RemoveAll(pending))
	}
	if err := os.Rename(pending, d.path); err != nil {
		return nil, errors.Join(err, d.lock.Close(), os.RemoveAll(pending))
	}
	return d, nil
}

// removeDir deletes the directory, unless it is kept, and then releases its lock. It retries, because Erlang
// may write a last file while it ends.
func (w *workDir) removeDir() error {
	if w.keep {
		return w.lock.Close()
	}
	err := os.RemoveAll(w.path)
	for i := 0; err != nil && i < 10; i++ {
		time.Sleep(50 * time.Millisecond)
		err = os.RemoveAll(w.path)
	}
	return errors.Join(err, w.lock.Close())
}

// sweepWorkDirs removes the directories of dead processes. It first kills processes that still run in them,
// though normally none do. It ignores directories of other users.
func sweepWorkDirs(base string, log *lineLog) error {
	var errs []error
	found, err := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range found {
		if !ownDir(dir) {
			continue
		}
		// Without a lock file it is not one of these directories, despite its name.
		lock, err := lockFile(filepath.Join(dir, lockName), false)
		if err != nil {
			continue
		}
		left := processesUnder(dir)
		for _, pid := range left {
			signalProcess(pid, sigKill)
		}
		if err := os.RemoveAll(dir); err != nil {
			errs = append(errs, err)
		} else {
			log.printf("removed %s, left behind by a process that is gone%s", dir, killedText(len(left)))
		}
		_ = lock.Close() // nothing was written
	}
	pending, err := filepath.Glob(filepath.Join(base, pendingPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range pending {
		if info, err := os.Stat(dir); err == nil && ownDir(dir) && time.Since(info.ModTime()) > pendingFor {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// baseDir returns the parent of these directories: os.TempDir as an absolute path, because servers have other
// current directories. The path has no symbolic links, as in the kernel's name of a process's directory. If
// this process is root's and the servers' users can't reach it, as with pam_tmpdir, it is /tmp instead.
func baseDir() (string, error) {
	path, err := filepath.Abs(os.TempDir())
	if err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	if os.Geteuid() == 0 && !isTraversable(path) {
		return filepath.EvalSymlinks("/tmp")
	}
	return path, nil
}

// isTraversable reports whether every user can reach the directory's content.
func isTraversable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

func killedText(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d processes still ran in it)", n)
}

// logTail returns the end of a log file, for error texts, which outlive the file.
func logTail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return lastLines(string(data))
}

// lastLines returns the last lines of a text.
func lastLines(text string) string {
	const most = 2000
	if len(text) > most {
		text = text[len(text)-most:]
		text = text[strings.IndexByte(text, '\n')+1:]
	}
	return text
}
