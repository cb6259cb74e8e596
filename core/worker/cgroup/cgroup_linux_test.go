package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"handoff/core/host/without"
)

func TestLocateGroupFindsMount(t *testing.T) {
	const v1 = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	for _, c := range []struct{ own, mounts, want string }{
		{"/", v1 + "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/unified"},
		{"/system.slice/w.service", "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/system.slice/w.service"},
		{"/docker/abc", "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "/sys/fs/cgroup"},
		{"/docker/abc/d", `30 23 0:26 /docker/abc /odd\040place rw - cgroup2 cgroup rw` + "\n", "/odd place/d"},
		{"/docker/abcd", "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n", ""},
		{"/../other", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", ""},
		{"/", v1, ""},
		{"/", "", ""},
	} {
		got, err := locateGroup(c.own, c.mounts)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s in %q: %q, %v, want %q", c.own, c.mounts, got, err, c.want)
		}
	}
}

// Ordinary files stand in for the kernel's control files.
func TestLimitsNeedControllers(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"memory.max", "memory.oom.group", "cpu.max", "pids.max", "memory.events", "cgroup.events"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, l := Group(dir), Limits{Memory: 64 << 20, CPUs: 0.5, Processes: 20}
	if err := g.setLimits(l, map[string]bool{"memory": true, "cpu": true}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"memory.max": "67108864", "memory.oom.group": "1", "cpu.max": "50000 100000", "pids.max": ""} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
			t.Errorf("%s holds %q, want %q, %v", name, text, want, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "memory.swap.max")); err == nil {
		t.Error("a file was made that the kernel did not offer")
	}
	if !slices.Equal(l.Controllers(), []string{"memory", "cpu", "pids"}) {
		t.Errorf("%v", l.Controllers())
	}
	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("low 0\noom 2\noom_kill 3\noom_group_kill 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := g.OutOfMemory(); n != 3 {
		t.Errorf("%d kills for want of memory", n)
	}
}

// A worker that is alone in its group can move to a leaf group and then hand controllers down. Any controller
// will do for the test, even one that limits nothing here.
func TestWorkerMovesToLeafForControllers(t *testing.T) {
	if own := os.Getenv("HANDOFF_TEST_CGROUP"); own != "" {
		handDown(t, own[1:])
		return
	}
	own, lack := ownGroup()
	parent, controller := filepath.Join(own, fmt.Sprintf("test-handoff-%d", os.Getpid())), "" // a killed test run leaves its group
	if lack == nil {
		lack = os.Mkdir(parent, 0o755)
	}
	without.Need(t, without.Cgroup, lack)
	if text, err := os.ReadFile(filepath.Join(own, "cgroup.controllers")); err == nil && len(strings.Fields(string(text))) > 0 {
		if c := strings.Fields(string(text))[0]; Group(own).writeFile("cgroup.subtree_control", "+"+c) == nil {
			controller = c
		}
	}
	t.Logf("the controller that is handed down: %q (none: only the refusal is looked at)", controller)
	t.Cleanup(func() {
		if err := errors.Join(Group(parent).Kill(time.Second), Group(parent).Remove(time.Second)); err != nil {
			t.Error(err)
		}
		if controller != "" {
			_ = Group(own).writeFile("cgroup.subtree_control", "-"+controller)
		}
	})
	at, err := Group(parent).Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = at.Close() }()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "HANDOFF_TEST_CGROUP=:"+controller)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(at.Fd())}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// handDown acts as the worker of the test above, alone in its group.
func handDown(t *testing.T, controller string) {
	p, err := Open("alone", Limits{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := ownGroup()
	if err != nil {
		t.Fatal(err)
	}
	p.enableControllers(own, []string{controller, "no-such-controller"})
	if controller == "" {
		if err := p.Close(); err != nil || p.Missing()["no-such-controller"] == "" {
			t.Errorf("%+v, %v", p, err)
		}
		return
	}
	if !p.have[controller] || p.have["no-such-controller"] || p.Missing()["no-such-controller"] == "" {
		t.Errorf("%+v", p)
	}
	if now, err := ownGroup(); err != nil || now != p.group.filePath(leaf) {
		t.Errorf("the worker is in %s, %v", now, err)
	}
	g, err := p.New("run")
	if err != nil {
		t.Fatal(err)
	}
	if !fileContains(g.filePath("cgroup.controllers"), controller) {
		t.Errorf("the group of a run has no %s", controller)
	}
	if err := errors.Join(g.Remove(time.Second), p.Close()); err != nil {
		t.Error(err)
	}
}

func TestWorkerNamesBecomeFileNames(t *testing.T) {
	if got := fileName("../wörker 1/" + strings.Repeat("x", 300)); strings.ContainsAny(got, "/ ") || len(got) > 100 {
		t.Errorf("%q", got)
	}
}
