package manual

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"handoff/chaos/fault"
	"handoff/chaos/live/cluster"
	"handoff/chaos/live/compose"
)

// Control supervises the system of a running `chaos up`, through the control interface at this address.
type Control string

var _ Supervisor = Control("")

// Processes implements Supervisor.
func (c Control) Processes(ctx context.Context) (all []cluster.Named, err error) {
	body, err := c.sendRequest(ctx, http.MethodGet, cluster.ProcessesPath)
	if err == nil {
		err = json.Unmarshal(body, &all)
	}
	if err != nil {
		return nil, fmt.Errorf("asking %s, which should be the control address that chaos up has printed: %w; if chaos up has ended, start it again", string(c), err)
	}
	return all, nil
}

// Do implements Supervisor.
func (c Control) Do(ctx context.Context, name string, act cluster.Act) error {
	_, err := c.sendRequest(ctx, http.MethodPost, cluster.ProcessesPath+"/"+url.PathEscape(name)+"/"+string(act))
	return err
}

func (c Control) sendRequest(ctx context.Context, method, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, string(c)+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	return body, err
}

// Compose supervises a system that docker compose runs from File. Services and processes have the same names.
type Compose struct {
	File string
	Tool compose.Tool
}

var _ Supervisor = Compose{}

// Processes implements Supervisor.
func (c Compose) Processes(ctx context.Context) ([]cluster.Named, error) {
	out, err := c.Tool.Run(ctx, nil, "-f", c.File, "config", "--services")
	if err != nil {
		return nil, err
	}
	var all []cluster.Named
	for _, name := range strings.Fields(out) {
		worker := strings.HasPrefix(name, "worker-")
		if worker || strings.HasPrefix(name, "executor-") {
			all = append(all, cluster.Named{Name: name, Worker: worker})
		}
	}
	return all, nil
}

// Do implements Supervisor.
func (c Compose) Do(ctx context.Context, name string, act cluster.Act) error {
	_, err := c.Tool.Run(ctx, nil, "-f", c.File, composeCommand(act), serviceName(name))
	return err
}

// serviceName returns the compose file's name for a process or a server.
func serviceName(name string) string {
	switch name {
	case fault.Broker:
		return "rabbitmq"
	case fault.Database:
		return "postgres"
	}
	return name
}

// composeCommand returns docker compose's command for an act. A stop may take the service's whole grace period.
func composeCommand(act cluster.Act) string {
	switch act {
	case cluster.Crash:
		return "kill"
	case cluster.Resume:
		return "unpause"
	default:
		return string(act)
	}
}
