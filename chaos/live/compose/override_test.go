package compose

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"handoff/chaos/netproxy"
	"handoff/chaos/servers"
)

var labels = map[string]string{"handoff.chaos.run": "/tmp/handoff-chaos-1"} //nolint:gochecknoglobals // a constant

// The override contains every process setting that differs between runs, but nothing from the base file: a
// port published in both would already be in use.
func TestProcessesOverrideAddsOnlyRunSettings(t *testing.T) {
	all := []*Service{
		{Name: "executor-1", Command: []string{"/usr/local/bin/executor", "--name", "executor-1"}, Folder: "/tmp/f", Listens: 8080, Port: 21001},
		{
			Name: "shell-1-twin-0", Command: []string{"/usr/local/bin/worker", "--name", "a $NAME"}, Folder: "/tmp/f", Listens: 8081, Port: 21002,
			Env: []string{"HANDOFF_DATABASE_URL=postgres://toxiproxy:20001/x?application_name=shell-1+twin+0", "EMPTY="},
		},
	}
	o := processesOverride(all, labels)
	if got := o.Services["executor-1"].Ports; got != nil {
		t.Errorf("the override publishes %v of executor-1, which the file publishes already", got)
	}
	twin := o.Services["shell-1-twin-0"]
	if want := []string{"127.0.0.1:21002:8081"}; !slices.Equal(twin.Ports, want) {
		t.Errorf("ports %v, want %v", twin.Ports, want)
	}
	if got := twin.Command[2]; got != "a $$NAME" {
		t.Errorf("the argument %q would be expanded as a variable", got)
	}
	if got := twin.Environment["HANDOFF_DATABASE_URL"]; !strings.HasSuffix(got, "?application_name=shell-1+twin+0") {
		t.Errorf("a value is truncated: %q", got)
	}
	if twin.Labels["handoff.chaos.run"] == "" || twin.Volumes[0] != "/tmp/f:/tmp/f" || twin.User != fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()) {
		t.Errorf("%+v", twin)
	}
}

// The compose file has the services that the stack starts, and reads ports and image from its variables.
func TestComposeFileMatchesOverrides(t *testing.T) {
	services := describedServices(t)
	for name, variable := range map[string]string{
		servicePostgres: "HANDOFF_POSTGRES_PORT", serviceRabbitMQ: "HANDOFF_RABBITMQ_PORT", serviceToxiproxy: "HANDOFF_TOXIPROXY_PORT", fileExecutor: "HANDOFF_API_PORT",
	} {
		if ports := services[name].Ports; len(ports) != 1 || !strings.Contains(ports[0], "127.0.0.1:${"+variable+":-") {
			t.Errorf("%s publishes %v, without the variable %s", name, ports, variable)
		}
	}
	if got := services[fileExecutor].Image; got != daemonImage {
		t.Errorf("the file's image is %s, that of the processes %s", got, daemonImage)
	}
	for name := range serversOverride(labels).Services {
		if services[name].Image == "" {
			t.Errorf("the file has no service %s", name)
		}
	}
}

func TestEffectsMapToToxics(t *testing.T) {
	after := func() time.Duration { return 1500 * time.Millisecond }
	for want, e := range map[string]netproxy.Effect{
		"latency map[jitter:0 latency:1500]":                                 {Delay: after},
		"slicer map[average_size:1073741824 delay:1500000 size_variation:0]": {Each: after},
		"timeout map[timeout:0]":                                             {Hold: true},
	} {
		if kind, attributes := toxicFor(e); fmt.Sprint(kind, " ", attributes) != want {
			t.Errorf("%s %v, want %s", kind, attributes, want)
		}
	}
}

func TestOpenFailsWithoutEngine(t *testing.T) {
	t.Setenv("HANDOFF_WITHOUT", "docker")
	_, err := Open(t.Context(), "../../../docker-compose.chaos.yaml", nil)
	if !errors.Is(err, servers.ErrEnvironment) || !strings.Contains(err.Error(), "HANDOFF_WITHOUT names docker") {
		t.Errorf("got %v", err)
	}
}

// A fault on a link counts as touched once its process has been alive for a heartbeat, unless the fault ends
// first.
func TestTrafficTouchesFaultAfterHeartbeat(t *testing.T) {
	touched := make(chan struct{})
	alive := make(chan bool, 2)
	alive <- false
	alive <- true
	stop := Traffic{Every: time.Millisecond, Alive: func() bool { return <-alive }}.touchOnTraffic(func() { close(touched) })
	<-touched
	stop()
	stop = Traffic{Every: time.Hour, Alive: func() bool { return true }}.touchOnTraffic(func() { t.Error("touched after the fault's end") })
	stop()
}
