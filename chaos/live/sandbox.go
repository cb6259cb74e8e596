// Package live runs a scenario in the real world: a private PostgreSQL and RabbitMQ, real executors and
// workers, every connection through a proxy of its own, real faults, and a history from evidence that the
// daemons can't embellish, judged by the same invariants as a simulated run.
//
// A run is not deterministic. What the harness itself decides, the moments of faults, whom they strike and
// how long actions take, follows from the seed; what the machine makes of it does not.
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

// Sandbox is a pair of servers on which one run follows another.
type Sandbox struct {
	servers *servers.Set
	// stack is the project of containers that everything stands in; nil for processes of this machine.
	stack *compose.Stack
	// bin is the folder of the daemons, where they are not in containers.
	bin string
	// folder holds what the runs need on disk.
	folder string
	runs   int
}

// Mutated is the folder, below that of the binaries, of daemons that were built with the tag mutant.
const Mutated = "mutated"

// ErrNoDaemons means that the daemons are not where they should be.
var ErrNoDaemons = errors.New("the daemons are not built")

// Open starts the servers. bin is the folder of the binaries executor and worker; log receives a line for
// each thing done, nil for silence.
func Open(ctx context.Context, bin string, log io.Writer) (*Sandbox, error) {
	return open(ctx, bin, false, log)
}

// OpenManaged is Open with the broker's management API, which tells what its queues and connections cost.
func OpenManaged(ctx context.Context, bin string, log io.Writer) (*Sandbox, error) {
	return open(ctx, bin, true, log)
}

func open(ctx context.Context, bin string, management bool, log io.Writer) (*Sandbox, error) {
	for _, name := range []string{"executor", "worker"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return nil, fmt.Errorf("%w: there is no %s in %s; run make build first", ErrNoDaemons, name, bin)
		}
	}
	servers, err := servers.Up(ctx, servers.Options{Postgres: true, RabbitMQ: true, Management: management, PrivateOnly: true, Log: log})
	if err != nil {
		return nil, err
	}
	l := &Sandbox{servers: servers, bin: bin, folder: servers.Dir()}
	return l, nil
}

// OpenCompose starts the servers of a compose file, and runs the daemons in containers of their own.
func OpenCompose(ctx context.Context, file string, log io.Writer) (*Sandbox, error) {
	stack, err := compose.Open(ctx, file, log)
	if err != nil {
		return nil, err
	}
	return &Sandbox{servers: stack.Servers, stack: stack, folder: stack.Servers.Dir()}, nil
}

// Close takes everything down.
func (l *Sandbox) Close() error { return l.servers.Down() }

// through is an address with another host and port, and, for a database, the name of whoever uses it.
func through(address, hostPort, application string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	u.Host = hostPort
	if application != "" {
		q := u.Query()
		q.Set("application_name", application)
		u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // PostgreSQL takes a plus sign for itself
	}
	return u.String(), nil
}
