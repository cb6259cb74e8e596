//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"handoff/chaos/live/cluster"
)

// nobody is a user without rights.
const nobody = 65534

// variant is a way to run a worker.
type variant struct {
	what string
	as   int
	env  map[string]string
}

// variants are the ways to run this build's worker here.
func (l *lab) variants() []variant {
	all := []variant{{what: fmt.Sprintf("worker as user %d", os.Getuid())}}
	if os.Getuid() == 0 {
		all = append(all, variant{what: "worker without rights", as: nobody})
	}
	if os.Getuid() == 0 && l.knows("isolation") && l.knows("worker.isolation.user") {
		all = append(all, variant{what: "actions as another user", env: map[string]string{"HANDOFF_WORKER_ISOLATION_USER": "nobody"}})
	}
	return all
}

// probeScript starts the probe.
const probeScript = "look.sh"

// probeDir is an actions directory with this program in it.
func (l *lab) probeDir() (string, error) {
	dir := filepath.Join(l.dir, "actions")
	if _, err := os.Stat(filepath.Join(dir, "probe")); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil { //nolint:gosec // actions write there, whoever they are
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	from, err := os.Open(self)
	if err != nil {
		return "", err
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(filepath.Join(dir, "probe"), os.O_CREATE|os.O_WRONLY, 0o755) //nolint:gosec // others run it
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	if closed := to.Close(); err == nil {
		err = closed
	}
	if err == nil {
		// $0 leads to the script's directory, whatever directory it starts in.
		err = os.WriteFile(filepath.Join(dir, probeScript), []byte(`exec "${0%/*}/probe" `+probeArgument+"\n"), 0o755) //nolint:gosec // others run it
	}
	if err == nil {
		err = os.Chmod(dir, 0o777) //nolint:gosec // whatever the mask says
	}
	return dir, err
}

// employ starts a worker as a variant says, and returns its id, too.
func (s *system) employ(ctx context.Context, v variant, o workerOptions) (*cluster.Daemon, int64, error) {
	o.as, o.env, o.name = v.as, v.env, "attacked-"+word()
	var err error
	if o.actions, err = s.lab.probeDir(); err != nil {
		return nil, 0, err
	}
	d, err := s.worker(ctx, o)
	if err != nil {
		return d, 0, err
	}
	id, err := s.workerID(ctx, o.name)
	return d, id, err
}

// findSecrets has an action search for its worker's secrets.
func findSecrets(ctx context.Context, l *lab, r *result) error {
	return l.probed(ctx, r, func(v variant, found loot) {
		what := func(where string) string {
			return fmt.Sprintf("%s, action as %d: secrets in %s", v.what, found.User, where)
		}
		r.count(what("its environment"), found.Environment, 0)
		r.count(what("the environment of processes"), found.Environments, 0)
		r.count(what("the memory of its shim and worker"), found.Memories, 0)
		r.count(fmt.Sprintf("%s: processes above it that it can trace", v.what), found.Traced, 0)
		r.count(fmt.Sprintf("%s: descriptors of its parent that it can open", v.what), found.Opened, 0)
	}, func(s *system, v variant, worker int64) error { return s.dumpCore(ctx, r, v, worker) })
}

// inheritedDescriptors starts the worker with a descriptor of its parent and checks whether it
// reaches the action.
func inheritedDescriptors(ctx context.Context, l *lab, r *result) error {
	return l.probed(ctx, r, func(v variant, found loot) {
		r.count(fmt.Sprintf("%s: descriptors beside the first three %v", v.what, found.Inherited), len(found.Inherited), 0)
	}, nil)
}

// probed runs the probe under each variant, and then calls also, unless it is nil.
func (l *lab) probed(ctx context.Context, r *result, judge func(variant, loot), also func(s *system, v variant, worker int64) error) error {
	s, err := l.common(ctx)
	if err != nil {
		return err
	}
	for _, v := range l.variants() {
		d, id, err := s.employ(ctx, v, workerOptions{secret: secretPrefix + word(), before: "exec 9</etc/hostname"})
		if err != nil {
			r.cannot("%s: %v", v.what, err)
			if d != nil {
				s.stopWorker(ctx, d)
			}
			continue
		}
		e, err := s.run(ctx, "attack.probe", probeScript, 20, id, 25*time.Second)
		var found loot
		if err == nil && e.Result != nil {
			_ = json.Unmarshal(e.Result.Output, &found)
		}
		if !found.Ran {
			r.cannot("%s: the action that looks did not run: %s %v", v.what, e.told(), err)
		} else {
			judge(v, found)
		}
		if also != nil {
			if err := also(s, v, id); err != nil {
				return err
			}
		}
		s.stopWorker(ctx, d)
	}
	return ctx.Err()
}

// dumpCore has an action cause a core dump of its shim, and searches for the file.
func (s *system) dumpCore(ctx context.Context, r *result, v variant, worker int64) error {
	const ask = `[ $PPID -gt 1 ] && { prlimit --core=unlimited --pid $PPID; kill -ABRT $PPID; }; sleep 2`
	if _, err := s.run(ctx, "attack.core", ask, 10, worker, 15*time.Second); err != nil {
		return err
	}
	var found []string
	for _, dir := range []string{s.Servers.Dir(), filepath.Join(s.lab.dir, "actions"), s.lab.dir} {
		cores, _ := filepath.Glob(filepath.Join(dir, "core*"))
		found = append(found, cores...)
	}
	r.count(v.what+": core files", len(found), 0)
	for _, path := range found {
		_ = os.Remove(path)
	}
	return nil
}

// told says in words how an execution ended.
func (e ran) told() string {
	words := []string{e.Status}
	if e.Reason != nil {
		words = append(words, *e.Reason)
	}
	if e.Result != nil {
		words = append(words, e.Result.Message)
	}
	return strings.Join(words, ", ")
}
