//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"handoff/chaos/live/cluster"
)

// trick is an action that tries to outlive its end. MARK in its script stands for a word by which
// its leftovers are found.
type trick struct {
	what, script string
	timeout      int
	// never is a status that would be false; empty for none.
	never string
}

// killShim kills the parent, except if an isolated action can't see its parent.
const killShim = `[ $PPID -gt 1 ] && kill -9 $PPID; `

var tricks = []trick{
	{what: "kills its shim", script: `setsid sleep 600 & sleep .3; ` + killShim + `sleep 600`, timeout: 4},
	{
		what: "writes its own end into its shim's report, then kills it", timeout: 4, never: "completed",
		script: `setsid sleep 600 & { printf '{"ended":{"code":0}}\n' >/proc/$PPID/fd/3; } 2>/dev/null; sleep .3; ` + killShim + `exit 3`,
	},
	{what: "respawns in new sessions", script: `setsid sh -c 'trap "" TERM INT HUP; while :; do setsid sh -c "sleep 600 & sleep 600" & sleep .3; done' & sleep 1; exit 0`, timeout: 4},
	{what: "stops itself", script: `setsid sleep 600 & kill -STOP $$`, timeout: 2},
	{what: "stops its shim", script: `setsid sleep 600 & [ $PPID -gt 1 ] && kill -STOP $PPID; sleep 600`, timeout: 2},
	{what: "150 processes in sessions of their own, then kills its shim", script: `i=0; while [ $i -lt 150 ]; do setsid sleep 600 & i=$((i+1)); done; ` + killShim + `sleep 600`, timeout: 8},
	{what: "fills the disk, then kills its shim", script: `for d in . "${TMPDIR:-/tmp}" /tmp /var/tmp /dev/shm; do dd if=/dev/zero of=$d/MARK-file bs=1M count=150; done 2>/dev/null; ` + killShim + `sleep 600`, timeout: 8},
}

// killWorker ends the worker as well, so that nothing is left that could clean up.
var killWorker = trick{
	what: "kills its worker and its shim", timeout: 3,
	script: `setsid sleep 600 & sleep .3; w=$(cut -d" " -f4 /proc/$PPID/stat); [ "$(cat /proc/$w/comm)" = worker ] && kill -9 $w; ` + killShim + `sleep 600`,
}

// lack is the reason why a worker lacks a means of isolation, in the words of its /readyz; empty if
// that does not name one.
func (s *system) lack(ctx context.Context, d *cluster.Daemon, means string) string {
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL+"/readyz", http.NoBody)
	if err != nil {
		return ""
	}
	answer, err := http.DefaultClient.Do(asked)
	if err != nil {
		return ""
	}
	defer func() { _ = answer.Body.Close() }()
	var said struct {
		Isolation struct {
			Missing map[string]string `json:"missing"`
		} `json:"isolation"`
	}
	if json.NewDecoder(io.LimitReader(answer.Body, headKept)).Decode(&said) != nil {
		return ""
	}
	return said.Isolation.Missing[means]
}

// settleWithin is how long leftovers of an action may exist after its time.
const settleWithin = 10 * time.Second

// leftBehind runs the tricks, all at once, and counts the leftovers.
func leftBehind(ctx context.Context, l *lab, r *result) error {
	s, err := l.common(ctx)
	if err != nil {
		return err
	}
	for _, v := range l.variants() {
		d, id, err := s.employ(ctx, v, workerOptions{})
		if err != nil {
			r.cannot("%s: %v", v.what, err)
			if d != nil {
				s.stopWorker(ctx, d)
			}
			continue
		}
		if err := s.playTricks(ctx, r, v, d, id, tricks); err != nil {
			return err
		}
		if err := s.playTricks(ctx, r, v, d, id, []trick{killWorker}); err != nil {
			return err
		}
		s.stopWorker(ctx, d)
	}
	return l.limits(ctx, s, r)
}

// played is a running trick.
type played struct {
	trick
	mark string
	id   int64
	// most is the largest number of its processes that was seen.
	most int
}

func (s *system) playTricks(ctx context.Context, r *result, v variant, d *cluster.Daemon, worker int64, all []trick) error {
	var running []*played
	for i, t := range all {
		p := &played{trick: t, mark: fmt.Sprintf("%s-%s-%d", s.lab.mark, word(), i)}
		ref := fmt.Sprintf("attack.trick%d", i)
		script := "export ATTACK_MARK=" + p.mark + "; " + strings.ReplaceAll(t.script, "MARK-file", p.mark)
		if err := s.action(ctx, ref, "shell", script, t.timeout); err != nil {
			return err
		}
		var err error
		if p.id, err = s.create(ctx, ref, worker); err != nil {
			return err
		}
		running = append(running, p)
	}
	groups := s.watchTricks(ctx, running, pid(d))
	for _, p := range running {
		left := marked(p.mark)
		lack := ""
		if len(left) > 0 && !d.Instance().Running() {
			before := len(left)
			// As a supervisor of workers would, start it again.
			if err := d.Start(ctx); err != nil {
				return err
			}
			until(ctx, settleWithin/2, func() bool { left = marked(p.mark); return len(left) == 0 })
			lack = s.lack(ctx, d, "an end for what outlives both worker and shim")
			leftOver(r, fmt.Sprintf("%s, %s: processes left until the worker is back, of %d", v.what, p.what, p.most), before, lack)
		}
		leftOver(r, fmt.Sprintf("%s, %s: processes left of %d", v.what, p.what, p.most), len(left), lack)
		if e, err := s.look(ctx, p.id); err == nil && p.never != "" {
			r.expect(fmt.Sprintf("%s, %s: status", v.what, p.what), e.Status, "not "+p.never, e.Status != p.never)
		}
		if strings.Contains(p.script, "MARK-file") {
			own, shared := removeMarked(p.mark, s.lab.dir, s.Servers.Dir()), removeMarked(p.mark, "/tmp", "/var/tmp", "/dev/shm", "/run", os.TempDir())
			r.memory(v.what+", "+p.what+": bytes left in its directories", own, 0)
			what := v.what + ", " + p.what + ": bytes left in /tmp, /var/tmp and /dev/shm"
			if why := s.lack(ctx, d, "private /tmp"); why != "" && shared > 0 {
				r.tell(what, "%s; private ones are not to be had there, and its /readyz says so: %s", shownBytes(shared), why)
			} else {
				r.memory(what, shared, 0)
			}
		}
		killMarked(p.mark)
	}
	stay := slices.DeleteFunc(groups, func(path string) bool { _, err := os.Stat(path); return err != nil })
	r.count(fmt.Sprintf("%s: control groups left of %d", v.what, len(groups)), len(stay), 0)
	return ctx.Err()
}

// leftOver judges how many processes are left. If this machine can't end them, they are only
// reported, provided that the worker's /readyz says so, too.
func leftOver(r *result, what string, left int, lack string) {
	if left > 0 && lack != "" {
		r.tell(what, "%d; its end is not to be had there, and its /readyz says so: %s", left, lack)
		return
	}
	r.count(what, left, 0)
}

// watchTricks waits until nothing is left, or until nothing should have been left for a long time.
// It returns the control groups of the actions.
func (s *system) watchTricks(ctx context.Context, running []*played, worker int) []string {
	longest := 0
	for _, p := range running {
		longest = max(longest, p.timeout)
	}
	own := groupsOf(worker)
	var groups []string
	began := time.Now()
	until(ctx, time.Duration(longest)*time.Second+settleWithin, func() bool {
		alive := 0
		for _, p := range running {
			found := marked(p.mark)
			p.most, alive = max(p.most, len(found)), alive+len(found)
			for _, pid := range found[:min(len(found), 3)] {
				for _, g := range groupsOf(pid) {
					if !slices.Contains(own, g) && !slices.Contains(groups, g) {
						groups = append(groups, g)
					}
				}
			}
			if p.most == 0 && time.Since(began) < time.Duration(longest)*time.Second {
				alive++ // it has not begun
			}
		}
		return alive == 0
	})
	pause(ctx, 500*time.Millisecond) // empty groups are removed after the last process
	return groups
}

// groupsOf are the directories of a process's control groups.
func groupsOf(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil
	}
	var dirs []string
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || parts[2] == "/" {
			continue
		}
		for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/" + strings.TrimPrefix(parts[1], "name=")} {
			if dir := filepath.Join(mount, parts[2]); isDir(dir) && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// removeMarked removes files with this mark, some levels below the folders, and returns their total
// size in bytes.
func removeMarked(mark string, roots ...string) int64 {
	var total int64
	for _, root := range roots {
		depth := strings.Count(root, "/") + 4
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // what can't be read holds none of these files
			}
			if entry.IsDir() && strings.Count(path, "/") > depth {
				return filepath.SkipDir
			}
			if strings.Contains(entry.Name(), mark) && !entry.IsDir() {
				if info, err := entry.Info(); err == nil {
					total += info.Size()
				}
				_ = os.Remove(path)
			}
			return nil
		})
	}
	return total
}

// limits has actions exceed a configured limit, if the build has limits.
func (l *lab) limits(ctx context.Context, s *system, r *result) error {
	if !l.knows("worker.isolation.memory_bytes") {
		r.tell("limits of memory, processes and disk", "none in this build")
		return nil
	}
	v := variant{what: "limits", env: map[string]string{
		"HANDOFF_WORKER_ISOLATION_MEMORY_BYTES": fmt.Sprint(128 << 20), "HANDOFF_WORKER_ISOLATION_PROCESSES": "50",
		"HANDOFF_WORKER_ISOLATION_DISK_BYTES": fmt.Sprint(64 << 20),
	}}
	d, id, err := s.employ(ctx, v, workerOptions{})
	if err != nil {
		r.cannot("limits of actions: %v", err)
		if d != nil {
			s.stopWorker(ctx, d)
		}
		return nil
	}
	defer s.stopWorker(ctx, d)
	for i, t := range []struct{ what, script string }{
		{"takes 400 MB of memory, may have 128", `export ATTACK_MARK=MARK; head -c 400m /dev/zero | tail -c 400m | wc -c | grep -q 419430400`},
		{"writes 200 MB into one file, may write 64", `export ATTACK_MARK=MARK; f="${TMPDIR:-/tmp}/MARK"; dd if=/dev/zero of=$f bs=1M count=200 && rm -f $f`},
		{"has 200 processes, may have 50", `export ATTACK_MARK=MARK; i=0; while [ $i -lt 200 ]; do sleep 5 & i=$((i+1)); done; [ $(jobs -p | wc -l) -ge 200 ]`},
	} {
		mark := fmt.Sprintf("%s-limit%d", l.mark, i)
		e, err := s.run(ctx, fmt.Sprintf("attack.limit%d", i), strings.ReplaceAll(t.script, "MARK", mark), 15, id, 20*time.Second)
		if err != nil {
			return err
		}
		r.expect("an action "+t.what, e.Status, "not completed", e.Status != "completed")
		killMarked(mark)
		removeMarked(mark, l.dir, s.Servers.Dir(), "/tmp", os.TempDir())
	}
	return nil
}
