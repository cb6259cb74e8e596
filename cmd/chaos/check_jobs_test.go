package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// pageHistory writes the example of docs/history.md into a file.
func pageHistory(t *testing.T) string {
	t.Helper()
	page := readRepoFile(t, "docs", "history.md")
	block := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(page)
	return writeText(t, "jobs.jsonl", block[1])
}

func writeText(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckJudgesPublicHistory(t *testing.T) {
	path := pageHistory(t)
	runChaos(t, "check", path).expectOutput(t, 1,
		"BROKEN        P5  No overlap: once", "attempt 2 on web-5 and attempt 1 on web-3, from 10:00:31.500 to 10:00:33.000, for 1.5s",
		"BROKEN        P9  The result stays: once", "holds         P1  Nothing is lost", "not judged    P10 Graceful stop: the history has no line of the kind process_stopping")
	runChaos(t, "check", path, "--promises", writeText(t, "promises.yaml", "overlap: {most: 2s}\n")).expectOutput(t, 0, "holds         P5", "measured      P9", "broken once if it were")
	var got struct {
		Verdict string
		Rules   []struct {
			Name, Verdict string
			Violations    int
		}
	}
	run := runChaos(t, "check", path, "--json", "-")
	if err := json.Unmarshal([]byte(run.out), &got); err != nil || got.Verdict != "fail" || len(got.Rules) != 12 || got.Rules[4].Violations != 1 {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestCheckRefusesBadPublicHistory(t *testing.T) {
	const line = `{"at": "2026-11-27T10:00:00Z", "kind": "submitted", "job": "a"}` + "\n"
	for name, c := range map[string]struct {
		text, promises, want string
	}{
		"a line":         {line + `{"at": "2026-11-27T10:00:00Z", "kind": "begun"}`, "", `jobs.jsonl:2: unknown kind "begun"`},
		"a version":      {`{"history": 7}`, "", "this program reads version 1"},
		"its promises":   {`{"history": 1, "promises": {"delivery": "twice"}}` + "\n" + line, "", "at-least-once"},
		"its slack":      {`{"history": 1, "slack": "soon"}` + "\n" + line, "", "slack"},
		"given promises": {line, "delivery: twice\n", "promises.yaml:1:"},
		"only a header":  {`{"history": 1}`, "", "no line but its header"},
	} {
		args := []string{"check", writeText(t, "jobs.jsonl", c.text)}
		if c.promises != "" {
			args = append(args, "--promises", writeText(t, "promises.yaml", c.promises))
		}
		t.Run(name, func(t *testing.T) { runChaos(t, args...).expectOutput(t, 2, c.want) })
	}
	runChaos(t, "check", "--sql", "x.sql").expectOutput(t, 2, "name it with --database-url")
}

func TestCheckWithoutPromisesSaysSo(t *testing.T) {
	path := writeText(t, "jobs.jsonl", `{"at": "2026-11-27T10:00:00Z", "kind": "submitted", "job": "a"}`)
	runChaos(t, "check", path).expectOutput(t, 3, "No promise was given", "no rule could be judged with certainty")
}
