package servers

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// This file keeps the data and logs of private instances in a directory of the user's choice, for a later Up.

// keepLock is the lock file of a kept directory. Its name differs from that in temporary directories, so that
// no sweep removes a kept directory.
const keepLock = "handoff-keep.lock"

// KeepError reports why a directory can't keep data.
type KeepError struct {
	Dir string
	Why string
}

// Error implements error.
func (k *KeepError) Error() string { return k.Dir + " " + k.Why }

// openKept creates the directory, or reuses a directory that an earlier Up has created. It refuses any other
// directory that is not empty.
func openKept(path string) (*workDir, error) {
	refuse := func(format string, args ...any) (*workDir, error) {
		return nil, &KeepError{path, fmt.Sprintf(format, args...)}
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return refuse("has no absolute path: %v", err)
	}
	// The servers run as other users, which must be able to traverse the directory.
	if err := os.MkdirAll(full, 0o711); err != nil { //nolint:gosec // pass through, not list
		return refuse("can't be made: %v", err)
	}
	// PostgreSQL reports its directory without symbolic links.
	if full, err = filepath.EvalSymlinks(full); err != nil {
		return refuse("can't be found: %v", err)
	}
	found, err := os.ReadDir(full)
	if err != nil {
		return refuse("can't be read: %v", err)
	}
	ours := slices.ContainsFunc(found, func(e os.DirEntry) bool { return e.Name() == keepLock })
	if len(found) > 0 && !ours {
		return refuse("is not empty, and was not made by an earlier run: name a new or empty directory")
	}
	if os.Geteuid() == 0 && !isTraversable(full) {
		return refuse("is closed to the users that PostgreSQL and RabbitMQ run as, which can't reach it: open it and the directories above it (chmod o+x), or name another, such as one in /var/tmp")
	}
	lock, err := lockFile(filepath.Join(full, keepLock), true)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return refuse("is in use by another run: stop that one, or name another directory")
	case err != nil:
		return refuse("can't be locked: %v", err)
	}
	return &workDir{path: full, lock: lock, keep: true}, nil
}

// keptServer is the information that a later Up needs about a kept server.
type keptServer struct {
	// Ports are the server's ports, which are reused if they are free.
	Ports []int `json:"ports"`
	// Name is the name of the database or virtual host.
	Name string `json:"name"`
	// Node is the name of a RabbitMQ node, which can't change because the node's data contains it.
	Node string `json:"node,omitempty"`
}

// loadKept returns the saved information about a server. If there is none, the server never came up, so
// loadKept removes its directory and returns nil.
func (w *workDir) loadKept(server string) (*keptServer, error) {
	if !w.keep {
		return nil, nil
	}
	text, err := os.ReadFile(w.keptFile(server))
	if errors.Is(err, os.ErrNotExist) {
		return nil, os.RemoveAll(filepath.Join(w.path, server))
	}
	var k keptServer
	if err == nil {
		err = json.Unmarshal(text, &k)
	}
	if err == nil && (k.Name == "" || len(k.Ports) == 0) {
		err = fmt.Errorf("%s is incomplete", w.keptFile(server))
	}
	if err != nil {
		return nil, fmt.Errorf("the data that an earlier run has kept can't be used (remove %s to begin anew): %w", w.path, err)
	}
	return &k, nil
}

// saveKept saves the information for a later Up. It does nothing in a temporary directory.
func (w *workDir) saveKept(server string, k keptServer) error {
	if !w.keep {
		return nil
	}
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return os.WriteFile(w.keptFile(server), append(text, '\n'), 0o600)
}

func (w *workDir) keptFile(server string) string {
	return filepath.Join(w.path, server+".kept.json")
}

// attemptPorts returns an earlier run's ports at the first attempt, if they are free. Otherwise it returns
// new ports.
func (k *keptServer) attemptPorts(attempt, n int) ([]int, error) {
	if k != nil && attempt == 1 && len(k.Ports) == n && allFree(k.Ports) {
		return k.Ports, nil
	}
	return pickPorts(n)
}
