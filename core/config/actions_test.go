package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/core/execution"
)

func TestActionFilesAreLoaded(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"echo.yaml":   "name: core.echo\nruntime: shell\nentrypoint: echo hello\ntimeout_seconds: 30\ndispatch_timeout_seconds: 60\nmax_retries: 2\nretried_exit_codes: [75, 1, 75]\nconcurrency: 4\n",
		"more.yml":    "- {name: core.noop, runtime: noop}\n- {name: core.py, runtime: python, entrypoint: a.py, timeout_seconds: null, retried_exit_codes: null, concurrency: null}\n",
		".hidden.yml": "nonsense",
		"readme.md":   "nonsense",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, problems := LoadActions(dir, Default(Hardened))
	want := []execution.Action{
		{Ref: "core.echo", Runtime: "shell", Entrypoint: "echo hello", Timeout: 30 * time.Second, DispatchTimeout: time.Minute, MaxRetries: 2, RetriedExitCodes: execution.NewExitCodes(1, 75), Concurrency: 4},
		{Ref: "core.noop", Runtime: "noop"},
		{Ref: "core.py", Runtime: "python", Entrypoint: "a.py"},
	}
	if len(problems) > 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("actions %+v, %v; want %+v", got, problems, want)
	}
	if _, problems := LoadActions(filepath.Join(dir, "nowhere"), Default(Hardened)); len(problems) != 1 {
		t.Errorf("a directory that does not exist: %v", problems)
	}
}

func TestMistakesInActionFilesAreLocated(t *testing.T) {
	for text, want := range map[string][]string{
		"": {`a.yaml:1:1: the file is empty; an action has name, runtime and entrypoint`},
		"ref: core.echo\nruntme: shell\n": {
			`a.yaml:1:1: key "ref" was renamed to name`,
			`a.yaml:2:1: unknown key "runtme" under the action; allowed: name, runtime, entrypoint, timeout_seconds, dispatch_timeout_seconds, max_retries, retried_exit_codes, concurrency; did you mean "runtime"?`,
		},
		"name: a b\nruntime: shel\n": {
			`a.yaml:1:7: name "a b" must be letters, digits, - and _ with dots between them, such as core.echo, at most 200 characters`,
			`a.yaml:2:10: runtime "shel" is not a runtime; allowed: shell, python, node, noop; did you mean "shell"?`,
		},
		"name: a\nruntime: shell\n": {`a.yaml:1:1: entrypoint is missing; name what the runtime shell is to run`},
		"name: a\nruntime: noop\ndispatch_timeout_seconds: 181\n": {
			`a.yaml:3:27: dispatch_timeout_seconds is 181, must not be longer than message_queue.rabbitmq.worker_queue_ttl_ms (3m): the message would die while it can still be claimed`,
		},
		"name: a\nruntime: noop\ntimeout_seconds: 0\nmax_retries: -1\nconcurrency: 0\n": {
			`a.yaml:3:18: timeout_seconds is 0, must be from 1 to 2678400`,
			`a.yaml:4:14: max_retries is -1, must be from 0 to 100`,
			`a.yaml:5:14: concurrency is 0, must be from 1 to 10000`,
		},
		"name: a\nruntime: noop\nretried_exit_codes:\n  - 0\n  - 1\n  - 256\n  - timeout\n": {
			`a.yaml:4:5: an exit code under retried_exit_codes is 0, must be from 1 to 255`,
			`a.yaml:6:5: an exit code under retried_exit_codes is 256, must be from 1 to 255`,
			`a.yaml:7:5: an exit code under retried_exit_codes must be a whole number, is the string "timeout"`,
		},
		"name: a\nruntime: noop\nretried_exit_codes: 75\n":         {`a.yaml:3:21: retried_exit_codes must be a list, is the number 75`},
		"- {name: a, runtime: noop}\n- {name: a, runtime: noop}\n": {`a.yaml:2:10: duplicate action a; the first is at a.yaml:1`},
		"just text\n": {`a.yaml:1:1: the action must be a mapping (key: value), is the string "just text"`},
	} {
		_, problems := ParseActions("a.yaml", []byte(text), Default(Hardened))
		if got := texts(problems); !slices.Equal(got, want) {
			t.Errorf("%q:\n%s\nwant:\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func FuzzActions(f *testing.F) {
	for _, seed := range []string{
		"", "name: core.echo\nruntime: shell\nentrypoint: echo\n", "- {name: a, runtime: noop}\n- 3\n", "name: [a]\n", "timeout_seconds: null\nname: a\nruntime: noop\n",
		"name: &x a\nruntime: *x\n", "{}", "[]", "name: a\nname: b\n",
	} {
		f.Add([]byte(seed))
	}
	c := Default(Hardened)
	f.Fuzz(func(t *testing.T, data []byte) {
		actions, problems := ParseActions("a.yaml", data, c)
		for _, a := range actions {
			if p := c.ValidateAction(a); len(p) > 0 {
				t.Errorf("%+v was read and is refused: %v", a, p)
			}
		}
		for _, p := range problems {
			_ = p.Error()
		}
	})
}
