package live

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"handoff/chaos/fault"
	"handoff/chaos/live/cluster"
	"handoff/chaos/netproxy"
	"handoff/chaos/servers"
)

// environment runs the processes of one run's cluster and their links. Everything else is the same in all
// environments.
type environment interface {
	// newEndpoints returns one endpoint for each process, in the same order.
	newEndpoints(all ...*process) ([]endpoint, error)
	// newLink makes a process's link to a server, and returns the address at which the process reaches the
	// server. A link to the executors leads to the process itself, which listens on its target.
	newLink(p *process, server string, at endpoint) (link, string, error)
	// newDaemon makes the daemon of a process, with its program's arguments and variables.
	newDaemon(p *process, at endpoint, args, env []string) (*cluster.Daemon, error)
	// prepareLaunch is called after newDaemon and before the daemons are launched.
	prepareLaunch() error
	// isContained reports whether all children of a process end together with it.
	isContained() bool
	close()
}

// endpoint is the address at which a process answers HTTP.
type endpoint struct {
	// listen is the address on which the process listens. upstream is the target of links to the process.
	// reached is the address that the harness uses.
	listen, upstream, reached string
	port                      int
}

// link is the path between one process and one server.
type link interface {
	// Begin begins an effect on one direction; end ends it.
	Begin(way netproxy.Direction, e netproxy.Effect) (end func())
	// Down closes the link and its connections, as if the server were down. Each call must be reversed by a
	// call of Up before the link reopens.
	Down()
	// Up reverses one call of Down.
	Up() error
}

// fileName returns the process's name in a form for files and containers.
func (p *process) fileName() string { return strings.ReplaceAll(p.name, " ", "-") }

// programName returns the name of the process's program.
func (p *process) programName() string {
	if p.spec == nil {
		return "executor"
	}
	return "worker"
}

// machine is the environment in which daemons run on this machine, behind proxies in the harness's process.
type machine struct{ w *world }

func (m machine) newEndpoints(processes ...*process) ([]endpoint, error) {
	ports, err := servers.FreePorts(len(processes))
	if err != nil {
		return nil, err
	}
	all := make([]endpoint, len(processes))
	for i, port := range ports {
		address := fmt.Sprintf("127.0.0.1:%d", port)
		all[i] = endpoint{listen: address, upstream: address, reached: address, port: port}
	}
	return all, nil
}

func (m machine) newLink(p *process, server string, at endpoint) (link, string, error) {
	w := m.w
	var l *netproxy.Link
	var err error
	switch server {
	case fault.Database:
		l, err = w.proxies.Link(w.label+"/"+p.name+"/"+server, mustHost(w.db.URL))
	case fault.Broker:
		l, err = w.brokerLink(p, "127.0.0.1")
	default:
		l, err = w.proxies.Link(w.label+"/"+p.name+"/"+server, at.upstream)
	}
	if err != nil {
		return nil, "", err
	}
	return l, l.Address, nil
}

// brokerLink makes a process's link to the broker. The link decodes messages and listens on an address of
// this machine.
func (w *world) brokerLink(p *process, ip string) (*netproxy.Link, error) {
	l, err := w.proxies.LinkOn(ip, w.label+"/"+p.name+"/"+fault.Broker, mustHost(w.mq.URL))
	if err == nil {
		w.interceptor.watchLink(l, p)
		l.Rewrite(netproxy.In, func() netproxy.Rewriter { return netproxy.Deliveries(p.isDeaf) })
	}
	return l, err
}

func (m machine) newDaemon(p *process, at endpoint, args, env []string) (*cluster.Daemon, error) {
	w := m.w
	bin := w.sandbox.bin
	if w.options.Mutant != "" {
		args, bin = append(args, "--mutant", w.options.Mutant), filepath.Join(bin, Mutated)
	}
	path := filepath.Join(bin, p.programName())
	if p.binary != "" {
		if err := copyProgram(path, p.binary); err != nil {
			return nil, fmt.Errorf("copying the worker's program: %w", err)
		}
		path = p.binary
	}
	env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	return cluster.NewDaemon(w.sandbox.servers, at.reached, servers.Program{Name: w.label + "-" + p.fileName(), Path: path, Args: args, Env: env}), nil
}

func (machine) prepareLaunch() error { return nil }

func (machine) isContained() bool { return false }

func (machine) close() {}
