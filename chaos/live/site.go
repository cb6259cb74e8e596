package live

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"handoff/chaos/live/cluster"
	"handoff/chaos/live/provision"
	"handoff/chaos/live/wire"
	"handoff/scenarios"
)

// site is where the cluster of one run stands: it runs the processes and carries their links. Everything else of
// a run is the same wherever that is.
type site interface {
	// place finds room for processes.
	place(all ...*process) ([]place, error)
	// link makes a process's way to a server, and returns the address at which the process finds it. A way to
	// the executors leads to where the process itself listens.
	link(p *process, server string, at place) (link, string, error)
	// daemon makes the daemon of a process, from a program's arguments and variables.
	daemon(p *process, at place, args, env []string) (*cluster.Daemon, error)
	// ready is called when daemons were made, before they are launched.
	ready() error
	// contained says that the end of a process is the end of all that it has started.
	contained() bool
	close()
}

// place is where a process answers HTTP.
type place struct {
	// listen is the address that the process listens on, upstream the one that links lead to, and reached the
	// one at which the harness finds it.
	listen, upstream, reached string
	port                      int
}

// link is the way between one process and one server.
type link interface {
	// Begin begins an effect on what goes one way; end ends it.
	Begin(way wire.Direction, e wire.Effect) (end func())
	// Down closes the link with its connections, as if the server were not there. Downs are counted.
	Down()
	// Up opens a link that was down.
	Up() error
}

// file is a process's name as files and containers may be called.
func (p *process) file() string { return strings.ReplaceAll(p.name, " ", "-") }

// program is what the process runs.
func (p *process) program() string {
	if p.spec == nil {
		return "executor"
	}
	return "worker"
}

// machine is a site of processes of this machine, behind proxies in this process.
type machine struct{ w *world }

func (m machine) place(processes ...*process) ([]place, error) {
	ports, err := provision.FreePorts(len(processes))
	if err != nil {
		return nil, err
	}
	all := make([]place, len(processes))
	for i, port := range ports {
		address := fmt.Sprintf("127.0.0.1:%d", port)
		all[i] = place{listen: address, upstream: address, reached: address, port: port}
	}
	return all, nil
}

func (m machine) link(p *process, server string, at place) (link, string, error) {
	w := m.w
	var l *wire.Link
	var err error
	switch server {
	case scenarios.Database:
		l, err = w.wire.Link(w.label+"/"+p.name+"/"+server, mustHost(w.db.URL))
	case scenarios.Broker:
		l, err = w.brokerLink(p, "127.0.0.1")
	default:
		l, err = w.wire.Link(w.label+"/"+p.name+"/"+server, at.upstream)
	}
	if err != nil {
		return nil, "", err
	}
	return l, l.Address, nil
}

// brokerLink makes a process's way to the broker, which knows messages, and listens on one of this machine's
// addresses.
func (w *world) brokerLink(p *process, ip string) (*wire.Link, error) {
	l, err := w.wire.LinkOn(ip, w.label+"/"+p.name+"/"+scenarios.Broker, mustHost(w.mq.URL))
	if err == nil {
		w.tamper.watch(l, p)
		l.Rewrite(wire.In, func() wire.Rewriter { return wire.Deliveries(p.keepsBack) })
	}
	return l, err
}

func (m machine) daemon(p *process, at place, args, env []string) (*cluster.Daemon, error) {
	w := m.w
	bin := w.lane.bin
	if w.options.Flaw != "" {
		args, bin = append(args, "--flaw", w.options.Flaw), filepath.Join(bin, Flawed)
	}
	path := filepath.Join(bin, p.program())
	if p.binary != "" {
		if err := copyProgram(path, p.binary); err != nil {
			return nil, fmt.Errorf("copying the worker's program: %w", err)
		}
		path = p.binary
	}
	env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, env...)
	return cluster.NewDaemon(w.lane.servers, at.reached, provision.Program{Name: w.label + "-" + p.file(), Path: path, Args: args, Env: env}), nil
}

func (machine) ready() error { return nil }

func (machine) contained() bool { return false }

func (machine) close() {}
