// Package containers runs servers in containers of an engine on this machine.
//
// Containers outlive the process that started them. Ryuk, the cleanup container of testcontainers, may be
// unavailable, because its image comes from a registry. So every container has the directory of its run as a
// label. Once the run is over, that directory's lock is free, and Sweep removes the container.
// TESTCONTAINERS_RYUK_DISABLED=false uses Ryuk in addition.
package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/log"
)

// Labels of everything that this package creates. An engine may serve several machines or network namespaces,
// and a directory is meaningful only on its own host.
const (
	LabelRun  = "handoff.chaos.run"
	LabelHost = "handoff.chaos.host"
)

// answersWithin is how long an engine may take to answer.
const answersWithin = 5 * time.Second

// Engine is a running container engine on this machine.
type Engine struct {
	api  *testcontainers.DockerClient
	host string // name of this machine
}

// settings sets the environment variables of testcontainers, once per process.
var settings = sync.OnceValue(func() error {
	log.SetDefault(log.NewNoopLogger())
	defaults := map[string]string{"TESTCONTAINERS_RYUK_DISABLED": "true"}
	if _, err := os.Stat("/.dockerenv"); err == nil {
		// If this machine looks like a container, testcontainers uses the default gateway as the engine's
		// address. That is wrong on a machine that was made from a container image and runs its own engine.
		defaults["TESTCONTAINERS_HOST_OVERRIDE"] = "127.0.0.1"
	}
	for name, value := range defaults {
		if _, set := os.LookupEnv(name); set {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
})

// Find returns the engine at DOCKER_HOST, in the Docker context or at the usual sockets, if it answers within
// seconds. It refuses an engine on another machine: ports published there can't be reached at a loopback
// address and must not be reachable from other machines.
func Find(ctx context.Context) (_ *Engine, err error) {
	ctx, cancel := context.WithTimeout(ctx, answersWithin)
	defer cancel()
	defer func() {
		if r := recover(); r != nil { // testcontainers panics if it doesn't find a socket
			err = fmt.Errorf("%v", r)
		}
	}()
	if err := settings(); err != nil {
		return nil, err
	}
	api, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, err
	}
	if !isLocalAddress(api.DaemonHost()) {
		return nil, errors.Join(fmt.Errorf("the engine at %s is on another machine", api.DaemonHost()), api.Close())
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, errors.Join(err, api.Close())
	}
	return &Engine{api: api, host: host}, nil
}

// isLocalAddress reports whether an engine's address is a socket, a pipe or a loopback address.
func isLocalAddress(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	if u.Scheme == "unix" || u.Scheme == "npipe" {
		return true
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// Address returns the engine's address in the form of DOCKER_HOST.
func (e *Engine) Address() string { return e.api.DaemonHost() }

// Close closes the connection to the engine. The containers continue.
func (e *Engine) Close() error { return e.api.Close() }

// Sweep removes this machine's containers and networks whose run has ended, and returns their names. over
// reports whether a run is over, by its directory.
func (e *Engine) Sweep(ctx context.Context, over func(directory string) bool) ([]string, error) {
	filters := client.Filters{}.Add("label", LabelHost+"="+e.host)
	found, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return nil, err
	}
	var removed []string
	var errs []error
	for _, c := range found.Items {
		if run := c.Labels[LabelRun]; run == "" || !over(run) {
			continue
		}
		if err := e.removeContainer(ctx, c.ID); err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, strings.TrimPrefix(strings.Join(c.Names, " "), "/"))
	}
	networks, err := e.api.NetworkList(ctx, client.NetworkListOptions{Filters: filters})
	if err != nil {
		return removed, errors.Join(append(errs, err)...)
	}
	for _, n := range networks.Items {
		if run := n.Labels[LabelRun]; run == "" || !over(run) {
			continue
		}
		if _, err := e.api.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{}); err != nil && !strings.Contains(err.Error(), "not found") {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, n.Name)
	}
	return removed, errors.Join(errs...)
}

// Labels returns the labels by which Sweep recognizes a run's containers and networks.
func (e *Engine) Labels(run string) map[string]string {
	return map[string]string{LabelRun: run, LabelHost: e.host}
}

// removeContainer ends a container at once and removes its volumes. It ignores a container that is gone.
func (e *Engine) removeContainer(ctx context.Context, id string) error {
	_, err := e.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if Gone(err) {
		return nil
	}
	return err
}

// Gone reports whether an error means that the engine has no such container.
func Gone(err error) bool { return err != nil && strings.Contains(err.Error(), "No such container") }

// Spec describes a container to create.
type Spec struct {
	// Name is the name of the container and its host name.
	Name  string
	Image string
	Env   map[string]string
	// Command replaces the image's arguments, unless it is empty.
	Command []string
	// Ports maps each of the server's ports to a port on 127.0.0.1, which stays the same after a restart.
	Ports map[int]int
	// Run is the directory of the run.
	Run string
}

// Create creates a container but doesn't start it. It pulls a missing image, which may take minutes.
func (e *Engine) Create(ctx context.Context, s Spec) (*Container, error) {
	var ports []string
	bound := network.PortMap{}
	for inside, outside := range s.Ports {
		port := fmt.Sprintf("%d/tcp", inside)
		parsed, err := network.ParsePort(port)
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
		bound[parsed] = []network.PortBinding{{
			HostIP: netip.AddrFrom4([4]byte{127, 0, 0, 1}), HostPort: strconv.Itoa(outside),
		}}
	}
	options := []testcontainers.ContainerCustomizer{
		testcontainers.WithLogger(log.NewNoopLogger()),
		testcontainers.WithName(s.Name),
		testcontainers.WithEnv(s.Env),
		testcontainers.WithLabels(e.Labels(s.Run)),
		testcontainers.WithExposedPorts(ports...),
		testcontainers.WithConfigModifier(func(c *container.Config) { c.Hostname = s.Name }),
		testcontainers.WithHostConfigModifier(func(c *container.HostConfig) { c.PortBindings = bound }),
		testcontainers.WithNoStart(),
	}
	if len(s.Command) > 0 {
		options = append(options, testcontainers.WithCmd(s.Command...))
	}
	made, err := testcontainers.Run(ctx, s.Image, options...)
	if err != nil {
		if made != nil {
			err = errors.Join(err, e.removeContainer(context.WithoutCancel(ctx), made.GetContainerID()))
		}
		return nil, fmt.Errorf("a container of the image %s: %w", s.Image, err)
	}
	return &Container{engine: e, made: made}, nil
}

// Container is a server in a container, started or not.
type Container struct {
	engine *Engine
	made   *testcontainers.DockerContainer
}

// ID returns the engine's id of the container.
func (c *Container) ID() string { return c.made.GetContainerID() }

// Start starts or restarts the container, with its existing data.
func (c *Container) Start(ctx context.Context) error { return c.made.Start(ctx) }

// Stop stops the container, kills it if it has not stopped in time, and returns when it has ended.
func (c *Container) Stop(ctx context.Context, within time.Duration) error {
	return c.made.Stop(ctx, &within)
}

// Kill ends the container at once, and keeps its data.
func (c *Container) Kill(ctx context.Context) error {
	_, err := c.engine.api.ContainerKill(ctx, c.ID(), client.ContainerKillOptions{Signal: "KILL"})
	return err
}

// Pause suspends all processes of the container.
func (c *Container) Pause(ctx context.Context) error {
	_, err := c.engine.api.ContainerPause(ctx, c.ID(), client.ContainerPauseOptions{})
	return err
}

// Resume lets a paused container continue.
func (c *Container) Resume(ctx context.Context) error {
	_, err := c.engine.api.ContainerUnpause(ctx, c.ID(), client.ContainerUnpauseOptions{})
	return err
}

// State reports whether the container runs, and whether it is paused.
func (c *Container) State(ctx context.Context) (running, paused bool, err error) {
	state, err := c.made.State(ctx)
	if err != nil {
		return false, false, err
	}
	return state.Running, state.Paused, nil
}

// Run executes a command in the container and returns the output.
func (c *Container) Run(ctx context.Context, command []string) (string, error) {
	code, out, err := c.made.Exec(ctx, command, tcexec.Multiplexed())
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(out)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s: exit %d: %s", command[0], code, strings.TrimSpace(string(text)))
	}
	return string(text), err
}

// Log returns the container's whole output.
func (c *Container) Log(ctx context.Context) (string, error) {
	r, err := c.made.Logs(ctx)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), errors.Join(err, r.Close())
}

// Remove ends the container at once and deletes its data.
func (c *Container) Remove(ctx context.Context) error { return c.engine.removeContainer(ctx, c.ID()) }
