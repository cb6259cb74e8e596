// Runtests runs go test through gotestsum, which prints a line as each package ends, each failure at
// once and all of them again at the end. Beside it, runtests says every half minute what still runs,
// and at the end how many tests were left to make test-all:
//
//	runtests [-every 30s] [-events FILE] -- GO-TEST-FLAGS PACKAGES
//
// Run it in the root of the module; gotestsum is expected beside the program. Its exit code is gotestsum's.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	every := flag.Duration("every", 30*time.Second, "how often to say what still runs")
	events := flag.String("events", "", "where the events of the tests are kept, a JSON object a line")
	flag.Parse()
	code, err := run(*every, *events, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "runtests:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(every time.Duration, events string, args []string) (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	if events == "" {
		folder, err := os.MkdirTemp("", "runtests-")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(folder)
		events = filepath.Join(folder, "events.json")
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(events), 0o750), os.WriteFile(events, nil, 0o600)); err != nil {
		return 1, err
	}
	// Ctrl-C reaches gotestsum and the tests too, which end then, and this program after them.
	signal.Ignore(os.Interrupt)
	command := exec.Command(filepath.Join(filepath.Dir(self), "gotestsum"), append([]string{
		"--format", "pkgname", "--format-icons", "text", "--format-hide-empty-pkg", "--hide-summary", "skipped", "--jsonfile", events, "--",
	}, args...)...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	if err := command.Start(); err != nil {
		return 1, fmt.Errorf("gotestsum, which make builds beside this program: %w", err)
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	over := make(chan struct{})
	began := time.Now()
	w := newWatch()
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case s := <-terminated:
				_ = command.Process.Signal(s)
			case now := <-tick.C:
				if err := w.readFile(events); err == nil {
					fmt.Fprintln(os.Stdout, w.line(now.Sub(began), now))
				}
			}
		}
	})
	ran := command.Wait()
	close(over)
	watching.Wait()
	if err := w.readFile(events); err != nil {
		return 1, err
	}
	if n := len(w.nightly); n > 0 {
		fmt.Fprintf(os.Stdout, "%d tests were left to make test-all, or take a sample here: docs/testing.md\n", n)
	}
	var ended *exec.ExitError
	if errors.As(ran, &ended) {
		return max(ended.ExitCode(), 1), nil
	}
	return 0, ran
}

// watch is what the events so far amount to.
type watch struct {
	offset int64
	// running has the tests that run, by package, with the time when each began.
	running map[string]map[string]time.Time
	begun   map[string]time.Time
	ended   int
	nightly []string
}

func newWatch() *watch {
	return &watch{running: make(map[string]map[string]time.Time), begun: make(map[string]time.Time)}
}

// event is a line of go test -json (go doc test2json).
type event struct {
	Time                          time.Time
	Action, Package, Test, Output string
}

// readFile takes what was written to the file since the last call, up to the last whole line.
func (w *watch) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if _, err := f.Seek(w.offset, io.SeekStart); err != nil {
		return err
	}
	return w.read(f)
}

func (w *watch) read(r io.Reader) error {
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // half a line is read again
		}
		if err != nil {
			return err
		}
		w.offset += int64(len(line))
		var e event
		if json.Unmarshal(line, &e) == nil { // other lines are not about tests
			w.observe(e)
		}
	}
}

func (w *watch) observe(e event) {
	switch {
	case e.Package == "":
	case e.Action == "output" && strings.Contains(e.Output, "not run: make test-all has it"):
		w.nightly = append(w.nightly, e.Package+"."+e.Test)
	case e.Test == "" && e.Action == "start":
		w.begun[e.Package], w.running[e.Package] = e.Time, make(map[string]time.Time)
	case e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
		delete(w.running, e.Package)
		w.ended++
	case w.running[e.Package] == nil:
	case e.Action == "run" || e.Action == "cont":
		w.running[e.Package][e.Test] = e.Time
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip" || e.Action == "pause":
		delete(w.running[e.Package], e.Test)
	}
}

// line says what runs, the longest first. A package of which no test has begun is still being linked.
func (w *watch) line(since time.Duration, now time.Time) string {
	var list []string
	names := make([]string, 0, len(w.running))
	for name := range w.running {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if c := w.begun[a].Compare(w.begun[b]); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		list = append(list, fmt.Sprintf("%s (%d s%s)", strings.TrimPrefix(name, "handoff/"), int(now.Sub(w.begun[name]).Seconds()), w.oldest(name, now)))
	}
	what := strings.Join(list, ", ")
	if what == "" {
		what = "nothing: packages are being compiled"
	}
	return fmt.Sprintf("  %s: %d packages have ended; running: %s", since.Round(time.Second), w.ended, what)
}

// oldest names the test of the package that has run longest, if it has run for five seconds.
func (w *watch) oldest(name string, now time.Time) string {
	test, began := "", now
	for t, at := range w.running[name] {
		if at.Before(began) || at.Equal(began) && (test == "" || len(t) > len(test)) {
			test, began = t, at
		}
	}
	if test == "" || now.Sub(began) < 5*time.Second {
		return ""
	}
	return ", " + test
}
