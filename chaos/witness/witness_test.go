package witness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"handoff/chaos/jobhistory"
)

// tell formats lines for a comparison.
func tell(lines []jobhistory.Line) string {
	var all []string
	for _, l := range lines {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s/%s %s", l.Kind, l.Job, l.Attempt, l.Outcome)))
	}
	return strings.Join(all, ", ")
}

func TestReaderReportsStartEndAndDeath(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("a death is seen by pid on Linux only")
	}
	path := filepath.Join(t.TempDir(), "witness")
	r := NewReader(path, Now())
	if lines, err := r.Poll(); len(lines) > 0 || err != nil {
		t.Fatalf("before there is a file: %v, %v", lines, err)
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, l := range []Line{
		{Event: "start", Job: "a", Attempt: "1", PID: cmd.Process.Pid, Process: "w1", MonoNS: int64(Now())},
		{Event: "start", Job: "b", Attempt: "1", PID: cmd.Process.Pid, Process: "w1"},
		{Event: "end", Job: "b", Attempt: "1", How: "ok", Result: "r"},
	} {
		if err := Append(path, l); err != nil {
			t.Fatal(err)
		}
	}
	lines, err := r.Poll()
	if got := tell(lines); err != nil || got != "started a/1, started b/1, ended b/1 ok" {
		t.Errorf("%s, %v", got, err)
	}
	if at := lines[0].At; at < 0 || at > time.Minute {
		t.Errorf("started at %s", at)
	}
	if open := r.Open(); len(open) != 1 || open[0].Job != "a" {
		t.Errorf("open: %+v", open)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if lines, err = r.Poll(); tell(lines) != "ended a/1 died" || err != nil {
		t.Errorf("after the kill: %s, %v", tell(lines), err)
	}
	if lines, err = r.Poll(); len(lines) > 0 || err != nil || len(r.Open()) > 0 {
		t.Errorf("a death is reported twice: %s, %v", tell(lines), err)
	}
	if err := Append(path, Line{Event: "start", Job: "c", PID: cmd.Process.Pid}); err != nil {
		t.Fatal(err)
	}
	first, _ := r.Poll()
	second, _ := r.Poll()
	if got := tell(append(first, second...)); got != "started c/, ended c/ died" {
		t.Errorf("a process that was gone when its line was read: %s", got)
	}
}

func TestReaderWaitsForWholeLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "witness")
	r := NewReader(path, Now())
	write := func(text string) {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	write(`{"event": "start", "jo`)
	if lines, err := r.Poll(); len(lines) > 0 || err != nil {
		t.Errorf("half a line: %s, %v", tell(lines), err)
	}
	write("b\": \"a\"}\nnonsense\n" + `{"event": "end", "job": "a", "how": "well"}` + "\n" + `{"event": "begin", "job": "a"}` + "\n" + `{"event": "end", "job": "a", "how": "ok"}` + "\n")
	lines, err := r.Poll()
	if got := tell(lines); got != "started a/, ended a/ ok" {
		t.Errorf("%s", got)
	}
	for _, want := range []string{"nonsense", `how is "well"`, `event is "begin"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
