package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// commandsWith lists the commands, by their present names, that have a flag.
func commandsWith(flag string) (with []*cobra.Command) {
	for _, cmd := range (&app{}).root().Commands() {
		if !cmd.Hidden && cmd.Flags().Lookup(flag) != nil {
			with = append(with, cmd)
		}
	}
	return with
}

// valueFor returns a value that every flag of a kind accepts, and that is no flag's default.
func valueFor(kind string) string {
	switch kind {
	case "bool":
		return "true"
	case "int":
		return "7"
	}
	return "seven"
}

// given runs a command that only notes the value of a flag, and returns the value and the output.
func given(t *testing.T, flag, command string, args ...string) (value, text string, err error) {
	t.Helper()
	var said bytes.Buffer
	a := &app{out: newTerminal(&said), err: newTerminal(&said)}
	root := a.root()
	root.SetArgs(append([]string{command}, args...))
	work, _, err := root.Find([]string{command})
	if err != nil {
		t.Fatal(err)
	}
	work.Args = cobra.ArbitraryArgs
	work.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed(flag) {
			value = cmd.Flags().Lookup(flag).Value.String()
		}
		return nil
	}
	err = root.Execute()
	return value, said.String(), err
}

func TestOldFlagsSetTheNewOnes(t *testing.T) {
	for _, r := range renamedFlags {
		commands := commandsWith(r.now)
		if len(commands) == 0 {
			t.Errorf("no command has --%s, which --%s is renamed to", r.now, r.old)
		}
		for _, cmd := range commands {
			value := valueFor(cmd.Flags().Lookup(r.now).Value.Type())
			old, now := "--"+r.old+"="+value, "--"+r.now+"="+value
			if seen, said, err := given(t, r.now, cmd.Name(), old); err != nil || seen != value || said != "--"+r.old+" is called --"+r.now+" now\n" {
				t.Errorf("chaos %s %s: %v, sets %q, says %q", cmd.Name(), old, err, seen, said)
			}
			if seen, said, err := given(t, r.now, cmd.Name(), now); err != nil || seen != value || said != "" {
				t.Errorf("chaos %s %s: %v, sets %q, says %q", cmd.Name(), now, err, seen, said)
			}
			if _, _, err := given(t, r.now, cmd.Name(), old, now); err == nil || !strings.HasSuffix(err.Error(), "--"+r.old+" is called --"+r.now+" now; give that one only") {
				t.Errorf("chaos %s %s %s: %v", cmd.Name(), old, now, err)
			}
			if help := chaos(t, "help", cmd.Name()); strings.Contains(help.out, "--"+r.old+" ") {
				t.Errorf("the help of chaos %s still shows --%s", cmd.Name(), r.old)
			}
		}
	}
	chaos(t, "list", "--flaws", "--mutants").wants(t, 2, "--flaws and --mutants are the same: --flaws is called --mutants now; give that one only")
	chaos(t, "mutants", "--lanes", "many", "--world", "live").wants(t, 2, "a whole number is needed")
	// Code that checks which flags were given sees the new ones.
	chaos(t, "run", "ttl-race", "--lanes", "2").wants(t, 2, "--parallel is for the live world")
}

func TestOldCommandsDoTheSame(t *testing.T) {
	for _, r := range renamedCommands {
		now, old := chaos(t, r.now, "--only", "unguarded-monitor"), chaos(t, r.old, "--only", "unguarded-monitor")
		now.wants(t, 0)
		old.wants(t, 0, "1 of 1 mutants killed")
		if notice := "chaos " + r.old + " is called chaos " + r.now + " now\n"; strings.Contains(now.err, "is called") || strings.Count(old.err, notice) != 1 {
			t.Errorf("%q\nand\n%q", now.err, old.err)
		}
		if help := chaos(t); strings.Contains(help.out, "\n  "+r.old+" ") {
			t.Errorf("the help still lists %s", r.old)
		}
		chaos(t, r.old[:len(r.old)-1]+"x").wants(t, 2, "no command is called")
	}
}

func TestLintNamesOldKeys(t *testing.T) {
	regressed := func(key string) string {
		return write(t, "calm.yaml", calm+"regression: {seed: 3, "+key+": unguarded-monitor}\n")
	}
	file := regressed("flaw")
	old := chaos(t, "lint", file)
	old.wants(t, 0, "calm.yaml: ok", file+":12:23: flaw is called mutant now\n")
	now := chaos(t, "lint", regressed("mutant"))
	now.wants(t, 0, "calm.yaml: ok")
	if strings.Contains(now.out+now.err, "is called") {
		t.Errorf("the new key says %s", now.out)
	}
	chaos(t, "lint", regressed("flaw: x, mutant")).wants(t, 2, "flaw and mutant under regression are the same: flaw is called mutant now; write that one only")
}

func TestOldFieldsOfHistoriesAreRead(t *testing.T) {
	judge := func(fields string) said {
		path := filepath.Join(t.TempDir(), "history.jsonl")
		if err := os.WriteFile(path, []byte(`{"schema":1,"scenario":"","profile":"hardened","seed":1,`+fields+`,"workers":{}}`+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return chaos(t, "check", path)
	}
	judge(`"flaw":"unguarded-monitor"`).wants(t, 3, "history.jsonl:1:57: flaw is called mutant now\n", "there was nothing to judge")
	if now := judge(`"mutant":"unguarded-monitor"`); now.err != "" {
		t.Errorf("the new field says %s", now.err)
	}
	judge(`"flaw":"x","mutant":"x"`).wants(t, 2, `duplicate field "mutant"`)
}
