package manual_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"handoff/chaos/live/cluster"
	"handoff/chaos/live/compose"
	"handoff/chaos/live/manual"
)

// In a compose project, servers are services like the daemons, so they can be controlled in the same way.
// Mend resumes paused services, because the engine refuses to resume others, and starts all services.
func TestComposeControlsServersAsServices(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "docker")
	const says = `#!/bin/sh
echo "$@" >> "$0.asked"
case "$*" in
*config*) printf 'postgres\nrabbitmq\ntoxiproxy\nexecutor-1\nworker-1\n';;
*ps*) echo worker-1;;
esac
`
	if err := os.WriteFile(script, []byte(says), 0o600); err != nil {
		t.Fatal(err)
	}
	by := manual.Compose{File: "f.yaml", Tool: compose.Tool{"/bin/sh", script}}
	if err := by.Do(t.Context(), "broker", cluster.Crash); err != nil {
		t.Fatal(err)
	}
	if err := by.Do(t.Context(), "database", cluster.Pause); err != nil {
		t.Fatal(err)
	}
	if err := by.Mend(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = `-f f.yaml kill rabbitmq
-f f.yaml pause postgres
-f f.yaml config --services
-f f.yaml ps --services --filter status=paused
-f f.yaml unpause worker-1
-f f.yaml start postgres rabbitmq executor-1 worker-1
`
	if asked, err := os.ReadFile(script + ".asked"); err != nil || string(asked) != want {
		t.Errorf("commands (%v):\n%s\nwant:\n%s", err, asked, want)
	}
}

// Every link in the compose file leads through a proxy with the name that chaos inject expects.
func TestEveryComposeLinkHasExpectedProxy(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Environment map[string]string
			Command     []string
		}
	}
	text, err := os.ReadFile("../../../docker-compose.chaos.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	var proxies []struct {
		Name, Listen, Upstream string
		Enabled                bool
	}
	text, err = os.ReadFile("../compose/toxiproxy.json")
	if err == nil {
		err = json.Unmarshal(text, &proxies)
	}
	if err != nil {
		t.Fatal(err)
	}
	left := make(map[string]string)
	for _, p := range proxies {
		left[p.Name] = strings.TrimPrefix(p.Listen, "0.0.0.0:") + " " + p.Upstream
		if !p.Enabled {
			t.Errorf("%s is not enabled", p.Name)
		}
	}
	links := 0
	for name, service := range file.Services {
		worker := strings.HasPrefix(name, "worker-")
		if !worker && !strings.HasPrefix(name, "executor-") {
			continue
		}
		wanted := map[string]string{"HANDOFF_DATABASE_URL": "database postgres:5432", "HANDOFF_MESSAGE_QUEUE_RABBITMQ_URL": "broker rabbitmq:5672"}
		if worker {
			wanted["HANDOFF_WORKER_HEALTH_URL"] = "executors " + name + ":8081"
		}
		for variable, want := range wanted {
			links++
			server, upstream, _ := strings.Cut(want, " ")
			u, err := url.Parse(service.Environment[variable])
			if err != nil || u.Hostname() != "toxiproxy" {
				t.Errorf("%s: %s does not lead through toxiproxy: %q, %v", name, variable, service.Environment[variable], err)
				continue
			}
			link := name + "." + server
			if want := fmt.Sprintf("%s %s", u.Port(), upstream); left[link] != want {
				t.Errorf("%s: the proxy is %q, want %q", link, left[link], want)
			}
		}
	}
	if links != len(proxies) || links == 0 {
		t.Errorf("%d links and %d proxies", links, len(proxies))
	}
}
