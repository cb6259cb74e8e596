package main

import (
	"os"
	"strings"
	"testing"
)

// Each usage error states what was tried and what to do instead.
func TestUsageErrorsSayWhatToDo(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"calm.yaml": calm, "taken.yaml": "", "empty.jsonl": ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ command, tried, instead string }{
		// A missing name, file or folder.
		{"run nowhere.yaml", "nowhere.yaml: no such file", "chaos new NAME"},
		{"run folder", "no scenario in folder", "chaos new NAME writes one"},
		{"run ttl-rac", `no scenario is called "ttl-rac"`, "chaos list shows them"},
		{"run ttl-race --mutant nobdy", `no mutant is called "nobdy"`, "chaos list --mutants shows them"},
		{"mutants --only nobdy", `no mutant is called "nobdy"`, "chaos list --mutants shows them"},
		{"check nowhere", "no such history: nowhere", "the folder of a failure, as in reports/out/"},
		{"check folder", "folder holds no history.jsonl", "as in reports/out/"},
		{"diff nowhere elsewhere", "nowhere: a history.jsonl is needed", "as in reports/out/"},
		{"merge nowhere", "no such share: ", "chaos run --shard writes one"},
		{"merge folder", "no share in folder", "chaos run --shard writes it"},
		{"up --actions nowhere", "--actions nowhere", "the action files (docs/actions.md)"},
		// No argument, or one too many.
		{"replay", "needs one scenario, and got 0", "as in: bin/chaos replay ttl-race --seed 7"},
		{"why", "needs one scenario, and got 0", "as in: bin/chaos why "},
		{"shrink", "needs one scenario, and got 0", "as in: bin/chaos shrink "},
		{"export", "needs one scenario or recording, and got 0", "as in: bin/chaos export "},
		{"new one two", "needs one name, and got 2", "as in: bin/chaos new my-incident"},
		{"list faults", `takes no argument, and got "faults"`, "chaos list --help shows its flags"},
		// Names for new scenarios.
		{"new ttl-race", `the library has a scenario "ttl-race" already`, "choose another name"},
		{"new taken", "taken.yaml can't be written: file exists", "choose another name or folder, or remove the file"},
		// Seeds, and two values for a single-valued flag.
		{"run calm.yaml --seed -1", "--seed -1", "a whole number that is not negative"},
		{"run calm.yaml --seeds 0", "--seeds 0", "at least 1 seed"},
		{"run calm.yaml --seeds -1", "--seeds -1", "at least 1 seed"},
		{"run calm.yaml --world sim --world live", `--world is given twice, as "sim" and as "live"`, "give it once"},
		{"replay calm.yaml --seed 1 --seed=2", `--seed is given twice, as "1" and as "2"`, "give it once"},
		{"shrink calm.yaml --seed 1 -o a.yaml --output b.yaml", `--output is given twice`, "give it once"},
		{"run calm.yaml --profile hardened --profile documented", "--profile is given twice", "give it once"},
		// Unwritable results.
		{"run calm.yaml --seed 1 --out calm.yaml", "--out: making the folder: calm.yaml: not a directory", "name a folder that can be written"},
		{"run calm.yaml --seed 1 --json calm.yaml/x", "--json: making the folder: calm.yaml: not a directory", "name a folder that can be written"},
		{"export calm.yaml --seed 1 --perfetto calm.yaml/x", "--perfetto: making the folder: calm.yaml: not a directory", "name a folder that can be written"},
	} {
		said := runChaos(t, strings.Fields(x.command)...)
		said.expectOutput(t, 2, x.tried, x.instead)
		if said.out != "" || !strings.HasPrefix(said.err, "chaos: ") {
			t.Errorf("%s: not an error alone\n%s%s", x.command, said.out, said.err)
		}
	}
	// A flag may be repeated with the same value, and 0 is an ordinary seed.
	runChaos(t, "run", "calm.yaml", "--seed", "0", "--seed", "0", "--profile", "hardened", "--out", "out").expectOutput(t, 0, "pass: 1 run")
}
