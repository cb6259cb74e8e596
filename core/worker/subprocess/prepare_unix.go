//go:build unix

package subprocess

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"handoff/core/config"
	"handoff/core/worker/cgroup"
	"handoff/core/worker/rundir"
)

// rehearsalTimeout bounds the rehearsal, which takes about 20 ms unless the machine is busy.
const rehearsalTimeout = time.Minute

// Prepare sets up the isolation that the Options request: directories, control groups, another user. It ends
// and removes the leftovers of dead workers. Then it makes a rehearsal: a run under this isolation inspects
// its surroundings, and the returned State lists its findings. An error names a required protection that is
// missing. Close releases everything.
func (r *Runner) Prepare(ctx context.Context) (*State, error) {
	s := newState()
	err := r.setUpIsolation(ctx, s)
	if err != nil {
		r.Close()
	}
	return s, err
}

func (r *Runner) setUpIsolation(ctx context.Context, s *State) (err error) {
	iso := &r.options.Isolation
	if iso.User != "" {
		if r.isolation.account, err = lookUp(iso.User); err != nil {
			return fmt.Errorf("worker.isolation.user: %q: %w", iso.User, err)
		}
	}
	if iso.RunDir == "" {
		iso.RunDir = rundir.Default()
	}
	if r.isolation.dirs, err = rundir.Open(iso.RunDir, r.logLeftover); err != nil {
		return fmt.Errorf("worker.isolation.run_dir: %w; name a directory that this worker may write to, and nobody else", err)
	}
	s.addHeld("each run has a directory of its own, which is removed after it")
	if iso.DiskBytes > 0 {
		s.addHeld("the directory of a run is measured every second (disk_bytes)")
	}
	if iso.OutputBytes > 0 {
		s.addHeld("output is bounded (output_bytes)")
	}
	if err := r.openGroups(s); err != nil {
		return err
	}
	elsewhere := "what a run writes outside its directory, or to files that it has removed and keeps open, is not measured; " +
		"let the user of actions write nowhere else, or give it a quota"
	s.addMissing("a bound for files elsewhere", elsewhere)
	if runtime.GOOS != "linux" {
		s.addMissing("isolation from the worker", "it needs Linux; here actions can do whatever the worker's user can")
		return nil
	}
	r.wantPrivate(s)
	seen, err := r.rehearseRun(ctx)
	if err != nil && strings.HasPrefix(err.Error(), privateFailure) {
		s.addMissing(privateFailure, strings.TrimPrefix(err.Error(), privateFailure+": ")+tmpStays)
		r.isolation.private = nil
		seen, err = r.rehearseRun(ctx)
	}
	if err != nil && ctx.Err() == nil {
		seen, err = r.rehearseRun(ctx) // a busy machine may have been too slow
	}
	if err != nil && r.isolation.groups != nil && iso.Cgroup != config.CgroupRequire {
		// A system call filter may forbid starting a process in a group.
		_ = r.isolation.groups.Close()
		r.isolation.groups = nil
		var again error
		if seen, again = r.rehearseRun(ctx); again == nil {
			s.addMissing("control groups", err.Error())
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("the rehearsal of an action failed: %w", err)
	}
	return r.judgeRehearsal(seen, s)
}

// tmpStays describes what happens if runs have no private directories for temporary files.
const tmpStays = "; what runs write to /tmp, /var/tmp and /dev/shm stays there, and is not measured"

// wantPrivate makes the rehearsal test whether each run can have private directories for temporary files.
func (r *Runner) wantPrivate(s *State) {
	switch {
	case r.options.Isolation.PrivateTmp == config.PrivateTmpOff:
		s.addMissing(privateFailure, "worker.isolation.private_tmp is off"+tmpStays)
	case mountLack() != "":
		s.addMissing(privateFailure, mountLack()+tmpStays)
	default:
		r.isolation.private = privateDirs()
	}
}

// openGroups sets up control groups, and weaker limits if control groups are not available.
func (r *Runner) openGroups(s *State) error {
	iso := &r.options.Isolation
	limits := cgroup.Limits{Memory: iso.MemoryBytes, CPUs: iso.CPUs, Processes: iso.Processes}
	missing := map[string]string{}
	if iso.Cgroup == config.CgroupOff {
		s.addMissing("control groups", "worker.isolation.cgroup is off")
	} else {
		var err error
		name := r.options.Name
		if r.isolation.groups, err = cgroup.Open(name, limits); err != nil {
			if iso.Cgroup == config.CgroupRequire {
				return fmt.Errorf("worker.isolation.cgroup is require: %w; delegate the worker's control group to it (systemd: Delegate=yes), or choose auto", err)
			}
			s.addMissing("control groups", err.Error())
		}
	}
	if r.isolation.groups != nil {
		missing = r.isolation.groups.Missing()
	} else {
		for _, c := range limits.Controllers() {
			missing[c] = s.Missing["control groups"]
		}
	}
	keys := map[string]string{"memory": "memory_bytes", "cpu": "cpus", "pids": "processes"}
	for _, c := range limits.Controllers() {
		why, lacks := missing[c]
		if !lacks {
			s.addHeld("runs are limited by worker.isolation." + keys[c])
			continue
		}
		if iso.Cgroup == config.CgroupRequire {
			return fmt.Errorf("worker.isolation.%s can't be enforced, and worker.isolation.cgroup is require: %s", keys[c], why)
		}
		s.addMissingAsked("worker.isolation."+keys[c], why+"; "+r.substituteLimit(c))
		delete(missing, c)
	}
	for what, why := range missing {
		s.addMissing(what, why)
	}
	return nil
}

// substituteLimit sets a weaker limit in place of a missing one, and describes it.
func (r *Runner) substituteLimit(controller string) string {
	switch {
	case controller == "memory":
		r.isolation.data = r.options.Isolation.MemoryBytes
		return "each process is limited instead of each run (RLIMIT_DATA)"
	case controller == "pids" && r.isolation.account != nil:
		r.isolation.userProcesses = r.options.Isolation.Processes * int64(max(1, r.options.Runs))
		return fmt.Sprintf("the user %s is limited to %d processes in all runs together (RLIMIT_NPROC)", r.isolation.account.name, r.isolation.userProcesses)
	case controller == "pids":
		return "nothing limits them: with worker.isolation.user all runs together would be"
	}
	return "nothing limits it"
}

// rehearsal is a script that inspects its run with commands that are built into any shell. It also tries to
// open files that require the right to trace the shim and the worker.
const rehearsal = `pwd
while read -r key rest; do case $key in Uid:|Gid:|Groups:|NoNewPrivs:|CapEff:) echo "$key $rest";; esac; done </proc/self/status
while read -r line; do case $line in 0::*) echo "cgroup: $line";; esac; done </proc/self/cgroup
for p in "$PPID" "$1"; do if (: </proc/$p/environ) 2>/dev/null; then echo "open: $p"; fi; done
if [ -n "$2" ] && [ -r "$2" ]; then echo "readable: $2"; fi
if [ -n "$HANDOFF_ACTIONS_DIR" ] && ! { [ -r "$HANDOFF_ACTIONS_DIR" ] && [ -x "$HANDOFF_ACTIONS_DIR" ]; }; then echo "actions: closed"; fi
shift 2
for file in "$@"; do if ! (: >"$file") 2>/dev/null; then echo "unwritable: $file"; fi; done
exit 0
`

// rehearsalFindings holds what a rehearsal found, by key.
type rehearsalFindings map[string]string

func (r *Runner) rehearseRun(ctx context.Context) (rehearsalFindings, error) {
	ctx, cancel := context.WithTimeout(ctx, rehearsalTimeout)
	defer cancel()
	const shell = "/bin/sh"
	if _, err := os.Stat(shell); err != nil {
		return nil, nil
	}
	secret := r.options.SecretFile
	if secret != "" {
		var err error
		if secret, err = filepath.Abs(secret); err != nil {
			return nil, err
		}
	}
	run, err := r.launchAction(ctx, launch{
		Rehearsal: true,
		Argv:      append([]string{shell, "-c", rehearsal, "rehearsal", fmt.Sprint(os.Getpid()), secret}, tracePaths(r.isolation.private)...), Environment: slices.Clone(r.environment),
		Parameters: []byte("{}"), At: machineClock(), Fence: rehearsalTimeout, Limit: rehearsalTimeout,
	})
	if err != nil {
		return nil, err
	}
	exit, err := run.Wait(ctx)
	if err != nil {
		run.Kill(0)
		return nil, err
	}
	if exit.Killed || exit.Reason != 0 {
		return nil, errors.New(exit.Message)
	}
	found := rehearsalFindings{}
	if left := removeTraces(r.isolation.private); len(left) > 0 {
		return nil, fmt.Errorf("%s: a run's %v remained on the machine after the run", privateFailure, left)
	}
	text := string(run.(*action).out.kept)
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		if i == 0 {
			found["pwd"] = line
			continue
		}
		key, value, _ := strings.Cut(line, ": ")
		found[key] = strings.TrimSpace(value)
	}
	if file := found["unwritable"]; file != "" {
		return nil, fmt.Errorf("%s: a run could not write %s", privateFailure, file)
	}
	return found, nil
}

// judgeRehearsal compares the findings of a rehearsal with the configuration.
func (r *Runner) judgeRehearsal(found rehearsalFindings, s *State) error {
	if found == nil {
		s.addMissing("a rehearsal", "there is no /bin/sh, so nobody looked whether the isolation of actions holds")
		return nil
	}
	if found["actions"] == "closed" {
		return fmt.Errorf("worker.actions_dir: %s can't be read by the user that actions run as; open it and the directories above it", r.options.Actions)
	}
	if _, open := found["open"]; open {
		why := "an action could open /proc/PID/environ of its shim or worker"
		if r.options.Isolation.Privileges == config.KeepPrivileges {
			why += "; worker.isolation.privileges is keep, and this worker's privileges allow that"
		}
		s.addMissingAsked("secrets", why)
	} else {
		s.addHeld("the environment, memory and descriptors of worker and shim are closed to actions")
	}
	if file := found["readable"]; file != "" {
		s.addMissingAsked("the secrets in "+file, "actions can read the file, and it holds a password; hand secrets over by the environment, "+
			"or let actions run as another user (worker.isolation.user) who can't read it")
	}
	if found["NoNewPrivs"] == "1" {
		s.addHeld("actions can't gain privileges, and have none to trace, mount or load modules")
	}
	if private := r.isolation.private; len(private) > 0 {
		s.addHeld("each run has its own " + strings.Join(private, ", ") + ", removed and measured with its directory")
	}
	if a := r.isolation.account; a != nil {
		ids := strings.Fields(found["Uid"])
		if !slices.Equal(ids, slices.Repeat([]string{fmt.Sprint(a.UID)}, 4)) || found["Groups"] != "" {
			return fmt.Errorf("worker.isolation.user: the rehearsal ran with user ids %v and groups %q", ids, found["Groups"])
		}
		s.addHeld("actions run as user " + a.name)
	} else if os.Geteuid() == 0 {
		s.addMissing("another user", "actions run as root, like the worker: they can change this machine, and so whatever starts next on it, "+
			"end the worker, and leave its control groups; set worker.isolation.user")
	} else {
		s.addMissing("another user", "actions run as the worker's user: they can read its files, end it, and leave its control groups; "+
			"a worker that runs as root can give them another user (worker.isolation.user)")
	}
	if r.isolation.groups != nil {
		if !strings.Contains(found["cgroup"], filepath.Base(found["pwd"])) {
			return fmt.Errorf("the rehearsal ran in the control group %q instead of its own", found["cgroup"])
		}
		s.addHeld("everything that a run starts is killed as one control group")
	} else {
		s.addMissing("an end for what outlives both worker and shim",
			"without control groups, a descendant that left its group lives on if somebody kills its shim and its worker with SIGKILL")
	}
	return nil
}
