//go:build !(js && wasm)

package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"handoff/chaos/scenario"
	"handoff/core/host/without"
	"handoff/core/testenv"
	"handoff/scenarios"
)

// written is the folder that playgroundFolder writes once for all tests.
var written struct { //nolint:gochecknoglobals // it takes long
	once sync.Once
	dir  string
	err  error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if written.dir != "" {
		_ = os.RemoveAll(written.dir)
	}
	os.Exit(code)
}

func playgroundFolder(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the simulator for browsers, which takes a minute")
	}
	written.once.Do(func() {
		if written.dir, written.err = os.MkdirTemp("", "handoff-playground-"); written.err == nil {
			var said bytes.Buffer
			written.err = writeFolder(written.dir, &said)
			t.Log(said.String())
		}
	})
	if written.err != nil {
		t.Fatal(written.err)
	}
	return written.dir
}

// pairsVariable is the environment variable with the number of compared runs.
const pairsVariable = "HANDOFF_PLAYGROUND_RUNS"

// Numbers of runs that make test and make test-all compare; HANDOFF_PLAYGROUND_RUNS=1000 compares more.
const (
	fewPairs  = 8
	somePairs = 60
)

// comparedRuns returns runs of the library: every scenario and profile in turn, under one seed after another.
func comparedRuns(t *testing.T) (list []string) {
	t.Helper()
	most := fewPairs
	if testenv.All() {
		most = somePairs
	}
	if text := os.Getenv(pairsVariable); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil || most < 1 {
			t.Fatalf("%s=%s: a number of runs is needed", pairsVariable, text)
		}
	}
	all, err := scenarios.Library()
	if err != nil {
		t.Fatal(err)
	}
	// The first profile alternates between scenarios, so that even a short list has both profiles.
	for round := 0; ; round++ {
		for i, s := range all {
			p := s.Profiles[(i+round)%len(s.Profiles)]
			if list = append(list, fmt.Sprintf("%s/%s/%d", s.Name, p, round/len(s.Profiles))); len(list) == most {
				return list
			}
		}
	}
}

// A run depends only on scenario, profile and seed, so a browser's runs equal the native ones.
func TestBrowserRunsMatchNative(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		err = errors.New("no node, so the runs of the browser are not compared with those of this machine")
	}
	without.Need(t, without.Node, err)
	dir := playgroundFolder(t)
	list := comparedRuns(t)
	wasm := filepath.Join(t.TempDir(), "playground.wasm")
	if err := unpackFile(filepath.Join(dir, wasmFile), wasm); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(goRoot(t), "lib", "wasm", "wasm_exec_node.js")
	begin := time.Now()
	said := make([]string, min(runtime.GOMAXPROCS(0), len(list)))
	var group errgroup.Group
	for i := range said {
		var part []string
		for k := i; k < len(list); k += len(said) {
			part = append(part, list[k])
		}
		group.Go(func() (err error) {
			said[i], err = hashesIn(t.Context(), node, script, wasm, part)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	there := time.Since(begin)
	got := make(map[string]string)
	for lines := bufio.NewScanner(strings.NewReader(strings.Join(said, ""))); lines.Scan(); {
		run, hash, _ := strings.Cut(lines.Text(), " ")
		got[run] = hash
	}
	begin = time.Now()
	for _, run := range list {
		want, err := hashOf(run)
		if err != nil {
			t.Fatal(err)
		}
		if got[run] != want {
			t.Errorf("%s has the hash %q in WebAssembly, and %s here", run, got[run], want)
		}
	}
	t.Logf("%d runs have the same hash; WebAssembly took %v for them, this machine %v", len(list), there.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond))
}

// hashesIn returns the hashes of the runs in WebAssembly.
func hashesIn(ctx context.Context, node, script, wasm string, list []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, max(time.Hour, testenv.Patience()))
	defer cancel()
	// Arguments and environment are limited to a few kilobytes, so the list is the input.
	cmd := exec.CommandContext(ctx, node, "--stack-size=8192", script, wasm, "hashes")
	cmd.Stdin = strings.NewReader(strings.Join(list, "\n") + "\n")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("node: %w\n%s", err, said.String())
	}
	return string(out), nil
}

func goRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// drive is a script that acts like a reader: it waits for the first run, moves a fault with the keyboard,
// plants a mutant and runs it. It posts what it saw to the test.
const drive = `<script>
const until = async (what) => { for (;;) { const got = what(); if (got) return got; await new Promise((go) => requestAnimationFrame(go)); } };
const heard = (name) => new Promise((go) => id(name).addEventListener("load", go, { once: true }));
(async () => {
  const seen = {};
  try {
    const page = heard("report");
    await until(() => document.body.dataset.first);
    seen.first = Number(document.body.dataset.first);
    seen.hash = document.body.dataset.hash;
    seen.verdict = id("verdict").textContent;
    await page;
    const inside = id("report").contentDocument;
    seen.report = inside.querySelector("h1").textContent + "|" + inside.querySelectorAll("#timeline rect").length;
    const before = yaml.value;
    strips.querySelector("[data-fault='0']").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    await until(() => yaml.value !== before);
    seen.moved = yaml.value.split("\n").find((line) => line.includes("partition: {cut: shell-1, from: [broker], direction: both}"));
    const dragged = async (what, by) => {
      const bar = strips.querySelector("[data-fault='1']"), lane = bar.parentElement.clientWidth, text = yaml.value;
      bar.setPointerCapture = () => {};
      const x = (share) => ({ bubbles: true, pointerId: 1, clientX: 500 + share * lane });
      what(bar).dispatchEvent(new PointerEvent("pointerdown", x(0)));
      bar.dispatchEvent(new PointerEvent("pointermove", x(by / view.end)));
      bar.dispatchEvent(new PointerEvent("pointerup", x(by / view.end)));
      await until(() => yaml.value !== text);
      await until(() => strips.querySelector("[data-fault='1']") !== bar);
    };
    await dragged((bar) => bar, 20000);
    await dragged((bar) => bar.querySelector(".edge"), -10000);
    seen.dragged = yaml.value.split("\n").find((line) => line.includes("partition: {cut: shell-2, from: [database], direction: both}"));
    await choose("network-partition");
    id("seed").value = "14";
    id("mutant").value = "unguarded-claim";
    await run();
    seen.broken = id("verdict").textContent;
    yaml.value = "name: x\nfaultz: 1\n";
    await looks();
    seen.mistake = id("mistake").textContent;
  } catch (err) { seen.error = String(err); }
  await fetch("/seen", { method: "POST", body: JSON.stringify(seen, null, 1) });
})();
</script></body>`

func TestPlaygroundRunsInBrowser(t *testing.T) {
	var browser string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && browser == "" {
			browser = path
		}
	}
	var lack error
	if browser == "" {
		lack = errors.New("no chromium, so the playground is not tested in a browser")
	}
	without.Need(t, without.Chromium, lack)
	dir := playgroundFolder(t)
	index, err := os.ReadFile(filepath.Join(dir, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 1)
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(dir)))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, strings.Replace(string(index), "</body>", drive, 1))
	})
	mux.HandleFunc("POST /seen", func(_ http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		seen <- body.String()
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(),
		"--window-size=1400,1800", "--remote-debugging-port=0", server.URL+"/")
	cmd.WaitDelay = 5 * time.Second
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var failed error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failed = cmd.Wait()
	}()
	var got string
	select {
	case got = <-seen:
		cancel()
		<-ended
	case <-ended:
		t.Fatalf("chromium ended before the page was done: %v\n%s", failed, errs.String())
	}
	t.Log(got)
	hash, err := hashOf("network-partition/hardened/1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"hash": "` + hash + `"`, `pass: network-partition, hardened, seed 1`, `"moved": "  - {when: {at: 15s}, partition`,
		`"dragged": "  - {when: {at: 47.5s}, partition: {cut: shell-2, from: [database], direction: both}, for: 40s}"`,
		"fail: network-partition, hardened, seed 14, mutant unguarded-claim", "one run at a time", "my-scenario.yaml:2:1:", `unknown key \"faultz\"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page did not show %s", want)
		}
	}
	if strings.Contains(got, `"error"`) || !strings.Contains(got, `"report": "`) {
		t.Error("the page failed")
	}
}

func TestEveryScenarioIsDrawn(t *testing.T) {
	for _, name := range offeredChoices().Scenarios {
		text, err := textOf(name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := newView(text)
		if err != nil {
			t.Fatal(err)
		}
		s, err := scenarios.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		if v.Name != name || len(v.Faults) != len(s.Faults) || len(v.Profiles) == 0 {
			t.Fatalf("%s is drawn as %+v", name, v)
		}
		for i, f := range v.Faults {
			if f.To+f.Lasts > v.End {
				t.Errorf("%s: the fault %s ends after the drawing", name, f.Name)
			}
			moved, err := moveFault(text, i, 1000, -1)
			if err != nil {
				continue // another fault may depend on this one, or the new time is too late; the page reports both
			}
			m, err := scenario.Parse(name, []byte(moved))
			if err != nil || m.Faults[i].When.Min != time.Second {
				t.Errorf("%s: fault %s was moved to %+v, %v", name, f.Name, m.Faults[i].When, err)
			}
		}
	}
}

func TestInvalidRunsAreRefused(t *testing.T) {
	text, err := textOf("network-partition")
	if err != nil {
		t.Fatal(err)
	}
	for want, call := range map[string]func() (*outcome, error){
		"no mutant is called":            func() (*outcome, error) { return runScenario(text, "hardened", 1, "nothing") },
		"does not run under the profile": func() (*outcome, error) { return runScenario(text, "other", 1, "") },
		"my-scenario.yaml:1:1":           func() (*outcome, error) { return runScenario("x: 1", "hardened", 1, "") },
	} {
		if _, err := call(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func unpackFile(from, to string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	z, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, z)
	return errors.Join(err, out.Close())
}
