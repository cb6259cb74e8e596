//go:build unix

package subprocess

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// privateFailure begins the message of a launch that could not have private directories for temporary files.
const privateFailure = "private /tmp"

// workPart is the part of a run's directory that the run works in, if other parts stand for /tmp and the like.
const workPart = "work"

// privatePart is the part of a run's directory that stands for another directory.
func privatePart(runDir, dir string) string {
	return filepath.Join(runDir, strings.ReplaceAll(strings.Trim(dir, "/"), "/", "-"))
}

// parts divides the directory of a run: one part to work in, which belongs to user and group if they are not negative,
// and one for each private directory. The directory itself is the worker's; the run does not get to see it.
func parts(runDir string, private []string, user, group int) error {
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
		// Whatever the mask says, and as on the machine.
		if err := os.Chmod(part, 0o777|os.ModeSticky); err != nil { //nolint:gosec // it lies in a directory of the worker's alone
			return err
		}
	}
	return nil
}

// leaveTraces are paths that a rehearsal writes to. None of them may exist on the machine.
func leaveTraces(private []string) (paths []string) {
	for _, dir := range private {
		paths = append(paths, filepath.Join(dir, fmt.Sprintf(".handoff-rehearsal-%d", os.Getpid())))
	}
	return paths
}

// findTraces removes what a rehearsal left on the machine, and names it.
func findTraces(private []string) (found []string) {
	for _, path := range leaveTraces(private) {
		if _, err := os.Lstat(path); err == nil {
			found = append(found, path)
			_ = os.Remove(path)
		}
	}
	return found
}
