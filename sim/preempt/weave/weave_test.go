package weave

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the module's directory.
const root = "../../.."

func TestEveryMutexOfTheCoreIsWovenAndEveryMutantIsPlanted(t *testing.T) {
	dir := t.TempDir()
	o, err := Write(root, dir, Mutants()...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(o.File)
	if err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &overlay); err != nil {
		t.Fatal(err)
	}
	woven := ""
	for from, to := range overlay.Replace {
		text, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		original, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "sync.Mutex") || strings.Contains(string(original), "sync.Mutex") != strings.Contains(string(text), "preempt.Mutex") {
			t.Errorf("%s: a mutex is left as it was", from)
		}
		woven += string(text)
	}
	for _, m := range Mutants() {
		if !strings.Contains(woven, "preempt.Planted(\""+m.Name+"\")") {
			t.Errorf("mutant %s is not planted", m.Name)
		}
	}
	if len(o.Points) < 300 {
		t.Errorf("%d points at which tasks can be preempted, want hundreds", len(o.Points))
	}
}

func TestAPointStandsBeforeEveryStatementThatTouchesASharedFieldAndOnItsLine(t *testing.T) {
	module := t.TempDir()
	for _, name := range Packages {
		dir := filepath.Join(module, filepath.FromSlash(name))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a.go"), []byte(example), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if _, err := Write(module, dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(Packages[0]), "a.go.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != wanted {
		t.Errorf("woven:\n%s\nwant:\n%s", text, wanted)
	}
}

const example = `package p

import "sync"

type counter struct {
	name string
	mu   sync.Mutex
	n    int
	rows []row
}

type row struct{ size int }

func (c *counter) add(r row) int {
	println(c.name)
	c.mu.Lock()
	if c.n > 3 {
		println("many")
	}
	switch {
	case r.size > 0:
		c.n += r.size
	}
	c.mu.Unlock()
	return 0
}
`

const wanted = `package p; import "handoff/sim/preempt"

import "sync"

type counter struct {
	name string
	mu   preempt.Mutex
	n    int
	rows []row
}

type row struct{ size int }

func (c *counter) add(r row) int {
	println(c.name)
	preempt.Point(0, 0); c.mu.Lock()
	preempt.Point(1, 0); if c.n > 3 {
		println("many")
	}
	preempt.Point(2, 0); switch {
	case r.size > 0:
		preempt.Point(5, 0); c.n += r.size
	}
	preempt.Point(3, 0); c.mu.Unlock(); preempt.Point(4, 0)
	return 0
}

var _ = preempt.Point

var _ sync.Locker
`

func TestAMutantWhoseTextIsNotThereIsRefused(t *testing.T) {
	_, err := Write(root, t.TempDir(), Mutant{Name: "lost", File: registry, Old: "nothing like this", New: "x"})
	if err == nil || !strings.Contains(err.Error(), "mutant lost") {
		t.Errorf("a mutant whose text is not in its file: %v", err)
	}
	_, err = Write(root, t.TempDir(), Mutant{Name: "elsewhere", File: "core/api/server.go", Old: "x", New: "y"})
	if err == nil || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("a mutant in a file that is not woven: %v", err)
	}
}
