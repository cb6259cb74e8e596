package subprocess

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"handoff/core/config"
	"handoff/core/execution"
)

// leavings returns the files that one test's actions leave in directories for temporary files.
func leavings(t *testing.T, mark string) []string {
	t.Helper()
	var left []string
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		found, _ := filepath.Glob(filepath.Join(dir, mark+"*"))
		for _, name := range found {
			left = append(left, name)
			_ = os.RemoveAll(name)
		}
	}
	return left
}

// A worker that may mount gives each run directories for temporary files that end with the run. Paths that
// the worker gave the run still work, even if they are below those directories.
func TestPrivateTmpIsRemovedWithRun(t *testing.T) {
	t.Parallel()
	needMounts(t)
	for _, user := range []string{"", "65534:65534"} {
		mark := fmt.Sprintf("handoff-private-%d-", os.Getpid())
		dir := yard(t)
		w := isolatedWorker{Dir: dir, Isolation: config.Isolation{User: user}, Lines: []string{
			`for d in /tmp /var/tmp /dev/shm; do head -c 1000000 /dev/zero >$d/` + mark + `a; mkdir -p $d/` + mark + `b/c; chmod 0 $d/` + mark + `b; done; setsid sleep 9999 & ` +
				`kill -9 $PPID && sleep 9999; exit 0`,
			`ls -A /tmp /var/tmp /dev/shm | grep ` + mark + `; ls -A .; exit 0`,
			`set -e; test "$(pwd)" = "$TMPDIR"; test "$(/bin/pwd)" = "$TMPDIR"; cd "$PWD"; cd /; cd "$TMPDIR"; echo x >rel; cat "$TMPDIR/rel"; cat /proc/self/cwd/rel; ` +
				`f=$(mktemp); echo x >"$f"; cat rel "$f"; cd /tmp; f=$(TMPDIR= mktemp); echo x >"$f"; cat "$f"; mkdir /tmp/` + mark + `d; mv /tmp/` + mark + `d /var/tmp; ` +
				`ls "$HANDOFF_ACTIONS_DIR" >"$NOTES/note"; test -e "$NOTES/note"`,
			`! command -v python3 >/dev/null || python3 -c 'import tempfile,os,multiprocessing as m
with tempfile.NamedTemporaryFile() as f, tempfile.TemporaryDirectory(dir="/tmp") as d: m.Semaphore(1); print(os.path.exists(f.name) and os.path.isdir(d) and os.path.samefile(os.getcwd(), tempfile.gettempdir()))'`,
		}}
		f := w.start(t, 0)
		if left := leavings(t, mark); len(left) > 0 {
			t.Errorf("user %q: %v are left", user, left)
		}
		if f.Error != "" || len(f.Exits) != len(w.Lines) {
			t.Fatalf("user %q: %+v", user, f)
		}
		if found := output(t, f.Exits[1]); strings.TrimSpace(found) != "" {
			t.Errorf("user %q: a run saw %q of the one before it", user, found)
		}
		for _, e := range f.Exits[2:] {
			if e.Reason != execution.NoReason || strings.Contains(output(t, e), "False") {
				t.Errorf("user %q: %+v, %s", user, e, output(t, e))
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "note")); err != nil {
			t.Errorf("user %q: what a run wrote to the actions directory did not stay: %v", user, err)
		}
		if !strings.Contains(strings.Join(f.State.Holds, "\n"), "/tmp") {
			t.Errorf("user %q: the worker does not say that /tmp is private: %v", user, f.State.Holds)
		}
	}
}

func TestRunFillingTmpEnds(t *testing.T) {
	t.Parallel()
	needMounts(t)
	mark := fmt.Sprintf("handoff-fill-%d-", os.Getpid())
	w := isolatedWorker{Dir: yard(t), Isolation: config.Isolation{DiskBytes: 8 << 20}}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		w.Lines = append(w.Lines, `head -c 9000000 /dev/zero >`+dir+`/`+mark+`; sleep 9999`)
	}
	f := w.start(t, 0)
	for i, e := range f.Exits {
		if !strings.Contains(e.Message, string(causeDisk)) {
			t.Errorf("%s: %+v", w.Lines[i], e)
		}
	}
	if left := leavings(t, mark); len(left) > 0 || len(f.Exits) != len(w.Lines) {
		t.Errorf("%v are left, %+v", left, f)
	}
}

// A shim whose worker is gone removes the run's directory as the machine sees it, not as the run sees it.
func TestOrphanedShimRemovesPrivateTmp(t *testing.T) {
	t.Parallel()
	needMounts(t)
	w := isolatedWorker{Dir: yard(t), Lines: []string{`echo x >/tmp/x; echo x >x; kill -9 $WORKER; sleep 9999`}}
	w.Isolation.RunDir = filepath.Join(w.Dir, "runs")
	// Any worker that starts on this machine ends the control groups of a dead worker, including its shim's.
	w.Isolation.Cgroup = config.CgroupOff
	cmd := w.command(t, 0)
	if err := cmd.Run(); err == nil {
		t.Fatal("the worker was not killed")
	}
	eventually(t, "the removal of the run's directory", patience, func() bool {
		workers, _ := filepath.Glob(filepath.Join(w.Isolation.RunDir, "*"))
		runs, _ := filepath.Glob(filepath.Join(w.Isolation.RunDir, "*", "*"))
		return len(workers) == 1 && len(runs) == 0
	})
}

func TestTmpIsSharedWhenConfigured(t *testing.T) {
	t.Parallel()
	mark := fmt.Sprintf("handoff-shared-%d-", os.Getpid())
	w := isolatedWorker{Dir: yard(t), Isolation: config.Isolation{PrivateTmp: config.PrivateTmpOff}, Lines: []string{"echo x >/tmp/" + mark}}
	f := w.start(t, os.Geteuid())
	if left := leavings(t, mark); len(left) != 1 || !strings.Contains(f.State.Missing["private /tmp"], "private_tmp is off") {
		t.Errorf("%v, %+v", left, f)
	}
}

func TestUnprivilegedWorkerReportsSharedTmp(t *testing.T) {
	t.Parallel()
	needRoot(t)
	w := isolatedWorker{Dir: yard(t), Lines: []string{"exit 0"}}
	if f := w.start(t, nobody); f.State == nil || !strings.Contains(f.State.Missing["private /tmp"], "CAP_SYS_ADMIN") || len(f.Exits) != 1 || f.Exits[0].Reason != execution.NoReason {
		t.Errorf("%+v", f)
	}
}
