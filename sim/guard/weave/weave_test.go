package weave

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"handoff/chaos/overlay"
)

const root = "../../.."

const example = `package p

import "sync"

type counter struct {
	name string
	mu   sync.Mutex
	n    int
	rows []*row

	// used by one task
	own int
}

type row struct{ size int }

type shop struct {
	*counter
	open bool
}

func newCounter() *counter {
	c := &counter{}
	c.n = 1
	return c
}

func (c *counter) add(r row) int {
	println(c.name, c.own)
	c.mu.Lock()
	if c.n > 3 {
		println("many")
	}
	for i := range c.rows {
		c.rows[i].size, c.n = r.size, c.n+1
	}
	c.mu.Unlock()
	return 0
}

func (c *counter) grow(r *row) {
	r.size++
}

func (s *shop) count(all []*counter) {
	if first := all[0]; first.n > 0 {
		println(s.n, s.open, first.n)
	}
}
`

const wanted = `package p; import "handoff/sim/guard"

import "sync"

type counter struct {
	name string
	mu   sync.Mutex
	n    int
	rows []*row

	// used by one task
	own int
}

type row struct{ size int }

type shop struct {
	*counter
	open bool
}

func newCounter() *counter {
	c := &counter{}
	c.n = 1
	return c
}

func (c *counter) add(r row) int {
	println(c.name, c.own)
	c.mu.Lock()
	guard.Held(&c.mu, "core/broker/a.go:31 touches counter.n"); if c.n > 3 {
		println("many")
	}
	guard.Held(&c.mu, "core/broker/a.go:34 touches counter.rows"); for i := range c.rows {
		guard.Held(&c.mu, "core/broker/a.go:35 touches counter.rows"); c.rows[i].size, c.n = r.size, c.n+1
	}
	c.mu.Unlock()
	return 0
}

func (c *counter) grow(r *row) {
	guard.Held(&c.mu, "core/broker/a.go:42 touches *row.size"); r.size++
}

func (s *shop) count(all []*counter) {
	if first := all[0]; first.n > 0 {
		guard.Held(&s.counter.mu, "core/broker/a.go:47 touches counter.n"); guard.Held(&first.mu, "core/broker/a.go:47 touches counter.n"); println(s.n, s.open, first.n)
	}
}
`

func TestACallStandsBeforeEveryStatementThatTouchesAGuardedField(t *testing.T) {
	module := t.TempDir()
	write(t, filepath.Join(module, "go.mod"), "module example\n\ngo 1.25\n")
	for _, name := range Packages {
		write(t, filepath.Join(module, filepath.FromSlash(name), "a.go"), "package p\n")
	}
	original := filepath.Join(module, filepath.FromSlash(Packages[0]), "a.go")
	// A text from another overlay is guarded, and the other files of that overlay stay.
	other := filepath.Join(module, "other.txt")
	write(t, other, example)
	elsewhere, there := filepath.Join(module, "elsewhere.go"), filepath.Join(module, "there.txt")
	write(t, there, "package elsewhere\n")
	first, err := overlay.Write(module, map[string]string{original: other, elsewhere: there})
	if err != nil {
		t.Fatal(err)
	}
	path, guarded, err := Add(module, first, filepath.Join(module, "guarded"))
	if err != nil {
		t.Fatal(err)
	}
	if guarded != 6 {
		t.Errorf("%d accesses are guarded, want 6", guarded)
	}
	replace := replaced(t, path)
	if replace[elsewhere] != there {
		t.Errorf("the other overlay's files are gone: %v", replace)
	}
	woven, err := os.ReadFile(replace[original])
	if err != nil {
		t.Fatal(err)
	}
	if string(woven) != wanted {
		t.Errorf("woven:\n%s\nwant:\n%s", woven, wanted)
	}
}

func TestSourceThatDoesNotCompileIsRefused(t *testing.T) {
	module := t.TempDir()
	write(t, filepath.Join(module, "go.mod"), "module example\n\ngo 1.25\n")
	for _, name := range Packages {
		write(t, filepath.Join(module, filepath.FromSlash(name), "a.go"), "package p\n\nvar x int = true\n")
	}
	if _, _, err := Add(module, "", filepath.Join(module, "guarded")); err == nil || !strings.Contains(err.Error(), "a.go:3") {
		t.Errorf("a package with an error: %v", err)
	}
}

func TestEveryMutexOfTheSimulatedCoreGuardsSomething(t *testing.T) {
	at, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	path, guarded, err := Add(at, "", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if guarded < 150 {
		t.Errorf("%d accesses are guarded, want well over a hundred", guarded)
	}
	replace := replaced(t, path)
	for _, name := range Packages {
		files, err := filepath.Glob(filepath.Join(at, filepath.FromSlash(name), "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), "sync.Mutex") && replace[file] == "" {
				t.Errorf("%s has a mutex, and nothing in it is guarded", file)
			}
		}
	}
}

// lockless are functions of the core whose lock can be removed, each with a scenario that reaches
// it.
var lockless = []struct{ name, file, lock, function, scenario string }{
	{"a session is published", "core/broker/client.go", "c.mu", "func (c *Client) publishSession(", "broker-outage"},
	{"a prober is asked", "core/executor/prober.go", "p.mu", "func (p *probes) unreachable(", "unreachable-health-endpoint"},
	{"a heartbeat asks for the consumer", "core/worker/heartbeat.go", "t.mu", "func (t *session) consuming(", "two-executors"},
	{"an entry is removed", "core/worker/registry.go", "r.mu", "func (r *registry) remove(", "two-executors"},
}

// TestMissingLocksAreKilledByTheGuardAlone builds the program with and without guards, which takes
// a minute; make preempt runs it.
func TestMissingLocksAreKilledByTheGuardAlone(t *testing.T) {
	if os.Getenv("HANDOFF_PREEMPT") == "" {
		t.Skip("builds the core anew: make preempt, or HANDOFF_PREEMPT=yes")
	}
	at, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for _, m := range lockless {
		file := filepath.Join(at, filepath.FromSlash(m.file))
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		before, from, found := strings.Cut(string(text), m.function)
		body, after, ended := strings.Cut(from, "\n}\n")
		if !found || !ended {
			t.Fatalf("%s has no %s", m.file, m.function)
		}
		calls := regexp.MustCompile(`(?m)^\t((?:defer )?` + regexp.QuoteMeta(m.lock) + `\.(?:Lock|Unlock)\(\))$`)
		body = calls.ReplaceAllString(body, "\tif os.Getenv(\"HANDOFF_LOCKLESS\") != \""+m.name+"\" {\n\t\t$1\n\t}")
		head, tail, _ := strings.Cut(before, "\n\nimport (")
		replace[file] = filepath.Join(dir, filepath.Base(file)+".txt")
		write(t, replace[file], head+"\n\nimport (\n\t\"os\""+tail+m.function+body+"\n}\n"+after)
	}
	planted, err := overlay.Write(dir, replace)
	if err != nil {
		t.Fatal(err)
	}
	guarded, _, err := Add(at, planted, filepath.Join(dir, "guarded"))
	if err != nil {
		t.Fatal(err)
	}
	build := func(with, to string) string {
		to = filepath.Join(dir, to)
		cmd := exec.Command("go", "build", "-overlay", with, "-o", to, "./cmd/chaos")
		cmd.Dir = at
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("building: %v\n%s", err, said)
		}
		return to
	}
	with, without := build(guarded, "with"), build(planted, "without")
	for _, m := range lockless {
		t.Run(m.name, func(t *testing.T) {
			run := func(program, lockless string) (code int, said string) {
				cmd := exec.Command(program, "run", m.scenario, "--seeds", "2", "--quiet", "--out", t.TempDir())
				cmd.Env = append(os.Environ(), "HANDOFF_LOCKLESS="+lockless)
				out, err := cmd.CombinedOutput()
				if cmd.ProcessState == nil {
					t.Fatal(err)
				}
				return cmd.ProcessState.ExitCode(), string(out)
			}
			if code, said := run(with, m.name); code != 1 || !strings.Contains(said, "without its lock") {
				t.Errorf("guarded: exit %d, want 1\n%.2000s", code, said)
			}
			if code, said := run(with, ""); code == 1 {
				t.Errorf("guarded, with all locks: exit %d\n%.2000s", code, said)
			}
			if code, said := run(without, m.name); code == 1 {
				t.Errorf("not guarded: exit %d, so this says nothing about guards\n%.2000s", code, said)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func replaced(t *testing.T, path string) map[string]string {
	t.Helper()
	read, err := overlay.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return read
}
