//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEveryAttackOfThePageHasAnEntryWithABound(t *testing.T) {
	found := map[string]bool{}
	for _, a := range attacks {
		if found[a.id] {
			t.Errorf("%s stands twice", a.id)
		}
		found[a.id] = true
		if a.try == nil || a.title == "" || a.tried == "" || a.within <= 0 || a.within > wholeRun {
			t.Errorf("%s lacks what it does, its words or its bound: %+v", a.id, a)
		}
	}
	for n := 1; n <= 17; n++ {
		if id := fmt.Sprintf("S%d", n); !found[id] {
			t.Errorf("%s has no entry", id)
		}
	}
}

func TestTheThresholdsAreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, allowed := range map[string]string{
		"processor time of any single request, whatever is in it":      shownDuration(requestProcessor),
		"processor time after the client has gone":                     shownDuration(requestProcessor),
		"memory that any single request adds":                          shownBytes(requestMemory),
		fmt.Sprintf("memory that %d requests at once add", crowd):      shownBytes(crowdMemory),
		"mistakes that one answer lists":                               fmt.Sprint(mistakesListed),
		"log that 200,000 unreadable messages cause":                   "1 MB",
		"start of a good execution behind 200,000 unreadable messages": "5 s",
		"`chaos check` on any history":                                 "64 MB beyond the size of the file",
		"a forged cancellation":                                        "the action runs on",
		"`make attack`":                                                "10 minutes, loopback only",
	} {
		if !strings.Contains(string(page), "| "+what+" | ") || !strings.Contains(line(string(page), "| "+what+" | "), allowed) {
			t.Errorf("docs/attacks.md does not say %s of %s", allowed, what)
		}
	}
	if garbage != 200_000 || garbageLog != 1<<20 || garbageStart != 5*time.Second || checkMemory != 64<<20 || checkSignal != time.Second || wholeRun != 10*time.Minute {
		t.Error("a threshold differs from the page's words above")
	}
}

// line is the first line of a text with this beginning.
func line(text, begins string) string {
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, begins) {
			return l
		}
	}
	return ""
}

func TestOneFigureBeyondItsThresholdIsThroughAndNothingMeasuredIsNotTried(t *testing.T) {
	fine := &result{ID: "S1", Title: "fine"}
	fine.duration("time", 100*time.Millisecond, requestProcessor)
	fine.tell("rows", "%d", 7)
	through := &result{ID: "S2", Title: "through"}
	through.memory("memory added", requestMemory+1<<20, requestMemory)
	through.count("left", 0, 0)
	through.cannot("no cgroups")
	empty := &result{ID: "S3", Title: "empty"}
	empty.tell("rows", "%d", 7)
	partly := &result{ID: "S4", Title: "partly"}
	partly.count("left", 0, 0)
	partly.cannot("there is no unshare")
	all := []*result{fine, through, empty, partly}
	for i, want := range []verdict{held, gotThrough, notTried, notTried} {
		if all[i].judge(); all[i].Verdict != want {
			t.Errorf("%s: %s, want %s", all[i].Title, all[i].Verdict, want)
		}
	}
	for _, c := range []struct {
		results []*result
		want    int
	}{{all, 1}, {[]*result{fine}, 0}, {[]*result{fine, partly}, exitEnvironment}} {
		if got := exitCode(c.results); got != c.want {
			t.Errorf("exit code %d, want %d", got, c.want)
		}
	}
	var table bytes.Buffer
	through.write(&table)
	for _, part := range []string{"S2", "GOT THROUGH", "✗ memory added", "33 MB  ≤ 32 MB", "no cgroups"} {
		if !strings.Contains(table.String(), part) {
			t.Errorf("the table lacks %q:\n%s", part, table.String())
		}
	}
	table.Reset()
	writeSummary(&table, all)
	if !strings.Contains(table.String(), "1 held, 1 got through, 2 can't be tried here") {
		t.Errorf("the summary counts otherwise:\n%s", table.String())
	}
	path := filepath.Join(t.TempDir(), "results.json")
	if err := writeJSON(path, all); err != nil {
		t.Fatal(err)
	}
	var read []result
	if text, err := os.ReadFile(path); err != nil || json.Unmarshal(text, &read) != nil || len(read) != 4 || read[1].Verdict != gotThrough {
		t.Errorf("the file holds %+v (%v)", read, err)
	}
}

func TestAnAttackThatReachesItsBoundGotThroughAndOneThatFailsWasNotTried(t *testing.T) {
	endless := attack{id: "S1", within: time.Millisecond, try: func(ctx context.Context, _ *lab, _ *result) error { <-ctx.Done(); return ctx.Err() }}
	if r := endless.run(t.Context(), nil); r.Verdict != gotThrough {
		t.Errorf("an attack without end: %s", r.Verdict)
	}
	broken := attack{id: "S2", within: time.Minute, try: func(context.Context, *lab, *result) error { return errors.New("no server") }}
	if r := broken.run(t.Context(), nil); r.Verdict != notTried || r.Why != "no server" {
		t.Errorf("an attack that fails: %s, %q", r.Verdict, r.Why)
	}
}

func TestOnlyChoosesByIDAndNamesWhatIsUnknown(t *testing.T) {
	if got, err := choose(attacks, "s5, S1"); err != nil || len(got) != 2 || got[0].id != "S1" || got[1].id != "S5" {
		t.Errorf("chosen: %+v, %v", got, err)
	}
	if _, err := choose(attacks, "S99"); err == nil || !strings.Contains(err.Error(), "S99") {
		t.Errorf("an unknown one: %v", err)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"--list"}, &out, &errs); code != 0 || !strings.Contains(out.String(), "S17") {
		t.Errorf("--list: exit code %d, %s%s", code, out.String(), errs.String())
	}
	if code := run(t.Context(), []string{"--bin", t.TempDir(), "--only", "S99"}, &out, &errs); code != exitUsage {
		t.Errorf("--only S99: exit code %d", code)
	}
}

func TestProcessorTimeAndMemoryAreThoseOfTheProcess(t *testing.T) {
	self := os.Getpid()
	before := processor(self)
	sum := 0
	for end := before + 20*time.Millisecond; processor(self) < end; {
		for i := range 10_000 {
			sum += i
		}
	}
	if used := processor(self) - before; used < 20*time.Millisecond || used > 10*time.Second {
		t.Errorf("20 ms of work (%d) took %v", sum, used)
	}
	rss, peak := memoryOf(self, "VmRSS"), memoryOf(self, "VmHWM")
	if rss < 1<<20 || peak < rss {
		t.Errorf("memory %d, peak %d", rss, peak)
	}
	if parentOf(self) != os.Getppid() {
		t.Errorf("parent %d, want %d", parentOf(self), os.Getppid())
	}
	if processor(1<<22+1) != 0 || memoryOf(1<<22+1, "VmRSS") != 0 {
		t.Error("a process that is not there has figures")
	}
}

func TestTheProbeDoesNotFindItself(t *testing.T) {
	for _, text := range []string{probeArgument, probeScript, secretPrefix, `exec "${0%/*}/probe" ` + probeArgument} {
		if secret.MatchString(text) {
			t.Errorf("%q looks like a secret", text)
		}
	}
	if !secret.MatchString("password=" + secretPrefix + word() + "@") {
		t.Error("a secret is not found")
	}
}

func TestOnlyAnAnswerThatSaysWhatIsWrongWithARowIsHeld(t *testing.T) {
	for body, want := range map[string]string{
		`{"type":"urn:handoff:problem:unreadable-row","detail":"result of execution 1: must be an object"}`: "result of execution 1: must be an object",
		`{"type":"urn:handoff:problem:unreadable-row"}`:                                                     "",
		`{"type":"urn:handoff:problem:internal","detail":"stands in the log"}`:                              "",
		`Internal Server Error`: "",
	} {
		if got := unreadableRow(answer{status: 500, head: []byte(body)}); got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
}
