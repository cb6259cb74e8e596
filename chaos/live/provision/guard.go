package provision

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// guardScript keeps the newest list of process numbers it was told. When its input ends, because
// this process closed it or is gone, it kills what is on that list.
const guardScript = `l=; while read -r n; do l=$n; done
for p in $l; do kill -s KILL -- "$p" 2>/dev/null; done; exit 0`

// guard is a shell that outlives this process for a moment. It covers what Pdeathsig does not:
// systems other than Linux, and PostgreSQL's backends while they are paused, which would not notice
// that their postmaster died.
type guard struct {
	mu    sync.Mutex
	pids  []int
	input io.WriteCloser
	done  chan struct{}
}

func startGuard() (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/bin:/bin"}, "/"
	ownGroup(cmd) // Ctrl-C must not reach it
	// Not StdinPipe: Wait would close it.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin = r
	err = cmd.Start()
	_ = r.Close() // the child has its own descriptor
	if err != nil {
		_ = w.Close() // nobody reads
		return nil, fmt.Errorf("starting the guard: %w", err)
	}
	g := &guard{input: w, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // ends with 0 or was killed; both end it
		close(g.done)
	}()
	return g, nil
}

func (g *guard) watch(pids ...int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pids = append(g.pids, pids...)
	g.tell()
}

func (g *guard) forget(pids ...int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pids = slices.DeleteFunc(g.pids, func(pid int) bool { return slices.Contains(pids, pid) })
	g.tell()
}

func (g *guard) tell() {
	words := strings.Trim(fmt.Sprint(g.pids), "[]")
	// A guard that somebody killed guards nothing; the servers go on.
	_, _ = io.WriteString(g.input, words+"\n")
}

func (g *guard) close() error {
	g.mu.Lock()
	err := g.input.Close()
	g.mu.Unlock()
	select {
	case <-g.done:
		return err
	case <-time.After(5 * time.Second):
		return fmt.Errorf("the guard process did not end")
	}
}
