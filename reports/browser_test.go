package reports_test

import (
	"bytes"
	"context"
	"errors"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"handoff/chaos/verdict"
	"handoff/core/host/without"
	"handoff/reports"
)

// chromium finds a browser.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	without.Need(t, without.Chromium, errors.New("no chromium, so the page is not tested in a browser"))
	return ""
}

// dom loads a page and returns the document as its scripts left it.
func dom(t *testing.T, browser, page string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--window-size=1400,2200", "--virtual-time-budget=5000", "--dump-dom", "file://"+page)
	cmd.WaitDelay = 5 * time.Second
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, errs.String())
	}
	return string(out)
}

// drive acts like a reader, and writes the results into the document.
const drive = `<script>
const seen = {}, id = (n) => document.getElementById(n), line = () => id("line").textContent;
const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
seen.first = line();
seen.logs = !id("logs").hidden && id("log-lines").textContent;
press("ArrowLeft"); seen.left = line();
press("ArrowRight"); seen.right = line();
press("Home"); seen.home = line();
press("c"); seen.closeup = line() === seen.first && id("timeline").textContent.includes("5m17.400s");
press("0"); seen.whole = !id("timeline").textContent.includes("5m17.400s");
id("through").value = "status"; press("v"); press("ArrowRight"); seen.status = line();
id("execution").value = "6"; id("execution").dispatchEvent(new Event("change"));
seen.six = id("events").textContent.includes("expired in the queue of worker shell-1");
id("events").querySelector("tr").click(); seen.row = line();
document.body.dataset.seen = JSON.stringify(seen);
</script></body>`

func TestPageObeysKeysAndClicks(t *testing.T) {
	browser := chromium(t)
	sweep, records := synthetic()
	var page bytes.Buffer
	if err := reports.WriteHTML(&page, sweep, records); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "index.html")
	if err := os.WriteFile(path, bytes.Replace(page.Bytes(), []byte("</body>"), []byte(drive), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	got := html.UnescapeString(dom(t, browser, path))
	for _, want := range []string{
		`"first":"5m17.610sthe timeout monitor of executor-1 failed execution 7`,
		`"logs":"5m17.500sexecutor-1timeout check: 1 execution`,
		`"left":"5m17.500sexecutor-1 logged: timeout check`,
		`"right":"5m17.610sthe timeout monitor`,
		`"home":"0.000sexecutor-1 started`,
		`"closeup":true`, `"whole":true`, `"six":true`,
		`"status":"5m17.700sexecutor-1 finished the handling of execution 7`,
		`"row":"14.000sthe API created execution 6`,
	} {
		if !strings.Contains(got, want) {
			_, seen, _ := strings.Cut(got, `data-seen="`)
			t.Errorf("no %s in %.1500s", want, seen)
		}
	}
}

func TestPageWorksInABrowser(t *testing.T) {
	browser := chromium(t)
	sweep, records := synthetic()
	empty := &verdict.Record{Run: verdict.Run{Scenario: "empty"}}
	for _, c := range []struct {
		name    string
		records []*verdict.Record
		want    []string
	}{
		{"a failure", records, []string{
			`data-ready="true"`, `<title>✖ fail: `, `class="p-paused"`, `class="bandbar"`, `class="s-running"`, `class="violation"`,
			"execution 31 (retry of 7)", "✖ execution 7", `class="depth"`, `class="beat"`, `<g id="cursor"><line`,
			"claimed execution 7 at epoch 1: scheduled → running", "<h3>Queues (waiting", `<tr class="bad"`, "Chain: ",
		}},
		{"no record", nil, []string{`data-ready="true"`, "Something broke", "<h2>Replay</h2>"}},
		{"a record without events", []*verdict.Record{empty}, []string{`data-ready="true"`, "This run has no events."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sweep := *sweep
			if c.records == nil {
				sweep.Scenarios = nil
			}
			path := filepath.Join(t.TempDir(), "index.html")
			var page bytes.Buffer
			if err := reports.WriteHTML(&page, &sweep, c.records); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, page.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			got := dom(t, browser, path)
			if i := strings.Index(got, "data-error="); i >= 0 {
				t.Fatalf("the page's script failed: %.200s", got[i:])
			}
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("the page in a browser has no %q", want)
				}
			}
		})
	}
}
