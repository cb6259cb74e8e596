package system

import (
	"strings"
	"testing"
	"time"
)

const toy = `
name: toy
servers: [postgres]
prepare: python3 toy.py prepare
processes:
  worker: {run: python3 toy.py work, count: 2, starts: 3s}
  beat: {run: python3 toy.py beat, restart: never}
submit: python3 toy.py submit
jobs: {sql: "select name as job, status from job", done: [done]}
env: {LEASE_S: 5}
settings: {postgres: {max_connections: 50}}
promises: {delivery: at-least-once, overlap: never, recovery: 6s}
`

func TestParseReadsSystem(t *testing.T) {
	s, err := Parse("toy/system.yaml", []byte(toy))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(append(s.Workers(), s.Others()...), " "); got != "worker-1 worker-2 beat-1" {
		t.Errorf("processes: %s", got)
	}
	if beat := s.Processes[1]; beat.Restart >= 0 || beat.Starts != 20*time.Second || s.Processes[0].Restart != time.Second {
		t.Errorf("%+v", s.Processes)
	}
	if s.Env["LEASE_S"] != "5" || s.Settings["postgres"]["max_connections"] != "50" || s.Promises.Overlap == nil || s.Promises.Recovery.Silent != 6*time.Second {
		t.Errorf("%+v", s)
	}
	if !strings.HasSuffix(s.Folder, "/toy") || s.Starts() != 20*time.Second {
		t.Errorf("folder %s, starts %s", s.Folder, s.Starts())
	}
}

func TestParseRefusesMistakesWithPosition(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"an unknown key":         {"submit:", "sumbit:", "submit"},
		"an unknown server":      {"[postgres]", "[mysql]", "postgres, rabbitmq, redis"},
		"no worker":              {"worker:", "job:", "there is no role worker"},
		"a name":                 {"name: toy", "name: My Toy", "small letters"},
		"two ways to ask":        {"done: [done]", "done: [done], run: x", "either sql or run"},
		"a query without server": {"[postgres]", "[redis]", "servers does not list postgres"},
		"settings of another":    {"{postgres: {max", "{rabbitmq: {max", "a server that the system has"},
		"too many":               {"count: 2", "count: 50", "20"},
		"a promise":              {"overlap: never", "overlap: sometimes", "never"},
		"a list as a variable":   {"LEASE_S: 5", "LEASE_S: [5]", "a text or a number"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse("system.yaml", []byte(strings.Replace(toy, c.from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "system.yaml:") {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}
