package weave

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"handoff/chaos/overlay"
)

// root is the module's directory.
const root = "../.."

func TestWeavingCoversMutexesAndMutants(t *testing.T) {
	for kind, fewest := range map[Kind]int{Guard: 150, Preempt: 300} {
		o, err := Write(root, "", t.TempDir(), kind, Mutants()...)
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Points) < fewest {
			t.Errorf("%s: %d calls are put in, want hundreds", kind, len(o.Points))
		}
		replace, woven := readOverlay(t, o.File), ""
		for _, name := range Packages {
			files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(name), "*.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				from, err := filepath.Abs(file)
				if err != nil {
					t.Fatal(err)
				}
				text := readFile(t, file)
				if replace[from] != "" {
					text = readFile(t, replace[from])
					woven += text
				}
				test, locks := strings.HasSuffix(file, "_test.go"), strings.Contains(text, "sync.Mutex")
				if locks && !test && (kind == Guard && !strings.Contains(text, "woven.Held(") || kind == Preempt && name != "core/telemetry") {
					t.Errorf("%s: a mutex of %s is left as it was", kind, file)
				}
			}
		}
		for _, m := range Mutants() {
			if !strings.Contains(woven, "woven.Planted(\""+m.Name+"\")") {
				t.Errorf("%s: mutant %s is not planted", kind, m.Name)
			}
		}
	}
}

// A file that another overlay replaces is woven, and the other files of that overlay are kept.
func TestCallsPrecedeStatementsOnSameLine(t *testing.T) {
	for kind, want := range wovenLines {
		module := moduleOf(t, "package p\n")
		original := filepath.Join(module, filepath.FromSlash(Packages[0]), "a.go")
		other, elsewhere, there := filepath.Join(module, "other.txt"), filepath.Join(module, "elsewhere.go"), filepath.Join(module, "there.txt")
		writeFile(t, other, example)
		writeFile(t, there, "package elsewhere\n")
		first, err := overlay.Write(module, map[string]string{original: other, elsewhere: there})
		if err != nil {
			t.Fatal(err)
		}
		o, err := Write(module, first, filepath.Join(module, "woven"), kind)
		if err != nil {
			t.Fatal(err)
		}
		replace := readOverlay(t, o.File)
		if replace[elsewhere] != there {
			t.Errorf("the other overlay's files are gone: %v", replace)
		}
		var got []string
		before, after := strings.Split(example, "\n"), strings.Split(readFile(t, replace[original]), "\n")
		for i := range before {
			if after[i] != before[i] {
				got = append(got, strings.TrimSpace(after[i]))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant:\n%s", kind, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestWriteRefusesBrokenSource(t *testing.T) {
	module := moduleOf(t, "package p\n\nvar x int = true\n")
	if _, err := Write(module, "", filepath.Join(module, "woven"), Guard); err == nil || !strings.Contains(err.Error(), "a.go:3") {
		t.Errorf("a package with an error: %v", err)
	}
}

func TestWriteRefusesMutantWithoutItsText(t *testing.T) {
	_, err := Write(root, "", t.TempDir(), Preempt, Mutant{Name: "lost", File: registry, Old: "nothing like this", New: "x"})
	if err == nil || !strings.Contains(err.Error(), "mutant lost") {
		t.Errorf("a mutant whose text is not in its file: %v", err)
	}
	_, err = Write(root, "", t.TempDir(), Preempt, Mutant{Name: "elsewhere", File: "core/api/server.go", Old: "x", New: "y"})
	if err == nil || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("a mutant in a file that is not woven: %v", err)
	}
}

// moduleOf writes a module with a file a.go in each of Packages.
func moduleOf(t *testing.T, text string) string {
	t.Helper()
	module := t.TempDir()
	writeFile(t, filepath.Join(module, "go.mod"), "module example\n\ngo 1.25\n")
	for _, name := range Packages {
		writeFile(t, filepath.Join(module, filepath.FromSlash(name), "a.go"), text)
	}
	return module
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func readOverlay(t *testing.T, path string) map[string]string {
	t.Helper()
	replace, err := overlay.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return replace
}

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
	println(c.name)
	c.mu.Lock()
	if c.n > 3 {
		println("many")
	}
	for i := range c.rows {
		c.rows[i].size, c.n = r.size, c.n+1
	}
	switch {
	case r.size > 0:
		c.n += r.size
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

// wovenLines returns the lines of example that differ in its woven text, without indentation.
var wovenLines = map[Kind][]string{
	Guard: {
		`package p; import "handoff/sim/woven"`,
		`woven.Held(&c.mu, "core/broker/a.go:31 touches counter.n"); if c.n > 3 {`,
		`woven.Held(&c.mu, "core/broker/a.go:34 touches counter.rows"); for i := range c.rows {`,
		`woven.Held(&c.mu, "core/broker/a.go:35 touches counter.rows"); c.rows[i].size, c.n = r.size, c.n+1`,
		`woven.Held(&c.mu, "core/broker/a.go:39 touches counter.n"); c.n += r.size`,
		`woven.Held(&c.mu, "core/broker/a.go:46 touches *row.size"); r.size++`,
		`woven.Held(&s.counter.mu, "core/broker/a.go:51 touches counter.n"); woven.Held(&first.mu, "core/broker/a.go:51 touches counter.n"); println(s.n, s.open, first.n)`,
	},
	Preempt: {
		`package p; import "handoff/sim/woven"`,
		`mu   woven.Mutex`,
		`woven.Point(0, 0); c.n = 1`,
		`woven.Point(1, 0); c.mu.Lock()`,
		`woven.Point(2, 0); if c.n > 3 {`,
		`woven.Point(3, 0); for i := range c.rows {`,
		`woven.Point(7, 0); c.rows[i].size, c.n = r.size, c.n+1`,
		`woven.Point(4, 0); switch {`,
		`woven.Point(8, 0); c.n += r.size`,
		`woven.Point(5, 0); c.mu.Unlock(); woven.Point(6, 0)`,
		`woven.Point(9, 0); r.size++`,
		`woven.Point(10, 0); if first := all[0]; first.n > 0 {`,
		`woven.Point(11, 0); println(s.n, s.open, first.n)`,
	},
}
