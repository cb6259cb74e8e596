package live

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"slices"
	"time"

	"handoff/chaos/fault"
	"handoff/chaos/live/cluster"
	"handoff/chaos/live/compose"
	"handoff/chaos/scenario"
	"handoff/chaos/servers"
)

// project is the environment in which daemons run in docker compose's containers, behind the file's toxiproxy.
type project struct {
	w     *world
	stack *compose.Stack
	links []*compose.Link
	// made holds all services. The last `waiting` of them have no container yet.
	made    []*compose.Service
	waiting int
}

// The ports on which daemons listen in their containers, and the daemons' folder in the image.
const (
	executorPort = 8080
	workerPort   = 8081
	imageBin     = "/usr/local/bin/"
)

func (*project) newEndpoints(processes ...*process) ([]endpoint, error) {
	ports, err := servers.FreePorts(len(processes))
	if err != nil {
		return nil, err
	}
	all := make([]endpoint, len(processes))
	for i, port := range ports {
		p := processes[i]
		all[i] = endpoint{
			listen: fmt.Sprintf("0.0.0.0:%d", p.containerPort()), upstream: fmt.Sprintf("%s:%d", p.fileName(), p.containerPort()),
			reached: fmt.Sprintf("127.0.0.1:%d", port), port: port,
		}
	}
	return all, nil
}

// containerPort returns the port on which a daemon listens in its container.
func (p *process) containerPort() int {
	if p.spec == nil {
		return executorPort
	}
	return workerPort
}

func (pr *project) newLink(p *process, server string, at endpoint) (link, string, error) {
	c := pr.w.config
	upstream, traffic := at.upstream, compose.Traffic{Every: c.Executor.HealthCheckInterval, Alive: p.isActive}
	switch server {
	case fault.Database:
		upstream, traffic.Every, traffic.Kept = "postgres:5432", c.Worker.HeartbeatInterval, true
		if p.spec == nil {
			traffic.Every = c.Executor.ReconcileInterval
		}
	case fault.Broker:
		traffic.Every, traffic.Kept = c.MessageQueue.RabbitMQ.Heartbeat, true
		var err error
		if upstream, err = pr.brokerUpstream(p); err != nil {
			return nil, "", err
		}
	}
	l, err := pr.stack.Link(p.fileName(), server, upstream, traffic, func(err error) { pr.w.failRun("toxiproxy: " + err.Error()) })
	if err != nil {
		return nil, "", err
	}
	pr.links = append(pr.links, l)
	return l, l.Address, nil
}

// brokerUpstream returns the target of a process's link to the broker: the broker itself or, if a fault of
// the scenario affects messages, a proxy in the harness's process. Toxiproxy passes bytes and doesn't decode
// messages.
func (pr *project) brokerUpstream(p *process) (string, error) {
	w := pr.w
	if !slices.ContainsFunc(w.scenario.Faults, func(f scenario.Fault) bool { return looksAtMessages(f.Kind) }) {
		return "rabbitmq:5672", nil
	}
	ip, host, err := pr.stack.Here(w.ctx)
	if err != nil {
		return "", err
	}
	l, err := w.brokerLink(p, ip)
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Address)
	return net.JoinHostPort(host, port), err
}

// looksAtMessages reports whether a kind of fault examines messages to or from the broker.
func looksAtMessages(k *fault.Kind) bool {
	return k.Needs(reflect.TypeFor[fault.Messages]()) || k.Needs(reflect.TypeFor[fault.Deafness]()) ||
		k.Needs(reflect.TypeFor[fault.Queues]()) || k.Needs(reflect.TypeFor[fault.BrokerAlarm]())
}

func (pr *project) newDaemon(p *process, at endpoint, args, env []string) (*cluster.Daemon, error) {
	program := imageBin + p.programName()
	c := &compose.Service{Name: p.fileName(), Env: env, Folder: pr.w.folder, Listens: p.containerPort(), Port: at.port}
	if p.binary != "" {
		c.Copies = map[string]string{program: p.binary}
		program = p.binary
	}
	c.Command = append([]string{program}, args...)
	pr.made = append(pr.made, c)
	pr.waiting++
	return cluster.NewSupervised(p.name, at.reached, c.Launch), nil
}

func (pr *project) prepareLaunch() error {
	waiting := pr.made[len(pr.made)-pr.waiting:]
	pr.waiting = 0
	return pr.stack.Create(pr.w.ctx, waiting)
}

// isContained returns true: when a container's first process ends, the kernel ends all others.
func (*project) isContained() bool { return true }

// close removes the run's containers and links. The stack removes whatever this can't.
func (pr *project) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, p := range pr.made {
		_ = p.Remove(ctx)
	}
	for _, l := range pr.links {
		_ = l.Close()
	}
}
