package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// prefix is the prefix of the groups that workers make for their runs.
const prefix = "handoff-"

// leaf is the group that a worker moves itself to if its own group must be empty, which limits may need.
const leaf = "worker"

// guards is the group of the shims, the processes that guard runs.
const guards = "guards"

// guardPatience is how long a dead worker's guards may take to end by themselves and to report.
const guardPatience = time.Second

// staleTimeout bounds how long Open waits for an earlier worker's processes to die.
const staleTimeout = 5 * time.Second

// Parent holds the groups of one worker's runs.
type Parent struct {
	group   Group
	lock    *os.File
	limits  Limits
	have    map[string]bool
	missing map[string]string
}

// Open makes a group for a worker's runs below this process's group, and ends the leftovers of dead workers
// there. An error explains why runs can't have groups. A limit whose controller is missing is not an error:
// see Missing.
func Open(worker string, l Limits) (*Parent, error) {
	own, err := ownGroup()
	if err != nil {
		return nil, err
	}
	p := &Parent{limits: l, have: map[string]bool{}, missing: map[string]string{}}
	for i := 0; ; i++ {
		p.group = Group(filepath.Join(own, fmt.Sprintf("%s%s-%d.%d", prefix, fileName(worker), os.Getpid(), i)))
		err = os.Mkdir(string(p.group), 0o755)
		if !errors.Is(err, os.ErrExist) || i > 100 {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the control group of this process is not delegated to it: %w", err)
	}
	if p.lock, err = lockGroup(p.group); err != nil {
		_ = unix.Rmdir(string(p.group))
		return nil, fmt.Errorf("locking %s: %w", p.group, err)
	}
	err = os.Mkdir(string(p.Guards()), 0o755)
	if err == nil {
		err = p.probeGroup()
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := removeStale(own, p.group); err != nil {
		p.missing["the end of what an earlier worker left"] = err.Error()
	}
	p.enableControllers(own, l.Controllers())
	return p, nil
}

// probeGroup tests whether New can make a group.
func (p *Parent) probeGroup() error {
	g, err := p.New("probe")
	if err != nil {
		return err
	}
	return g.Remove(0)
}

// Missing maps the controllers of limits that can't be enforced to the reasons.
func (p *Parent) Missing() map[string]string { return p.missing }

// Guards returns the group for the processes that guard runs. When this worker is dead, the next one ends
// these processes, too; otherwise a stopped guard would stay forever.
func (p *Parent) Guards() Group { return Group(p.group.filePath(guards)) }

// New makes the group of a run.
func (p *Parent) New(name string) (Group, error) {
	g := Group(p.group.filePath(fileName(name)))
	if err := os.Mkdir(string(g), 0o755); err != nil {
		return "", fmt.Errorf("making a control group: %w", err)
	}
	if err := g.setLimits(p.limits, p.have); err != nil {
		_ = g.Remove(0)
		return "", fmt.Errorf("limiting a control group: %w", err)
	}
	return g, nil
}

// Close removes the group. If this process is inside it, the next worker removes it.
func (p *Parent) Close() error {
	err := p.group.Remove(0)
	_ = p.lock.Close()
	if errors.Is(err, unix.EBUSY) {
		return nil
	}
	return err
}

// enableControllers enables the controllers that the limits need for the groups of runs.
func (p *Parent) enableControllers(own string, need []string) {
	moved := false
	for _, c := range need {
		why := p.handDown(own, c)
		if errors.Is(why, unix.EBUSY) && !moved {
			if moved = p.moveToLeaf(own); moved {
				why = p.handDown(own, c)
			}
		}
		if why != nil {
			p.missing[c] = why.Error()
			continue
		}
		p.have[c] = true
	}
}

// handDown enables one controller for the groups of runs.
func (p *Parent) handDown(own, controller string) error {
	if !fileContains(filepath.Join(own, "cgroup.controllers"), controller) {
		return fmt.Errorf("the controller %s is not available in %s", controller, own)
	}
	for _, g := range []Group{Group(own), p.group} {
		if fileContains(g.filePath("cgroup.subtree_control"), controller) {
			continue
		}
		if err := g.writeFile("cgroup.subtree_control", "+"+controller); err != nil {
			if errors.Is(err, unix.EBUSY) {
				return fmt.Errorf("%s contains processes other than this worker, so its controllers can't be handed down: %w", g, err)
			}
			return err
		}
	}
	return nil
}

// moveToLeaf empties the group of this process by moving the process, if no other process is in it.
func (p *Parent) moveToLeaf(own string) bool {
	text, err := os.ReadFile(filepath.Join(own, "cgroup.procs"))
	if err != nil || strings.TrimSpace(string(text)) != fmt.Sprint(os.Getpid()) {
		return false
	}
	g := Group(p.group.filePath(leaf))
	return os.Mkdir(string(g), 0o755) == nil && g.writeFile("cgroup.procs", "0") == nil
}

func fileContains(file, word string) bool {
	text, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for _, w := range strings.Fields(string(text)) {
		if w == word {
			return true
		}
	}
	return false
}

func lockGroup(g Group) (*os.File, error) {
	f, err := g.Open()
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// removeStale ends everything in the groups of dead workers. A new group is empty and not locked yet, and
// must not be removed, so an empty group is left alone for its first seconds.
func removeStale(own string, mine Group) error {
	entries, err := os.ReadDir(own)
	if err != nil {
		return nil
	}
	var failed error
	for _, e := range entries {
		g := Group(filepath.Join(own, e.Name()))
		if !e.IsDir() || !strings.HasPrefix(e.Name(), prefix) || g == mine {
			continue
		}
		if info, err := e.Info(); err != nil || !g.isPopulated() && time.Since(info.ModTime()) < staleTimeout {
			continue
		}
		held, err := lockGroup(g)
		if err != nil {
			continue // its worker is alive
		}
		if err := endStale(g); err != nil {
			failed = errors.Join(failed, fmt.Errorf("ending what an earlier worker left: %w", err))
		}
		_ = held.Close()
	}
	return failed
}

// endStale ends the runs in g first, then gives their guards time to detect that.
func endStale(g Group) error {
	entries, err := os.ReadDir(string(g))
	if err != nil {
		return nil // removed meanwhile
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != guards {
			err = errors.Join(err, Group(g.filePath(e.Name())).Kill(staleTimeout))
		}
	}
	watching := Group(g.filePath(guards))
	for deadline := time.Now().Add(guardPatience); watching.isPopulated() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	return errors.Join(err, g.Kill(staleTimeout), g.Remove(time.Second))
}

// ownGroup returns the directory of this process's group.
func ownGroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	own := ""
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = path
		}
	}
	if own == "" {
		return "", errors.New("this machine has no control groups of version 2")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	return locateGroup(own, string(mounts))
}

// locateGroup finds the directory of a group among the mounts of /proc/self/mountinfo.
func locateGroup(own, mounts string) (string, error) {
	for line := range strings.Lines(mounts) {
		// ID PARENT DEVICE ROOT MOUNTPOINT OPTIONS … - TYPE SOURCE OPTIONS
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 || !strings.HasPrefix(after, "cgroup2 ") {
			continue
		}
		root := strings.TrimSuffix(fields[3], "/")
		if rest, ok := strings.CutPrefix(own, root); ok && (rest == "" || rest[0] == '/') && !strings.Contains(own, "/..") {
			return filepath.Join(unescapePath(fields[4]), rest), nil
		}
	}
	return "", fmt.Errorf("no mount of control groups of version 2 contains this process's group, %s", own)
}

// unescapePath reverses mountinfo's escaping of spaces.
func unescapePath(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// fileName turns a name into one path element of limited length.
func fileName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.' {
			return r
		}
		return '_'
	}, name)
	return clean[:min(len(clean), 100)]
}
