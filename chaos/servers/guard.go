package servers

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// guardScript reads lists of processes, containers and networks, and keeps only the latest list. When its
// input ends, because this process has closed it or died, it ends everything on the list. Its first argument
// is the engine's address. Without a docker client, containers remain until the next sweep.
const guardScript = `l=; while read -r n; do l=$n; done; n=
for p in $l; do case $p in
	container:*) docker -H "$1" rm -f -v "${p#container:}" >/dev/null 2>&1;;
	network:*) n=$n\ ${p#network:};;
	*) kill -s KILL -- "$p" 2>/dev/null;;
esac; done
for p in $n; do docker -H "$1" network rm "$p" >/dev/null 2>&1; done; exit 0`

// guard is a shell that briefly outlives this process. It covers cases that Pdeathsig does not: systems other
// than Linux, containers, and paused PostgreSQL backends, which do not detect the death of their postmaster.
type guard struct {
	mu    sync.Mutex
	items []string // process numbers, "container:" and an id, or "network:" and a name
	input io.WriteCloser
	done  chan struct{}
}

func startGuard(engine string) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, "guard", engine)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/snap/bin"}, "/"
	ownGroup(cmd) // Ctrl-C must not end the guard
	// StdinPipe is unsuitable, because Wait would close it.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdin = r
	err = cmd.Start()
	_ = r.Close() // the child has its own descriptor
	if err != nil {
		_ = w.Close() // nothing reads it
		return nil, fmt.Errorf("starting the guard: %w", err)
	}
	g := &guard{input: w, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the guard is over, whether it exited or was killed
		close(g.done)
	}()
	return g, nil
}

// watchProcesses adds processes to the guard's list, and forgetProcesses removes them.
func (g *guard) watchProcesses(pids ...int)  { g.addItems(pidTexts(pids)...) }
func (g *guard) forgetProcesses(pids ...int) { g.dropItems(pidTexts(pids)...) }

// addItems adds items to the guard's list. The guard removes networks after containers.
func (g *guard) addItems(items ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.items = append(g.items, items...)
	g.sendList()
}

// dropItems removes items from the list.
func (g *guard) dropItems(items ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.items = slices.DeleteFunc(g.items, func(item string) bool { return slices.Contains(items, item) })
	g.sendList()
}

// sendList sends the list to the guard. g.mu must be held. If the guard was killed, servers continue
// unguarded.
func (g *guard) sendList() { _, _ = io.WriteString(g.input, strings.Join(g.items, " ")+"\n") }

// Items of the guard's list for containers and networks.
func containerItem(id string) string { return "container:" + id }
func networkItem(name string) string { return "network:" + name }

func pidTexts(pids []int) []string {
	var out []string
	for _, pid := range pids {
		out = append(out, strconv.Itoa(pid))
	}
	return out
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
