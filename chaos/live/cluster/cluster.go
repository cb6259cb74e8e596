// Package cluster runs the whole system on this machine: a private PostgreSQL and RabbitMQ, and executors and
// workers as real processes.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"handoff/chaos/servers"
)

// Options configures Up.
type Options struct {
	// Bin is the folder with the binaries executor and worker.
	Bin string
	// Executors and Workers are the numbers of processes. At least one executor is required.
	Executors, Workers int
	// Profile is the profile of every daemon; empty for the configuration's own.
	Profile string
	// Listen is the address of the first executor's API; empty for a free loopback port.
	Listen string
	// Runtimes lists the runtimes of every worker, separated by commas; empty for all installed ones.
	Runtimes string
	// Scripts is the directory of the workers' scripts, an absolute path; empty for none.
	Scripts string
	// Actions is a folder of action files that the first executor stores in the database; empty for none.
	Actions string
	// ActionFiles maps names of action files to their content. It replaces Actions. Up writes them to the
	// servers' directory.
	ActionFiles map[string]string
	// ConfigFile is a configuration file for every daemon; empty for none. The daemons read a copy in the
	// servers' directory at every start. To reconfigure a daemon, edit the copy and restart it.
	ConfigFile string
	// Env holds configuration for every daemon, as HANDOFF_… variables.
	Env map[string]string
	// Links inserts a proxy between every daemon and every server, so that links can be broken by hand.
	Links bool
	// Servers holds options for the servers. PostgreSQL and RabbitMQ are always private.
	Servers servers.Options
}

// Cluster is a running system.
type Cluster struct {
	Servers   *servers.Set
	Executors []*Daemon
	Workers   []*Daemon
	// Config is the path of the daemons' configuration file; empty without Options.ConfigFile.
	Config string
	// Control is the URL of the control interface, for breaking the system by hand; empty without
	// Options.Links.
	Control string

	links *linkSet
}

// Daemon is one executor or worker, across restarts.
type Daemon struct {
	Name string
	// URL is the daemon's HTTP address, with an executor's API or a worker's health endpoints.
	URL string

	launch func() (Instance, error)

	mu      sync.Mutex
	process Instance
}

// Instance is one run of a daemon's program, from its start to its end, on this machine or in a container.
type Instance interface {
	// Running reports whether the program still runs.
	Running() bool
	// Kill ends the program at once and returns when it has ended.
	Kill()
	// Terminate asks the program to stop and returns at once.
	Terminate()
	// Pause suspends the program, and Resume lets it continue.
	Pause()
	Resume()
	// Wait returns nil once the program has ended, or ctx's error.
	Wait(ctx context.Context) error
	// Ready polls until probe succeeds. If the program ends first, the error contains the end of its log.
	Ready(ctx context.Context, probe func(context.Context) error) error
	// Log is the path of its log file.
	Log() string
}

// readyWithin is how long a daemon may take to become ready, even on a busy machine. The end of a daemon is
// detected at once.
const readyWithin = 3 * time.Minute

// Up starts everything and returns when every daemon is ready.
func Up(ctx context.Context, o Options) (*Cluster, error) {
	asked := o.Servers
	asked.Postgres, asked.RabbitMQ, asked.PrivateOnly = true, true, true
	set, err := servers.Up(ctx, asked)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Servers: set}
	if o.Links {
		c.links = newLinks()
	}
	if err := c.startDaemons(ctx, o); err != nil {
		return nil, errors.Join(err, c.Down())
	}
	if o.Links {
		if c.Control, err = c.serveControl(); err != nil {
			return nil, errors.Join(err, c.Down())
		}
	}
	return c, nil
}

// startDaemons starts the executors, the first of which migrates the schema, and then the workers.
func (c *Cluster) startDaemons(ctx context.Context, o Options) error {
	ports, err := servers.FreePorts(o.Executors + o.Workers)
	if err != nil {
		return err
	}
	if o.ActionFiles != nil {
		if o.Actions, err = c.writeActions(o.ActionFiles); err != nil {
			return err
		}
	}
	if o.ConfigFile != "" {
		if err := c.copyConfig(o.ConfigFile); err != nil {
			return err
		}
	}
	var given []string
	if o.Profile != "" {
		given = append(given, "--profile", o.Profile)
	}
	for i := range o.Executors {
		address := fmt.Sprintf("127.0.0.1:%d", ports[i])
		if i == 0 && o.Listen != "" {
			address = o.Listen
		}
		args := append(slices.Clone(given), "--listen", address)
		if o.Actions != "" && i == 0 {
			args = append(args, "--actions", o.Actions)
		}
		d, err := c.newDaemon(o, fmt.Sprintf("executor-%d", i+1), "executor", address, args)
		if err != nil {
			return err
		}
		c.Executors = append(c.Executors, d)
	}
	if o.Runtimes != "" {
		given = append(given, "--runtimes", o.Runtimes)
	}
	if o.Scripts != "" {
		given = append(given, "--actions-dir", o.Scripts)
	}
	for i := range o.Workers {
		address := fmt.Sprintf("127.0.0.1:%d", ports[o.Executors+i])
		name := fmt.Sprintf("worker-%d", i+1)
		args := append(slices.Clone(given), "--health-listen", address)
		if c.links != nil {
			health, err := c.links.addLink(name, "executors", "http://"+address+"/readyz")
			if err != nil {
				return err
			}
			args = append(args, "--health-url", health)
		}
		d, err := c.newDaemon(o, name, "worker", address, args)
		if err != nil {
			return err
		}
		c.Workers = append(c.Workers, d)
	}
	if err := c.Executors[0].Start(ctx); err != nil {
		return err
	}
	return forEachDaemon(slices.Concat(c.Executors[1:], c.Workers), func(d *Daemon) error { return d.Start(ctx) })
}

// writeActions makes a folder of action files in the servers' directory. Unless that directory is kept, it is
// removed however this process ends.
func (c *Cluster) writeActions(files map[string]string) (string, error) {
	dir := filepath.Join(c.Servers.Dir(), "actions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(files[name]), 0o600); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// copyConfig copies a configuration file to the servers' directory, where the daemons read it.
func (c *Cluster) copyConfig(from string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("reading the daemons' configuration: %w", err)
	}
	c.Config = filepath.Join(c.Servers.Dir(), "handoff.yaml")
	return os.WriteFile(c.Config, text, 0o600)
}

func (c *Cluster) newDaemon(o Options, name, program, address string, args []string) (*Daemon, error) {
	env, err := c.daemonEnv(o, name)
	if err != nil {
		return nil, err
	}
	if c.Config != "" {
		args = append(args, "--config", c.Config)
	}
	return NewDaemon(c.Servers, address, servers.Program{
		Name: name, Path: filepath.Join(o.Bin, program), Args: append([]string{"--name", name}, args...), Env: env,
	}), nil
}

// NewDaemon returns a daemon, not yet started, that is a process on this machine and serves HTTP at address.
func NewDaemon(servers *servers.Set, address string, program servers.Program) *Daemon {
	return NewSupervised(program.Name, address, func() (Instance, error) {
		p, err := servers.Spawn(program)
		if err != nil {
			return nil, fmt.Errorf("%w; build the daemons first: make build", err)
		}
		return p, nil
	})
}

// NewSupervised returns a daemon that launch starts, for example in a container, and that serves HTTP at
// address.
func NewSupervised(name, address string, launch func() (Instance, error)) *Daemon {
	return &Daemon{Name: name, URL: "http://" + address, launch: launch}
}

// daemonEnv returns a daemon's environment: the servers' addresses and the caller's additions. It excludes
// this process's own HANDOFF_ variables, which configure other things.
func (c *Cluster) daemonEnv(o Options, name string) ([]string, error) {
	database, broker := c.Servers.Postgres.URL, c.Servers.RabbitMQ.URL
	if c.links != nil {
		var err error
		if database, err = c.links.addLink(name, "database", database); err != nil {
			return nil, err
		}
		if broker, err = c.links.addLink(name, "broker", broker); err != nil {
			return nil, err
		}
	}
	vars := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"), "TMPDIR": os.Getenv("TMPDIR"),
		"HANDOFF_DATABASE_URL":               database,
		"HANDOFF_MESSAGE_QUEUE_RABBITMQ_URL": broker,
	}
	maps.Copy(vars, o.Env)
	var env []string
	for _, key := range slices.Sorted(maps.Keys(vars)) {
		if vars[key] != "" {
			env = append(env, key+"="+vars[key])
		}
	}
	return env, nil
}

// forEachDaemon calls f concurrently for all daemons and joins the errors.
func forEachDaemon(all []*Daemon, f func(*Daemon) error) error {
	failed := make([]error, len(all))
	var wg sync.WaitGroup
	for i, d := range all {
		wg.Go(func() { failed[i] = f(d) })
	}
	wg.Wait()
	return errors.Join(failed...)
}

// Down stops the daemons gracefully, workers first. It kills daemons that don't stop within five seconds, and
// then ends the servers.
func (c *Cluster) Down() error {
	failed := c.stopDaemons()
	if c.links != nil {
		failed = errors.Join(failed, c.links.close())
	}
	return errors.Join(failed, c.Servers.Down())
}

// stopDaemons stops the daemons as Down does.
func (c *Cluster) stopDaemons() error {
	stop := func(d *Daemon) error {
		p := d.Instance()
		if p == nil || !p.Running() {
			return nil
		}
		p.Resume()
		p.Terminate()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if p.Wait(ctx) != nil {
			p.Kill()
		}
		return nil
	}
	return errors.Join(forEachDaemon(c.Workers, stop), forEachDaemon(c.Executors, stop))
}

// Instance returns the daemon's latest instance; nil before the first start.
func (d *Daemon) Instance() Instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.process
}

// Start starts the daemon, or restarts it after its end, and returns when it is ready.
func (d *Daemon) Start(ctx context.Context) error {
	if err := d.Launch(); err != nil {
		return err
	}
	return d.Ready(ctx)
}

// Launch starts the daemon and returns at once.
func (d *Daemon) Launch() error {
	p, err := d.launch()
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.process = p
	d.mu.Unlock()
	return nil
}

// Ready returns when /readyz reports that the daemon is ready.
func (d *Daemon) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	return d.Instance().Ready(ctx, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
			return fmt.Errorf("%s is not ready: %s", d.Name, body)
		}
		return nil
	})
}
