package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheGroupOfAProcessIsFoundAmongItsMounts(t *testing.T) {
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
		got, err := locate(c.own, c.mounts)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s in %q: %q, %v, want %q", c.own, c.mounts, got, err, c.want)
		}
	}
}

// What the kernel would be told, in files that are none of its own.
func TestLimitsAreWrittenWhereThereIsAController(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"memory.max", "memory.oom.group", "cpu.max", "pids.max", "memory.events", "cgroup.events"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, l := Group(dir), Limits{Memory: 64 << 20, CPUs: 0.5, Processes: 20}
	if err := g.limit(l, map[string]bool{"memory": true, "cpu": true}); err != nil {
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

func TestNamesOfWorkersAreFitForFiles(t *testing.T) {
	if got := fileName("../wörker 1/" + strings.Repeat("x", 300)); strings.ContainsAny(got, "/ ") || len(got) > 100 {
		t.Errorf("%q", got)
	}
}
