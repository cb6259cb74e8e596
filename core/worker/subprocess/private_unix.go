//go:build unix

package subprocess

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// privateFailure begins the error of a launch that could not get private directories for temporary files.
const privateFailure = "private /tmp"

// workPart is the part of a run's directory in which the run works, if other parts replace /tmp and the like.
const workPart = "work"

// privatePart returns the part of a run's directory that replaces another directory.
func privatePart(runDir, dir string) string {
	return filepath.Join(runDir, strings.ReplaceAll(strings.Trim(dir, "/"), "/", "-"))
}

// makeParts divides the directory of a run: one part to work in, which belongs to user and group unless they
// are negative, and one for each private directory. The directory itself belongs to the worker and is
// invisible to the run.
func makeParts(runDir string, private []string, user, group int) error {
	work := privatePart(runDir, workPart)
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	if user >= 0 {
		if err := os.Lchown(work, user, group); err != nil {
			return err
		}
	}
	for _, dir := range private {
		part := privatePart(runDir, dir)
		if err := os.Mkdir(part, 0o700); err != nil {
			return err
		}
		// This ignores the umask and sets the mode that these directories have on the machine.
		if err := os.Chmod(part, 0o777|os.ModeSticky); err != nil { //nolint:gosec // the directory above belongs to the worker alone
			return err
		}
	}
	return nil
}

// tracePaths returns the paths that a rehearsal writes to. None of them must appear on the machine itself.
func tracePaths(private []string) (paths []string) {
	for _, dir := range private {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf(".handoff-rehearsal-%d", os.Getpid())))
	}
	return paths
}

// removeTraces removes the traces of a rehearsal from the machine, and returns their paths.
func removeTraces(private []string) (found []string) {
	for _, path := range tracePaths(private) {
		if _, err := os.Lstat(path); err == nil {
			found = append(found, path)
			_ = os.Remove(path)
		}
	}
	return found
}
