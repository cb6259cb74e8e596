package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommandLineReportsHelpAndProblems(t *testing.T) {
	c := Command{Name: "worker", About: "runs actions.", Flags: []FlagSpec{{"concurrency", "worker.concurrency", "NUMBER", "how many"}}}
	path := filepath.Join(t.TempDir(), "handoff.yaml")
	if err := os.WriteFile(path, []byte(addresses), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		args, environ []string
		code          int
		done          bool
		out, err      string
	}{
		{args: []string{"--help"}, done: true, out: "HANDOFF_EXECUTOR_DISPATCH_TIMEOUT"},
		{args: []string{"--help"}, done: true, out: "--concurrency NUMBER   how many\n"},
		{args: []string{"--config", path}},
		{environ: []string{"HANDOFF_CONFIG=" + path}},
		{args: []string{"--config", path, "--print-config"}, done: true, out: "# " + path + ":1:17"},
		{args: []string{"--config", path, "--concurency=3"}, code: 2, done: true, err: `worker: unknown flag --concurency; allowed: --config, --print-config, --profile, --concurrency; did you mean "--concurrency"?`},
		{args: []string{"--config", path, "--concurrency", "x"}, code: 2, done: true, err: "--concurrency: worker.concurrency must be a whole number"},
		{args: []string{"--config", path, "run"}, code: 2, done: true, err: `takes no argument, and got "run"`},
		{args: []string{"--config", path + "x"}, code: 2, done: true, err: "the configuration can't be read"},
		{code: 2, done: true, err: "the configuration has 2 problems:\n"},
	} {
		var stdout, stderr bytes.Buffer
		code, done := c.Parse(r.args, r.environ).Answer("worker", &stdout, &stderr)
		if code != r.code || done != r.done || !strings.Contains(stdout.String(), r.out) || !strings.Contains(stderr.String(), r.err) || r.err == "" && stderr.Len() > 0 {
			t.Errorf("%q: %d, %v\n%s\n%s\nwant %+v", r.args, code, done, &stdout, &stderr, r)
		}
	}
}
