package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// failingFolder runs a scenario until it fails, and returns the folder of the failure, moved into an empty
// directory.
func failingFolder(t *testing.T, args ...string) string {
	t.Helper()
	out := t.TempDir()
	runChaos(t, append([]string{"run", "--quiet", "--out", out}, args...)...)
	files, err := filepath.Glob(filepath.Join(out, "*", "history.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatal("the report wrote no history", err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(filepath.Dir(files[0]), moved); err != nil {
		t.Fatal(err)
	}
	return moved
}

// The folder of a failure contains everything that is needed to judge and replay its run. That includes
// scenarios outside the library, and the drawn scenario of a varied run.
func TestFailureFolderIsJudgedAnywhere(t *testing.T) {
	skipInMakeCheck(t)
	text, err := os.ReadFile("../../scenarios/order/network-partition.yaml")
	if err != nil {
		t.Fatal(err)
	}
	mine := strings.Replace(string(text), "name: network-partition", "name: my-own", 1)
	own := writeFile(t, "my-own.yaml", mine)
	for name, args := range map[string][]string{
		"of the library":  {"network-partition", "--profile", "hardened", "--mutant", "unguarded-finish", "--seeds", "40", "--varied=never"},
		"of a file":       {own, "--profile", "hardened", "--mutant", "unguarded-finish", "--seeds", "40", "--varied=never"},
		"of a varied run": {own, "--profile", "hardened", "--mutant", "unguarded-finish", "--seeds", "20", "--varied"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := failingFolder(t, args...)
			if err := os.Remove(own); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := os.WriteFile(own, []byte(mine), 0o600); err != nil {
					t.Error(err)
				}
			}()
			t.Chdir(t.TempDir())
			said := runChaos(t, "check", folder)
			said.expectOutput(t, 1, "FAIL invariant ", "\nreplay: bin/chaos replay ", " --mutant unguarded-finish\n")
			_, broken, _ := strings.Cut(said.out, "FAIL invariant ")
			broken, _, _ = strings.Cut(broken, "\n")
			_, rule, _ := strings.Cut(broken, ", ")
			_, command, _ := strings.Cut(said.out, "\nreplay: bin/chaos ")
			command, _, _ = strings.Cut(command, "\n")
			again := runChaos(t, strings.Fields(command)...)
			again.expectOutput(t, 1, "VIOLATION of ")
			if !strings.Contains(again.out, rule+" at step") {
				t.Errorf("the replay does not break %q:\n%s", rule, again.out[max(0, len(again.out)-1500):])
			}
		})
	}
}

// check refuses a folder whose links lead outside it, or whose scenario does not match its history.
func TestCheckRefusesMismatchedFolders(t *testing.T) {
	const history = `{"schema":1,"scenario":"calm","profile":"hardened","seed":1,"mutant":"","workers":{"1":"w"}}` + "\n" +
		`{"at_ns":0,"kind":"created","execution":1,"chain":1,"to":"requested","by":"api","action":"a","text":"shell"}` + "\n"
	secret := writeFile(t, "secret.yaml", "secret: words\n")
	for _, c := range []struct {
		name  string
		files map[string]string
		link  string
		code  int
		want  string
	}{
		{"matching files", map[string]string{"history.jsonl": history, "scenario.yaml": calm}, "", 0, "calm (hardened), seed 1"},
		{"a report's folder", map[string]string{"index.html": ""}, "", 2, "holds no history.jsonl (no such file or directory): name the folder of one failure"},
		{"no scenario, and none in the library", map[string]string{"history.jsonl": history}, "", 0, `is of the scenario "calm", and there is neither a scenario.yaml beside it nor such a scenario in the library`},
		{"another scenario", map[string]string{"history.jsonl": history, "scenario.yaml": strings.Replace(calm, "name: calm", "name: other", 1)}, "", 2, `is called "other", and the history beside it is of "calm"`},
		{"another profile", map[string]string{"history.jsonl": history, "scenario.yaml": strings.Replace(calm, "profile: [hardened, documented]", "profile: documented", 1)}, "", 2, "does not run under the profile hardened"},
		{"a wrong scenario", map[string]string{"history.jsonl": history, "scenario.yaml": "name: calm\n"}, "", 2, "scenario.yaml:"},
		{"a long scenario", map[string]string{"history.jsonl": history, "scenario.yaml": calm + strings.Repeat("#\n", 1<<20)}, "", 2, "scenario.yaml:"},
		{"a link out of the folder", map[string]string{"history.jsonl": history}, "scenario.yaml", 2, "path escapes from parent"},
		{"a history linked from outside", nil, "history.jsonl", 2, "path escapes from parent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.link != "" {
				if err := os.Symlink(secret, filepath.Join(folder, c.link)); err != nil {
					t.Fatal(err)
				}
			}
			said := runChaos(t, "check", folder)
			said.expectOutput(t, c.code, c.want)
			if strings.Contains(said.out+said.err, "words") {
				t.Errorf("it shows a file outside the folder:\n%s%s", said.out, said.err)
			}
		})
	}
}

// A history file is judged like its folder. Without its scenario, check names the missing part and judges the
// rules that need no configuration.
func TestHistoryFileIsJudgedLikeItsFolder(t *testing.T) {
	const history = `{"schema":1,"scenario":"calm","profile":"hardened","seed":1,"mutant":"","workers":{"1":"w"}}` + "\n" +
		`{"at_ns":0,"kind":"created","execution":1,"chain":1,"to":"requested","by":"api","action":"a","text":"shell"}` + "\n" +
		`{"at_ns":1,"kind":"transition","execution":1,"chain":1,"from":"requested","to":"running","by":"api"}` + "\n"
	folder := t.TempDir()
	file := filepath.Join(folder, "history.jsonl")
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(file, history)
	put(filepath.Join(folder, "scenario.yaml"), calm)
	whole, one := runChaos(t, "check", folder), runChaos(t, "check", file)
	one.expectOutput(t, 1, "FAIL invariant 1, legal transitions", "\nreplay: bin/chaos replay ")
	if one.out != whole.out || one.err != whole.err {
		t.Errorf("the file is judged as\n%s%s\nand the folder as\n%s%s", one.out, one.err, whole.out, whole.err)
	}
	put(filepath.Join(folder, "scenario.yaml"), "nonsense")
	runChaos(t, "check", file).expectOutput(t, 2, "scenario.yaml:1")
	runChaos(t, "check", file, "--scenario", "two-executors").expectOutput(t, 1, "FAIL invariant 1")
	runChaos(t, "check", folder, "--scenario", "two-executors").expectOutput(t, 1, "FAIL invariant 1")

	if err := os.Remove(filepath.Join(folder, "scenario.yaml")); err != nil {
		t.Fatal(err)
	}
	said := runChaos(t, "check", file)
	said.expectOutput(t, 1, `is of the scenario "calm", and there is neither a scenario.yaml beside it`, "--scenario FILE.yaml",
		"FAIL invariant 1, legal transitions", "not judged   5 nothing lost: its bounds follow from the configuration of the scenario, which is not known")
	if strings.Contains(said.out, "holds        5 ") {
		t.Errorf("a rule with bounds is judged:\n%s", said.out)
	}
}
