//go:build unix

package subprocess

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"handoff/core/config"
	"handoff/core/worker/cgroup"
	"handoff/core/worker/rundir"
)

// isolation holds the protections that Prepare could set up on this machine. The zero value is none.
type isolation struct {
	dirs    *rundir.Parent
	groups  *cgroup.Parent
	account *account
	// data and userProcesses are weaker limits that replace missing ones.
	data, userProcesses int64
	// private lists the directories that are private to each run; empty if that is not possible.
	private []string
}

const (
	// removePatience is how long the end of a run waits for the removal of its directory, which then
	// continues in the background.
	removePatience = time.Second
	// closePatience is how long the end of a worker waits for removals. The next worker removes the rest.
	closePatience = 5 * time.Second
)

// furnishRun gives a run its directory, control group and limits.
func (r *Runner) furnishRun(l *launch) (err error) {
	l.KeepPrivileges, l.Account = r.options.Isolation.Privileges == config.KeepPrivileges, r.isolation.account
	l.Data, l.UserProcesses = r.isolation.data, r.isolation.userProcesses
	name := fmt.Sprintf("%d-%d", l.Execution, l.Epoch)
	if r.isolation.dirs != nil {
		uid, gid := -1, -1
		if l.Account != nil {
			uid, gid = int(l.Account.UID), int(l.Account.GID)
		}
		if len(r.isolation.private) > 0 {
			l.RunDir, err = r.isolation.dirs.New(name, -1, -1)
		} else {
			l.RunDir, err = r.isolation.dirs.New(name, uid, gid)
		}
		if err != nil {
			return err
		}
		if len(r.isolation.private) > 0 {
			l.Private = r.isolation.private
			if err := makeParts(l.RunDir, l.Private, uid, gid); err != nil {
				r.tidyRun(*l)
				return fmt.Errorf("dividing the directory of a run: %w", err)
			}
		}
		l.Dir, l.Disk = l.RunDir, r.options.Isolation.DiskBytes
		l.Environment = append(withoutVariables(l.Environment, "TMPDIR"), "TMPDIR="+l.RunDir)
		name = filepath.Base(l.RunDir) // directory and group have the same name, which no other run has
	}
	if a := l.Account; a != nil {
		l.Environment = append(withoutVariables(l.Environment, "HOME", "USER", "LOGNAME", "SHELL"), "HOME="+a.home, "USER="+a.name, "LOGNAME="+a.name)
	}
	if r.options.Actions != "" {
		dir, err := filepath.Abs(r.options.Actions)
		if err != nil {
			return err
		}
		l.Environment = append(l.Environment, "HANDOFF_ACTIONS_DIR="+dir)
	}
	if len(l.Private) > 0 {
		l.Keep = l.keptPaths(l.Private)
	}
	if r.isolation.groups != nil {
		if l.Group, err = r.isolation.groups.New(name); err != nil {
			r.tidyRun(*l)
			return err
		}
	}
	return nil
}

// tidyRun releases what furnishRun gave a run, after the run's shim is gone: it ends processes, and removes
// the group and the directory.
func (r *Runner) tidyRun(l launch) {
	if l.Group != "" {
		if err := errors.Join(l.Group.Kill(answerTimeout), l.Group.Remove(groupTimeout)); err != nil {
			r.logLeftover(err)
		}
	}
	if l.RunDir != "" {
		r.isolation.dirs.Remove(l.RunDir, removePatience, r.logLeftover)
	}
}

func (r *Runner) logLeftover(err error) {
	r.options.Log.Warn("something of a run is left; the next worker that starts here tries to remove it", slog.Any("error", err))
}

// Close releases what Prepare set up. No run may be in progress.
func (r *Runner) Close() {
	var err error
	if r.isolation.groups != nil {
		err = r.isolation.groups.Close()
	}
	if r.isolation.dirs != nil {
		err = errors.Join(err, r.isolation.dirs.Close(closePatience))
	}
	if err != nil {
		r.logLeftover(err)
	}
}

// withoutVariables returns the environment without the named variables.
func withoutVariables(environment []string, names ...string) []string {
	kept := make([]string, 0, len(environment))
next:
	for _, v := range environment {
		for _, name := range names {
			if strings.HasPrefix(v, name+"=") {
				continue next
			}
		}
		kept = append(kept, v)
	}
	return kept
}

// lookUp finds a user by name or number, optionally followed by :GROUP for a group other than the user's own.
func lookUp(text string) (*account, error) {
	name, group, hasGroup := strings.Cut(text, ":")
	u, err := user.Lookup(name)
	if uid, number := strconv.ParseUint(name, 10, 32); number == nil {
		if u, err = user.LookupId(name); err != nil {
			// A number needs no entry in the user database, because containers often lack entries.
			u, err = &user.User{Uid: name, Gid: name, Username: strconv.FormatUint(uid, 10), HomeDir: "/"}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	gid := u.Gid
	if hasGroup {
		gid = group
		if _, number := strconv.ParseUint(group, 10, 32); number != nil {
			g, err := user.LookupGroup(group)
			if err != nil {
				return nil, err
			}
			gid = g.Gid
		}
	}
	a := &account{name: u.Username, home: u.HomeDir}
	for _, n := range []struct {
		text string
		to   *uint32
	}{{u.Uid, &a.UID}, {gid, &a.GID}} {
		v, err := strconv.ParseUint(n.text, 10, 32)
		if err != nil {
			return nil, err
		}
		*n.to = uint32(v)
	}
	switch {
	case a.UID == 0:
		return nil, errors.New("is root, and no file can be protected from root; name a user without rights")
	case int(a.UID) == os.Geteuid():
		return nil, errors.New("is the user that the worker runs as; name another one, or leave the key out")
	case os.Geteuid() != 0:
		return nil, fmt.Errorf("needs a worker that runs as root, and this one runs as user %d; start it as root, or leave the key out", os.Geteuid())
	}
	return a, nil
}
