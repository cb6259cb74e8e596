// Package live runs a scenario in the real world: on a private PostgreSQL and RabbitMQ, with real executors
// and workers, every connection through its own proxy, and real faults. The same invariants as for a
// simulated run judge its history, which comes from evidence that the daemons can't falsify.
//
// A run is not deterministic. The seed determines the harness's own decisions: when faults begin, what they
// strike and how long actions take. It doesn't determine the machine's timing.
package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"handoff/chaos/live/compose"
	"handoff/chaos/servers"
)

// Sandbox is a PostgreSQL and a RabbitMQ for consecutive runs.
type Sandbox struct {
	servers *servers.Set
	// stack is the compose project if everything runs in containers; nil for processes of this machine.
	stack *compose.Stack
	// bin is the folder of the daemons' binaries; empty if they run in containers.
	bin string
	// folder is the folder of the runs' files.
	folder string
	runs   int
}

// Mutated is the subfolder, in the binaries' folder, of daemons that were built with the tag mutant.
const Mutated = "mutated"

// ErrNoDaemons means that the daemons' binaries are missing.
var ErrNoDaemons = errors.New("the daemons are not built")

// Open starts the servers. bin is the folder of the binaries executor and worker. management enables the
// broker's management API, which reports the costs of queues and connections. log receives a line for each
// step; it may be nil.
func Open(ctx context.Context, bin string, management bool, log io.Writer) (*Sandbox, error) {
	for _, name := range []string{"executor", "worker"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return nil, fmt.Errorf("%w: there is no %s in %s; run make build first", ErrNoDaemons, name, bin)
		}
	}
	servers, err := servers.Up(ctx, servers.Options{Postgres: true, RabbitMQ: true, Management: management, PrivateOnly: true, Log: log})
	if err != nil {
		return nil, err
	}
	return &Sandbox{servers: servers, bin: bin, folder: servers.Dir()}, nil
}

// OpenCompose starts the servers of a compose file. Runs on the sandbox start each daemon in its own container.
func OpenCompose(ctx context.Context, file string, log io.Writer) (*Sandbox, error) {
	stack, err := compose.Open(ctx, file, log)
	if err != nil {
		return nil, err
	}
	return &Sandbox{servers: stack.Servers, stack: stack, folder: stack.Servers.Dir()}, nil
}

// Close ends the servers and containers.
func (sa *Sandbox) Close() error { return sa.servers.Down() }

// rewriteAddress replaces an address's host and port and, unless application is empty, adds it as a parameter.
func rewriteAddress(address, hostPort, application string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	u.Host = hostPort
	if application != "" {
		q := u.Query()
		q.Set("application_name", application)
		u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // PostgreSQL does not decode a plus sign to a space
	}
	return u.String(), nil
}
