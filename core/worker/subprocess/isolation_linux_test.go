package subprocess

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"handoff/core/config"
	"handoff/core/execution"
	"handoff/core/host/without"
)

// needRoot skips a test unless it runs as root: only root can run a worker or actions as another user.
func needRoot(t *testing.T) {
	t.Helper()
	var lack error
	if os.Geteuid() != 0 {
		lack = errors.New("this is not root, so no process runs as another user")
	}
	without.Need(t, without.Root, lack)
}

// needMounts skips a test unless this process can mount. Even root can't in some containers.
func needMounts(t *testing.T) {
	t.Helper()
	needRoot(t)
	probe := exec.Command("/bin/true")
	probe.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	var lack error
	if err := probe.Run(); err != nil {
		lack = fmt.Errorf("no mounts of a process's own here: %w", err)
	}
	without.Need(t, without.Mounts, lack)
}

// needCgroup skips a test unless its control group can be divided.
func needCgroup(t *testing.T) {
	t.Helper()
	r := New(Options{Isolation: config.Isolation{Cgroup: config.CgroupRequire}, Name: "probe"})
	lack := r.openGroups(newState())
	r.Close()
	without.Need(t, without.Cgroup, lack)
}

// users returns the users as which the worker runs in a test: the current user and, if that is root, a user
// without rights.
func users(t *testing.T) []int {
	t.Helper()
	if os.Geteuid() != 0 {
		return []int{os.Geteuid()}
	}
	return []int{0, nobody}
}

func TestActionFindsNoWorkerSecret(t *testing.T) {
	t.Parallel()
	for _, user := range users(t) {
		dir := yard(t)
		w := isolatedWorker{Dir: dir, Lines: []string{
			"env", attackLine(t, dir),
			"grep -h 'Max core file size' /proc/$PPID/limits /proc/$WORKER/limits | grep -v ' 0  *0 '; prlimit --core=unlimited --pid $PPID && echo raised; exit 0",
		}}
		f := w.start(t, user)
		if f.Error != "" || len(f.Exits) != 3 {
			t.Fatalf("user %d: %+v", user, f)
		}
		if env := output(t, f.Exits[0]); strings.Contains(env, secret) || !strings.Contains(env, "TMPDIR="+w.Isolation.RunDir) {
			t.Errorf("user %d: environment %s", user, env)
		}
		if found := output(t, f.Exits[1]); found != "" || f.Exits[1].Reason != execution.NoReason {
			t.Errorf("user %d, %+v: the attacker found\n%s", user, f.Exits[1], found)
		}
		if cores := output(t, f.Exits[2]); cores != "" {
			t.Errorf("user %d: worker and shim may leave core files: %s", user, cores)
		}
	}
}

// An action that runs as root and keeps its privileges may read everything, so the attack can succeed. Even
// then its shim has nothing to reveal.
func TestShimLacksWorkerEnvironment(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := yard(t)
	w := isolatedWorker{Dir: dir, Isolation: config.Isolation{Privileges: config.KeepPrivileges}, Lines: []string{"tr '\\0' '\\n' </proc/$PPID/environ", attackLine(t, dir)}}
	f := w.start(t, 0)
	if len(f.Exits) != 2 {
		t.Fatalf("%+v", f)
	}
	shim, found := output(t, f.Exits[0]), output(t, f.Exits[1])
	if strings.Contains(shim, "HANDOFF_") || !strings.Contains(shim, "GOMAXPROCS=1") {
		t.Errorf("the shim's environment:\n%s", shim)
	}
	for _, want := range []string{"environ: the secret", "shim: opened fd/3", "worker: opened mem", "worker: took a descriptor", "worker: could read memory", "worker: traced"} {
		if !strings.Contains(found, want) {
			t.Errorf("the attack can't find %q, so that it finds nothing proves nothing:\n%s", want, found)
		}
	}
	if f.State.Missing["secrets"] == "" {
		t.Errorf("the worker does not say that its secrets are open: %+v", f.State)
	}
}

func TestInheritedDescriptorsDoNotReachActions(t *testing.T) {
	t.Parallel()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = read.Close(), write.Close() }()
	dir := yard(t)
	w := isolatedWorker{Dir: dir, Lines: []string{"ls /proc/$$/fd; ls /proc/self/fd >&2"}, Isolation: config.Isolation{RunDir: filepath.Join(dir, "runs")}}
	cmd := w.command(t, os.Geteuid())
	cmd.ExtraFiles = []*os.File{read, read, write, write, write}
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), `"0\n1\n2\n`) || strings.Contains(string(out), `\n3`) {
		t.Errorf("%v, %s", err, out)
	}
}

// These actions make cleaning up as hard as possible, but nothing is left of them.
func TestHostileActionsLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	note := func(name string) string {
		return `echo $$ >"$NOTES/` + name + `.new"; mv "$NOTES/` + name + `.new" "$NOTES/` + name + `"; `
	}
	away := func(name string) string {
		return `setsid sh -c '` + note(name) + `exec sleep 9999' & while ! test -e "$NOTES/` + name + `"; do sleep 0.01; done; `
	}
	lines := []string{
		// These kill their shim, at once or after starting descendants that fork twice or restart.
		away("a") + `kill -9 $PPID; sleep 9999`,
		`(setsid sh -c '(trap "" TERM; exec sleep 9999) & sleep 9999' &); ` + away("b") + `kill -9 $PPID; sleep 9999`,
		`r() { (trap '' TERM; setsid sh -c 'sleep 9999 & sleep 0.01; sleep 9999' & wait; sleep 9999) & }; r; r; r; ` + away("c") + `kill -9 $PPID; sleep 9999`,
		// These protect their files by modes, and rename their directory.
		`mkdir -p a/b/c; echo x >a/b/c/d; ln -s / a/root; mkfifo a/pipe; chmod 0 a/b/c a/b a .; exit 0`,
		`mkdir x; mv "$TMPDIR" "$TMPDIR.moved"; ln -s "$NOTES" "$TMPDIR"; exit 0`,
		away("d") + `exit 0`,
		`i=0; while test $i -lt 150; do setsid sleep 9999 & i=$((i+1)); done; ` + away("e") + `kill -9 $PPID; sleep 9999`,
	}
	for _, user := range users(t) {
		for _, mode := range []string{config.CgroupOff, config.CgroupAuto} {
			w := isolatedWorker{Dir: yard(t), Isolation: config.Isolation{Cgroup: mode}, Lines: lines}
			if f := w.start(t, user); len(f.Exits) != len(lines) {
				t.Errorf("user %d, cgroup %s: %+v", user, mode, f)
			}
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				var pid int
				text, err := os.ReadFile(filepath.Join(w.Dir, name))
				if _, scan := fmt.Sscan(string(text), &pid); err != nil || scan != nil {
					t.Errorf("user %d, cgroup %s: process %s did not start: %v, %v", user, mode, name, err, scan)
				} else if !gone(pid) {
					t.Errorf("user %d, cgroup %s: process %s lives", user, mode, name)
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
	}
}

// An action kills its worker, and kills or stops its shim. The next worker ends all remaining processes,
// because nothing escapes a control group.
func TestNextWorkerEndsLeftoversOfKilledOne(t *testing.T) {
	t.Parallel()
	needCgroup(t)
	for _, deed := range []string{`kill -9 $WORKER $PPID`, `kill -9 $WORKER`} {
		w := isolatedWorker{Dir: yard(t), Isolation: config.Isolation{Cgroup: config.CgroupRequire}, Lines: []string{
			`kill -STOP $PPID; setsid sh -c 'echo $$ '$PPID' >"$NOTES/pids.new"; mv "$NOTES/pids.new" "$NOTES/pids"; exec sleep 9999' & ` +
				`while ! test -e "$NOTES/pids"; do sleep 0.01; done; echo x >file; ` + deed + `; sleep 9999`,
		}}
		w.Isolation.RunDir = filepath.Join(w.Dir, fmt.Sprintf("runs-%d", os.Geteuid()))
		first := w.command(t, os.Geteuid())
		first.Stdout = nil // a surviving process would hold a pipe open
		if err := first.Run(); err == nil {
			t.Fatal("the worker was not killed")
		}
		var pid, shim int
		text, err := os.ReadFile(filepath.Join(w.Dir, "pids"))
		if _, scan := fmt.Sscan(string(text), &pid, &shim); err != nil || scan != nil {
			t.Fatal(err, scan)
		}
		if gone(pid) {
			t.Fatal("the action did not get away, so there is nothing to end")
		}
		w.Lines = []string{"exit 0"}
		w.start(t, os.Geteuid())
		eventually(t, "the death of what got away", patience, func() bool { return gone(pid) && gone(shim) })
		if left := groupsLeft(first.Process.Pid); len(left) > 0 {
			t.Errorf("the first worker's control groups are left: %v", left)
		}
	}
}

func TestRunEndsAtDiskLimit(t *testing.T) {
	t.Parallel()
	w := isolatedWorker{Dir: yard(t), Isolation: config.Isolation{DiskBytes: 8 << 20}, Lines: []string{
		`head -c 9000000 /dev/zero >big; sleep 9999`,
		`mkdir -m 0300 a; mkdir a/b; head -c 9000000 /dev/zero >a/b/big; chmod 0 a/b; sleep 9999`,
		`mkdir -p $(i=0; while test $i -lt 600; do printf d/; i=$((i+1)); done); sleep 9999`,
		`head -c 100000 /dev/zero >small; sleep 1.2; exit 0`,
	}}
	for _, user := range users(t)[len(users(t))-1:] {
		f := w.start(t, user)
		for i, want := range []string{string(causeDisk), string(causeDisk), string(causeDeep), ""} {
			if e := f.Exits[i]; e.Killed || !strings.Contains(e.Message, want) || (want == "") != (e.Reason == execution.NoReason) {
				t.Errorf("%s: %+v", w.Lines[i], e)
			}
		}
	}
}

func TestRunEndsAtOutputLimit(t *testing.T) {
	t.Parallel()
	w := isolatedWorker{Dir: yard(t), Isolation: config.Isolation{OutputBytes: 1 << 20}, Lines: []string{`yes; sleep 9999`, `head -c 100000 /dev/zero`}}
	f := w.start(t, os.Geteuid())
	if e := f.Exits[0]; e.Killed || e.Reason != execution.Unknown || !strings.Contains(e.Message, string(causeOutput)) {
		t.Errorf("%+v", e.Message)
	}
	if e := f.Exits[1]; e.Reason != execution.NoReason {
		t.Errorf("%+v", e)
	}
}

func TestActionsRunAsConfiguredUser(t *testing.T) {
	t.Parallel()
	needRoot(t) // no other test may use this user, because the attacker could read that test's processes
	dir := yard(t)
	private := filepath.Join(dir, "handoff.yaml")
	if err := os.WriteFile(private, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	witness := filepath.Join(dir, "witness")
	w := isolatedWorker{Dir: dir, Witness: witness, Isolation: config.Isolation{User: "65533:65533", Processes: 50}, Runs: 2, SecretFile: private, Lines: []string{
		`id -u; id -g; id -G; echo "$HOME"; pwd; echo mine >file; cat file; cat ` + private + `; kill -9 $PPID; echo "$?"`,
		attackLine(t, dir),
		`ulimit -p 2>/dev/null || ulimit -u`,
	}}
	f := w.start(t, 0)
	if f.Error != "" {
		t.Fatal(f.Error)
	}
	got := strings.Split(output(t, f.Exits[0]), "\n")
	if len(got) < 7 || strings.Join(got[:3], " ") != "65533 65533 65533" || !strings.HasPrefix(got[4], w.Isolation.RunDir) || got[5] != "mine" || got[6] == "0" {
		t.Errorf("%q, %+v", got, f.Exits[0])
	}
	if found := output(t, f.Exits[1]); found != "" {
		t.Errorf("the attacker found\n%s", found)
	}
	if text, err := os.ReadFile(witness); err != nil || strings.Count(string(text), `"event":"end"`) != 3 || strings.Contains(string(text), `"execution":0,`) {
		t.Errorf("the witness of three runs, and of no rehearsal: %s, %v", text, err)
	}
	if _, lacks := f.State.Missing["worker.isolation.processes"]; lacks && strings.TrimSpace(output(t, f.Exits[2])) != "100" {
		t.Errorf("without the controller pids, the user's processes are limited to %s", output(t, f.Exits[2]))
	}
	for what := range f.State.Missing {
		if strings.Contains(what, "secrets") || what == "another user" {
			t.Errorf("%s: %s", what, f.State.Missing[what])
		}
	}
}

func TestUnusableUserIsRefused(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]string{
		"0": "is root", "no-such-user": "unknown user", fmt.Sprint(os.Geteuid()): "is ",
	} {
		r := New(Options{Isolation: config.Isolation{User: user, RunDir: filepath.Join(t.TempDir(), "runs")}})
		if _, err := r.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "worker.isolation.user") {
			t.Errorf("%s: %v", user, err)
		}
	}
	if os.Geteuid() == 0 {
		dir := yard(t)
		w := isolatedWorker{Dir: dir, Isolation: config.Isolation{User: "1"}}
		if f := w.start(t, nobody); !strings.Contains(f.Error, "needs a worker that runs as root") {
			t.Errorf("%+v", f)
		}
	}
}

func TestLimitWithoutControllerIsReplacedOrRefused(t *testing.T) {
	t.Parallel()
	w := isolatedWorker{Dir: yard(t), Isolation: config.Isolation{Cgroup: config.CgroupOff, MemoryBytes: 64 << 20, CPUs: 0.5}, Lines: []string{
		`ulimit -d`, `head -c 100m /dev/zero | tail -c 100m | wc -c | grep -q 104857600`,
	}}
	f := w.start(t, os.Geteuid())
	if got := strings.TrimSpace(output(t, f.Exits[0])); got != "65536" {
		t.Errorf("RLIMIT_DATA is %s KiB", got)
	}
	if f.Exits[1].Reason == execution.NoReason {
		t.Error("an action took more memory than it may")
	}
	if why := f.State.Missing["worker.isolation.memory_bytes"]; !strings.Contains(why, "RLIMIT_DATA") {
		t.Errorf("%+v", f.State)
	}
	if why := f.State.Missing["worker.isolation.cpus"]; !strings.Contains(why, "nothing limits it") {
		t.Errorf("%+v", f.State)
	}
	required := config.Isolation{Cgroup: config.CgroupRequire, CPUs: 0.5}
	r := New(Options{Isolation: required, Name: "require"})
	err := r.openGroups(newState())
	r.Close()
	if err != nil && !strings.Contains(err.Error(), "require") {
		t.Errorf("%v", err)
	}
}

// If this machine lets a worker enable controllers, the kernel applies a limit to the run as a whole.
func TestLimitCoversAllProcessesOfRun(t *testing.T) {
	t.Parallel()
	r := New(Options{Isolation: config.Isolation{Cgroup: config.CgroupRequire, Processes: 20}, Name: "limits"})
	lack := r.openGroups(newState())
	r.Close()
	without.Need(t, without.Controllers, lack)
	w := isolatedWorker{Dir: yard(t), Isolation: config.Isolation{Cgroup: config.CgroupRequire, Processes: 20}, Lines: []string{
		`i=0; while test $i -lt 100; do sleep 9999 & i=$((i+1)); done; sleep 9999`,
	}}
	f := w.start(t, os.Geteuid())
	if len(f.Exits) != 1 || f.Exits[0].Reason == execution.NoReason {
		t.Errorf("%+v", f)
	}
}
