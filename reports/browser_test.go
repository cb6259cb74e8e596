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
	"handoff/core/testenv"
	"handoff/reports"
)

// findChromium finds a browser.
func findChromium(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	without.Need(t, without.Chromium, errors.New("no chromium, so the page is not tested in a browser"))
	return ""
}

// loadPage loads a page and returns the document after the page's scripts have run.
func loadPage(t *testing.T, browser, page string, more ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
	defer cancel()
	args := []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir=" + t.TempDir(), "--window-size=1400,2200", "--virtual-time-budget=5000", "--dump-dom",
	}
	cmd := exec.CommandContext(ctx, browser, append(append(args, more...), "file://"+page)...)
	cmd.WaitDelay = 5 * time.Second
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v\n%s", err, errs.String())
	}
	return string(out)
}

// drivePage loads a page in a window of the given size, with an appended script that acts like a reader, and
// returns the document.
func drivePage(t *testing.T, browser, page, script, fragment, size string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index.html")
	page = strings.Replace(page, "</body>", "<script>"+script+"</script></body>", 1)
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	return html.UnescapeString(loadPage(t, browser, path+fragment, "--window-size="+size))
}

// drive is a script that acts like a reader and writes its results into the document.
const drive = `<script>
const seen = {}, id = (n) => document.getElementById(n), line = () => id("line").textContent;
const press = (key, on = id("lanes")) => { if (on.focus) on.focus(); (on.focus ? document.activeElement : on).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })); };
seen.first = line();
seen.logs = !id("logs").hidden && id("log-lines").textContent;
const view = () => line() + id("axis").textContent, before = view();
seen.elsewhere = [["ArrowLeft", document], ["Home", id("step-on")], ["ArrowLeft", id("moment")], ["0", id("state")]].every(([key, on]) => { press(key, on); return view() === before; });
press("ArrowLeft"); seen.left = line();
press("ArrowRight"); seen.right = line();
press("Home"); seen.home = line();
press("c"); seen.closeup = line() === seen.first && id("axis").textContent.includes("5m17.400s");
press("0"); seen.whole = !id("axis").textContent.includes("5m17.400s");
id("through").value = "status"; press("v"); press("ArrowRight"); seen.status = line();
id("execution").value = "6"; id("execution").dispatchEvent(new Event("change"));
seen.six = id("events").textContent.includes("expired in the queue of worker shell-1");
id("events").querySelector("tr").click(); seen.row = line();
document.body.dataset.seen = JSON.stringify(seen);
</script></body>`

func TestPageObeysKeysAndClicks(t *testing.T) {
	browser := findChromium(t)
	sweep, records := syntheticSweep()
	var page bytes.Buffer
	if err := reports.WriteHTML(&page, sweep, records); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "index.html")
	if err := os.WriteFile(path, bytes.Replace(page.Bytes(), []byte("</body>"), []byte(drive), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	got := html.UnescapeString(loadPage(t, browser, path))
	for _, want := range []string{
		`"first":"5m17.610sthe timeout monitor of executor-1 failed execution 7`,
		`"logs":"5m17.500sexecutor-1timeout check: 1 execution`,
		`"elsewhere":true`,
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

func TestPageWorksInBrowser(t *testing.T) {
	browser := findChromium(t)
	sweep, records := syntheticSweep()
	empty := &verdict.Record{Run: verdict.Run{Scenario: "empty"}}
	for _, c := range []struct {
		name    string
		records []*verdict.Record
		want    []string
	}{
		{"a failure", records, []string{
			`data-ready="true"`, `<title>✖ fail: `, `class="p-paused"`, `class="bandbar"`, `class="s-running"`, `class="violation"`,
			"execution 31 (retry of 7)", "✖ execution 7", `class="depth"`, `class="beat"`, `<g id="cursor"><line`,
			"claimed execution 7 at epoch 1: scheduled → running", "<h3>Queues (waiting", "pause shell-1 → execution 7", `<tr class="bad"`, "Chain: ",
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
			got := loadPage(t, browser, path)
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

// expectSeen fails the test for each text that is missing in the results of drive.
func expectSeen(t *testing.T, got string, want ...string) {
	t.Helper()
	_, seen, _ := strings.Cut(got, `data-seen="`)
	if i := strings.Index(got, "data-error="); i >= 0 {
		t.Errorf("the page's script failed: %.200s", got[i:])
	}
	for _, w := range want {
		if !strings.Contains(seen, w) {
			t.Errorf("no %s in %.1500s", w, seen)
		}
	}
}

// A link leads to the time of the run at which it was copied.
func TestEveryMomentHasLink(t *testing.T) {
	browser := findChromium(t)
	sweep, records := syntheticSweep()
	var page bytes.Buffer
	if err := reports.WriteHTML(&page, sweep, records); err != nil {
		t.Fatal(err)
	}
	const script = `const seen = {}, id = (n) => document.getElementById(n);
seen.line = id("line").textContent; seen.execution = id("execution").value; seen.top = Math.round(id("run").getBoundingClientRect().top) === 0;
seen.focus = document.activeElement.id; seen.missing = id("missing").hidden ? "" : id("missing").textContent;
seen.away = (id("missing").querySelector("a") || { getAttribute() {} }).getAttribute("href");
id("lanes").dispatchEvent(new KeyboardEvent("keydown", { key: "Home" }));
seen.link = id("moment").getAttribute("href"); seen.row = id("events").querySelector("a").getAttribute("href");
setTimeout(() => { seen.address = location.hash; location.hash = id("events").querySelector("a").getAttribute("href");
  setTimeout(() => { seen.followed = id("line").textContent; document.body.dataset.seen = JSON.stringify(seen); }, 300); }, 600);`
	const run = "#run=ttl-race-documented-41"
	got := drivePage(t, browser, page.String(), script, run+"&event=1&execution=6", "1440,800")
	expectSeen(t, got, `"line":"0.000sexecutor-1 started`, `"execution":"6"`, `"top":true`, `"focus":"lanes"`, `"missing":""`,
		`"link":"`+run+`&event=1&execution=6"`, `"address":"`+run+`&event=1&execution=6"`, `"followed":"14.000sthe API created execution 6`)
	got = drivePage(t, browser, page.String(), script, "#run=another-hardened-7&event=9", "1440,800")
	expectSeen(t, got, `"missing":"The run another-hardened-7 is not in this page. Open its own page."`, `"away":"another-hardened-7/run.html#run=another-hardened-7&event=9"`)
}

// The timeline and the state at the cursor fit into the window together, at any common window size.
func TestTimelineAndStateAreVisibleTogether(t *testing.T) {
	browser := findChromium(t)
	_, records := syntheticSweep()
	var page bytes.Buffer
	if err := reports.WriteRun(&page, records[0], "ttl-race-documented-41"); err != nil {
		t.Fatal(err)
	}
	const script = `const seen = {}, inside = (n) => { const b = document.getElementById(n).getBoundingClientRect(); return b.top >= 0 && b.bottom <= innerHeight + 0.5 && b.left >= 0 && b.right <= innerWidth + 0.5 && b.height > 15; };
for (const n of ["lanes", "state", "line", "slider"]) seen[n] = inside(n);
seen.wide = document.documentElement.scrollWidth <= innerWidth; seen.window = innerWidth + "x" + innerHeight;
document.body.dataset.seen = JSON.stringify(seen);`
	got := drivePage(t, browser, page.String(), script, "#run=ttl-race-documented-41", "1440,800")
	expectSeen(t, got, `"lanes":true`, `"state":true`, `"line":true`, `"slider":true`, `"wide":true`)
	got = drivePage(t, browser, page.String(), script, "#run=ttl-race-documented-41", "500,844")
	expectSeen(t, got, `"wide":true`)
}

// The lead-up to a violation includes the log lines of the same time, in order.
func TestCauseListShowsLogLines(t *testing.T) {
	browser := findChromium(t)
	var page bytes.Buffer
	if err := reports.WriteRun(&page, recordWithLog(), "ttl-race-documented-41"); err != nil {
		t.Fatal(err)
	}
	got := drivePage(t, browser, page.String(), `const rows = [...document.querySelectorAll("#led-lines tr")].map((r) => r.textContent);
document.body.dataset.seen = JSON.stringify({rows: rows.length > 2, said: rows.findIndex((r) => r.includes("INFO looked at it")) - rows.length});`, "#run=ttl-race-documented-41", "1440,800")
	expectSeen(t, got, `"rows":true`, `"said":-2`)
}

func TestResultsAreFoundFilteredAndSorted(t *testing.T) {
	browser := findChromium(t)
	sweep, records := reports.Many(400)
	var page bytes.Buffer
	if err := reports.WriteHTML(&page, sweep, records); err != nil {
		t.Fatal(err)
	}
	const script = `const seen = {}, id = (n) => document.getElementById(n), rows = () => [...id("table").tBodies[0].rows];
const enter = (n, value) => { id(n).value = value; id(n).dispatchEvent(new Event("input")); };
seen.first = id("found").textContent; seen.all = id("all-rows").textContent;
enter("find", "something-0010 fail"); seen.found = rows().length + " " + rows()[0].dataset.name;
enter("find", "no such scenario"); seen.none = rows()[0].textContent + id("found").textContent; enter("find", "");
enter("show", "inconclusive"); seen.filtered = rows().every((r) => r.dataset.verdict === "inconclusive") && id("found").textContent; enter("show", "");
enter("sort", "name"); seen.byName = rows()[0].dataset.name + rows()[1].dataset.name;
enter("sort", "share"); seen.byShare = rows()[0].dataset.share >= rows()[1].dataset.share && rows()[0].dataset.verdict;
enter("sort", "worst"); id("all-rows").click(); seen.shown = rows().length + " " + id("all-rows").hidden;
const row = document.querySelector(".heat tr[data-failed]"), cells = row.querySelector(".cells"); seen.focusable = cells.tabIndex;
cells.dispatchEvent(new KeyboardEvent("keydown", { key: "End" })); seen.cell = id("cell").textContent;
const box = cells.getBoundingClientRect(); cells.dispatchEvent(new MouseEvent("click", { clientX: box.left + 1, clientY: box.top + 2, bubbles: true })); seen.clicked = id("cell").textContent;
seen.chosen = document.querySelectorAll(".cells .chosen").length;
seen.unnamed = [...document.querySelectorAll("input, select, button, [tabindex]")].filter((e) => !(e.labels && e.labels.length) && !e.getAttribute("aria-label") && !e.textContent.trim()).map((e) => e.id || e.outerHTML).join();
seen.wide = document.documentElement.scrollWidth <= innerWidth;
document.body.dataset.seen = JSON.stringify(seen);`
	for _, size := range []string{"1440,800", "500,844"} {
		got := drivePage(t, browser, page.String(), script, "", size)
		expectSeen(t, got, `"first":"40 of 100 scenarios"`, `"all":"Show all 100"`, `"found":"1 scenario-about-something-0010"`,
			`"none":"No scenario fits. Change the words or the filter.0 of 100 scenarios"`, `"filtered":"3`,
			`"byName":"scenario-about-something-0000scenario-about-something-0001"`, `"byShare":"fail"`, `"shown":"100 true"`, `"focusable":0`,
			`"cell":"scenario-about-something-0010 hardened, seed 60: failed. chaos run scenario-about-something-0010 --profile hardened --seed 60"`,
			`"clicked":"scenario-about-something-0010 hardened, seed 1: failed.`, `"chosen":1`, `"unnamed":""`, `"wide":true`)
	}
}
