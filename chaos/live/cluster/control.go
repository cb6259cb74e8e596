package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"handoff/chaos/fault"
	"handoff/core/api/hostguard"
)

// linkSet holds the links from daemons to servers, each through a toxiproxy proxy with the name PROCESS.SERVER.
type linkSet struct {
	toxiproxy *toxiproxy.ApiServer
	control   *http.Server
}

func newLinks() *linkSet {
	return &linkSet{toxiproxy: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())}
}

// addLink makes a link to a server, and returns the address at which the daemon reaches the server through it.
func (l *linkSet) addLink(process, server, address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("the address of the %s: %w", server, err)
	}
	p := toxiproxy.NewProxy(l.toxiproxy, process+"."+server, "127.0.0.1:0", u.Host)
	if err := l.toxiproxy.Collection.Add(p, true); err != nil {
		return "", fmt.Errorf("starting the proxy %s: %w", p.Name, err)
	}
	u.Host = p.Listen
	return u.String(), nil
}

func (l *linkSet) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var err error
	if l.control != nil {
		err = l.control.Shutdown(ctx)
	}
	for _, p := range l.toxiproxy.Collection.Proxies() {
		p.Stop()
	}
	return err
}

// Act is a manual operation on a process or a server.
type Act string

// The acts. Start starts a process or server that has ended, and leaves a running one alone.
const (
	Crash  Act = "crash"
	Stop   Act = "stop"
	Pause  Act = "pause"
	Resume Act = "resume"
	Start  Act = "start"
)

// Named is a process as the control interface lists it.
type Named struct {
	Name   string `json:"name"`
	Worker bool   `json:"worker"`
}

// ProcessesPath is the path at which the control interface lists the processes. ProcessesPath/NAME/ACT acts
// on the process NAME, or on the server fault.Broker or fault.Database. All other paths belong to toxiproxy's
// own API.
const ProcessesPath = "/processes"

// serveControl serves the control interface on a loopback port and returns its URL. It has no authentication:
// every local client can use it, but requests from other sites' pages in a local browser are refused.
func (c *Cluster) serveControl() (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("serving the control interface: %w", err)
	}
	breakable := make(map[string]server)
	if c.Servers != nil {
		breakable[fault.Database], breakable[fault.Broker] = c.Servers.Postgres, c.Servers.RabbitMQ
	}
	c.links.control = &http.Server{Handler: c.controlRoutes(breakable), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = c.links.control.Serve(listener) }() // it ends when it is shut down
	return "http://" + listener.Addr().String(), nil
}

// controlRoutes returns the handler of the control interface. servers are the servers on which it can act.
// Toxiproxy's router ends each request after 25 seconds with an empty page, but a server may take minutes to
// start. So the processes' paths are outside that router.
func (c *Cluster) controlRoutes(servers map[string]server) http.Handler {
	routes := http.NewServeMux()
	routes.HandleFunc("GET "+ProcessesPath, c.serveProcessList)
	routes.HandleFunc("POST "+ProcessesPath+"/{name}/{act}", func(w http.ResponseWriter, r *http.Request) { c.serveAct(w, r, servers) })
	routes.Handle("/", c.links.toxiproxy.Routes())
	return hostguard.Guard{}.Wrap(routes)
}

func (c *Cluster) serveProcessList(w http.ResponseWriter, _ *http.Request) {
	var all []Named
	for _, d := range c.Executors {
		all = append(all, Named{d.Name, false})
	}
	for _, d := range c.Workers {
		all = append(all, Named{d.Name, true})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) // the client may be gone
}

func (c *Cluster) serveAct(w http.ResponseWriter, r *http.Request, servers map[string]server) {
	name := r.PathValue("name")
	broken := servers[name]
	for _, d := range slices.Concat(c.Executors, c.Workers) {
		if d.Name == name {
			broken = manualDaemon{d}
		}
	}
	if broken == nil {
		http.Error(w, fmt.Sprintf("there is no process %q", name), http.StatusNotFound)
		return
	}
	if err := actOn(r.Context(), name, broken, Act(r.PathValue("act"))); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
	}
}

// server is a broker, a database or a process on which the control interface can act.
type server interface {
	Running() bool
	Start(ctx context.Context) error
	Stop() error
	Kill() error
	Pause() error
	Resume() error
}

// manualDaemon adapts a daemon to the interface server. Its Start and Stop don't wait.
type manualDaemon struct{ *Daemon }

func (m manualDaemon) Running() bool {
	p := m.Instance()
	return p != nil && p.Running()
}
func (m manualDaemon) Start(context.Context) error { return m.Launch() }
func (m manualDaemon) Stop() error                 { m.Instance().Terminate(); return nil }
func (m manualDaemon) Kill() error                 { m.Instance().Kill(); return nil }
func (m manualDaemon) Pause() error                { m.Instance().Pause(); return nil }
func (m manualDaemon) Resume() error               { m.Instance().Resume(); return nil }

// actOn performs an act on a server or a process, and returns when it is done: a started server answers by
// then. A start continues even if the client disconnects.
func actOn(ctx context.Context, name string, s server, a Act) error {
	running := s.Running()
	switch {
	case a == Start && running:
		return nil
	case a == Start:
		return s.Start(context.WithoutCancel(ctx))
	case !running:
		if name == fault.Broker || name == fault.Database {
			name = "the " + name
		}
		return fmt.Errorf("%s does not run; chaos inject --undo starts what is down", name)
	case a == Crash:
		return s.Kill()
	case a == Stop:
		return s.Stop()
	case a == Pause:
		return s.Pause()
	case a == Resume:
		return s.Resume()
	}
	return fmt.Errorf("%q is not an act on %s: use crash, stop, pause, resume or start", a, name)
}
