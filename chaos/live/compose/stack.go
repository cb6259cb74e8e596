// Package compose runs a compose file as a separate project. An open stack has the file's servers and
// toxiproxy, and for each run, containers for executors and workers like the file's own. docker compose creates
// the containers. The engine starts, stops, kills and pauses them. Toxiproxy's own client breaks the links.
//
// As in package servers, no part of a stack outlives the process that opened it.
package compose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"handoff/chaos/live/cluster"
	"handoff/chaos/servers"
	"handoff/chaos/servers/containers"
)

// The compose file's services on which every process depends.
const (
	servicePostgres  = "postgres"
	serviceRabbitMQ  = "rabbitmq"
	serviceToxiproxy = "toxiproxy"
)

// Stack is a running project.
type Stack struct {
	// Servers holds the project's PostgreSQL and RabbitMQ.
	Servers *servers.Set

	file  string // the base file
	over  string // the override for the servers
	tool  Tool
	env   []string
	proxy *toxiproxy.Client
	log   io.Writer

	engine *containers.Engine
	mu     sync.Mutex
	ports  int // port of the newest proxy
	runs   int // number of process overrides written
}

// upWithin limits a docker compose command, which may pull an image from a remote registry.
const upWithin = 10 * time.Minute

// Open starts the servers and toxiproxy on free loopback ports, and returns when they answer. log receives a
// line for each step; may be nil.
func Open(ctx context.Context, file string, log io.Writer) (*Stack, error) {
	engine, tool, err := findPrerequisites(ctx)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = io.Discard
	}
	set, err := servers.OpenProject(ctx, engine, log)
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	s := &Stack{Servers: set, file: file, tool: tool, log: log, engine: engine, ports: firstProxyPort}
	if err := s.startServers(ctx); err != nil {
		return nil, errors.Join(err, set.Down())
	}
	return s, nil
}

// Close removes every container and network of the project.
func (s *Stack) Close() error { return s.Servers.Down() }

// startServers creates the containers, then starts the servers and, once these are ready, toxiproxy.
func (s *Stack) startServers(ctx context.Context) error {
	began := time.Now()
	ports, err := servers.FreePorts(3)
	if err != nil {
		return err
	}
	s.env = []string{
		fmt.Sprintf("HANDOFF_POSTGRES_PORT=%d", ports[0]),
		fmt.Sprintf("HANDOFF_RABBITMQ_PORT=%d", ports[1]),
		fmt.Sprintf("HANDOFF_TOXIPROXY_PORT=%d", ports[2]),
	}
	s.over = filepath.Join(s.Servers.Dir(), "servers.yaml")
	if err := writeOverride(s.over, serversOverride(s.Servers.Labels())); err != nil {
		return err
	}
	made, err := s.createContainers(ctx, nil, nil, servicePostgres, serviceRabbitMQ, serviceToxiproxy)
	if err != nil {
		return err
	}
	s.proxy = toxiproxy.NewClient(fmt.Sprintf("127.0.0.1:%d", ports[2]))
	var servers sync.WaitGroup
	var failed [2]error
	servers.Go(func() {
		failed[0] = s.Servers.AdoptPostgres(ctx, made[servicePostgres], fmt.Sprintf("postgres://handoff:handoff@127.0.0.1:%d/postgres?sslmode=disable", ports[0]))
	})
	servers.Go(func() {
		failed[1] = s.Servers.AdoptRabbitMQ(ctx, made[serviceRabbitMQ], fmt.Sprintf("amqp://handoff:handoff@127.0.0.1:%d", ports[1]), "handoff")
	})
	servers.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		return err
	}
	if err := s.startToxiproxy(ctx, made[serviceToxiproxy]); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(s.log, "containers of %s: the project %s, its servers and toxiproxy ready in %v\n", s.file, s.Servers.Project(), time.Since(began).Round(10*time.Millisecond))
	return nil
}

// startToxiproxy starts toxiproxy, and returns when its API answers. The servers must have addresses.
func (s *Stack) startToxiproxy(ctx context.Context, c *containers.Container) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	p, err := s.Servers.StartContained(ctx, c, serviceToxiproxy)
	if err != nil {
		return err
	}
	return p.Ready(ctx, func(context.Context) error {
		_, err := s.proxy.Proxies()
		return err
	})
}

// createContainers creates the services' containers with docker compose, from the base file and the given
// overrides, and adds them to the set.
func (s *Stack) createContainers(ctx context.Context, files, env []string, services ...string) (map[string]*containers.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	fail := func(err error) (map[string]*containers.Container, error) {
		return nil, &servers.StartError{Component: "a container of " + s.file, Err: err}
	}
	args := []string{"-p", s.Servers.Project(), "-f", s.file, "-f", s.over}
	for _, f := range files {
		args = append(args, "-f", f)
	}
	args = append(args, "up", "--no-start", "--no-deps")
	if _, err := s.tool.Run(ctx, slices.Concat(s.env, env), append(args, services...)...); err != nil {
		return fail(err)
	}
	all, err := s.engine.Project(ctx, s.Servers.Project())
	if err != nil {
		return fail(err)
	}
	for _, name := range services {
		if all[name] == nil {
			return fail(fmt.Errorf("docker compose has not created a container for the service %s", name))
		}
		s.Servers.Adopt(all[name])
	}
	return all, nil
}

// Here returns how the project's containers reach this process: ip is the address to listen on, and host is
// its name inside the containers. host is the gateway of their network or, if the engine runs in a virtual
// machine, a name that the engine provides.
func (s *Stack) Here(ctx context.Context) (ip, host string, err error) {
	gateway, err := s.engine.Gateway(ctx, s.Servers.Network())
	if err != nil {
		return "", "", fmt.Errorf("finding this machine's address for containers: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(gateway, "0"))
	if err != nil {
		return "127.0.0.1", "host.docker.internal", nil
	}
	return gateway, gateway, listener.Close()
}

// Service is one executor or worker that runs as a service of the project, in its own container.
type Service struct {
	// Name is the service name and host name in the project.
	Name string
	// Command is the program with its arguments, and Env holds its environment variables.
	Command []string
	Env     []string
	// Folder is a folder of this machine that is mounted in the container at the same path.
	Folder string
	// Listens is the HTTP port inside the container. Port is the port of 127.0.0.1 that leads to it.
	Listens, Port int
	// Copies maps files in the image to the paths to which Create copies them.
	Copies map[string]string

	stack     *Stack
	container *containers.Container
}

// Create creates the containers of services, without starting them.
func (s *Stack) Create(ctx context.Context, all []*Service) error {
	s.mu.Lock()
	s.runs++
	path := filepath.Join(s.Servers.Dir(), fmt.Sprintf("processes-%d.yaml", s.runs))
	s.mu.Unlock()
	if err := writeOverride(path, processesOverride(all, s.Servers.Labels())); err != nil {
		return err
	}
	var names, env []string
	for _, p := range all {
		names = append(names, p.Name)
		if p.Name == fileExecutor {
			env = append(env, fmt.Sprintf("HANDOFF_API_PORT=%d", p.Port))
		}
	}
	made, err := s.createContainers(ctx, []string{path}, env, names...)
	if err != nil {
		return err
	}
	for _, p := range all {
		p.stack, p.container = s, made[p.Name]
		for from, to := range p.Copies {
			if err := p.container.CopyFile(ctx, from, to); err != nil {
				return fmt.Errorf("copying %s out of the image: %w", from, err)
			}
		}
	}
	return nil
}

// Launch starts or restarts the container's program.
func (s *Service) Launch() (cluster.Instance, error) {
	if s.container == nil {
		return nil, fmt.Errorf("the container of %s was never made", s.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), launchWithin)
	defer cancel()
	running, err := s.stack.Servers.StartContained(ctx, s.container, s.Name)
	if err != nil {
		return nil, err
	}
	return running, nil
}

const launchWithin = 30 * time.Second

// Remove ends and deletes the container.
func (s *Service) Remove(ctx context.Context) error {
	if s.container == nil {
		return nil
	}
	return s.stack.Servers.Remove(ctx, s.container)
}
