package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// RabbitMQ is a private node, or a given node on which Up has created a virtual host. Ctl is for private nodes.
type RabbitMQ struct {
	// URL is the URL of an empty virtual host or, if Prefix is set, of a shared one.
	URL string

	// Prefix is how the names of all exchanges and queues must begin. It is empty except on a given node
	// without a management API.
	Prefix string

	// Management is the http:// URL of the management API, empty if there is none.
	Management string

	// Control is the path of a script with which people run rabbitmqctl on a private node; empty for other
	// nodes.
	Control string

	instance
	admin string // a URL of the node
	api   *managementAPI
	own   *MQ // our virtual host

	ctl  func(context.Context, ...string) (string, error) // runs rabbitmqctl
	node string                                           // the beginning of its Erlang name
	user string                                           // the user that has all permissions on virtual hosts
	epmd *portMapper                                      // nil in a container, which has its own
	keep bool                                             // whether its data is kept
	// spare holds unused virtual hosts, and disposed holds virtual hosts to delete.
	spare, disposed []string
}

// makePrivate sets how a private node is started, probed and stopped.
func (r *RabbitMQ) makePrivate(launch func(context.Context) (server, error), log func() string) *RabbitMQ {
	r.instance = instance{name: "RabbitMQ", launch: launch, log: log, stopSignal: sigTerm}
	r.probe = func(ctx context.Context) error { return probeAMQP(ctx, r.admin, r.node) }
	return r
}

// portMapper is a node's own epmd. It lives as long as the node's set. Without it, RabbitMQ would start one
// that outlives the node.
type portMapper struct {
	program *program
	guard   *guard
	child   *child
}

func (p *portMapper) start(ctx context.Context) error {
	if p.child.isRunning() {
		return nil
	}
	c, err := startChild(p.program, p.guard)
	if err != nil {
		return err
	}
	p.child = c
	err = awaitAnswer(ctx, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+p.program.args[1])
		if err != nil {
			return err
		}
		return conn.Close()
	}, c.isRunning)
	if err != nil {
		return &StartError{Component: "epmd, RabbitMQ's port mapper,", Err: err, LogTail: logTail(p.program.log)}
	}
	return nil
}

// Ctl runs rabbitmqctl on the private node and returns its output. Each call starts an Erlang machine, which
// takes about 0.4 s.
func (r *RabbitMQ) Ctl(ctx context.Context, args ...string) (string, error) {
	if !r.Private() {
		return "", ErrNotOurs
	}
	return r.ctl(ctx, append([]string{"-q"}, args...)...)
}

func (r *RabbitMQ) close() error {
	if r.Private() {
		end := r.Kill // its data is deleted next, so a graceful stop, which takes up to 6 s, is useless
		if r.keep {
			end = r.Stop
		}
		err := end()
		if r.epmd != nil {
			r.epmd.child.kill()
		}
		return err
	}
	if r.own == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanupWithin)
	defer cancel()
	return r.own.Drop(ctx)
}

// probeAMQP opens and closes a connection. Given the beginning of a node's name, it fails for other nodes:
// another node may have taken the port first.
func probeAMQP(ctx context.Context, address, node string) error {
	conn, err := amqp.DialConfig(address, amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		d := net.Dialer{Timeout: 5 * time.Second}
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		// The deadline also covers the handshake: a frozen node accepts connections but sends nothing.
		return c, c.SetDeadline(time.Now().Add(5 * time.Second))
	}})
	if err != nil {
		return err
	}
	// By default a cluster is named after its first node, with the host's full name.
	if cluster, _ := conn.Properties["cluster_name"].(string); !strings.HasPrefix(cluster, node) {
		err = fmt.Errorf("%w (%s)", errStranger, cluster)
	}
	return errors.Join(err, conn.Close())
}

// startRabbit starts a node with all its files in the directory, or the node that was kept there. The login
// is guest/guest, from loopback only.
func startRabbit(ctx context.Context, b *rabbitBinaries, dir *workDir, management bool, g *guard, log *lineLog) (m *RabbitMQ, err error) {
	fail := func(err error) (*RabbitMQ, error) { return nil, &StartError{Component: "RabbitMQ", Err: err} }
	who, err := serverAccount("rabbitmq", "nobody")
	if err != nil {
		return fail(err)
	}
	was, err := dir.loadKept("rabbitmq")
	if err != nil {
		return fail(err)
	}
	err = startServer(ctx, "RabbitMQ", log, func(n int) (*attempt, error) {
		var now keptServer
		var err error
		if m, now, err = prepareRabbit(b, dir, was, n, management, who, g); err != nil {
			return nil, err
		}
		return &attempt{
			start: m.Start, open: func(ctx context.Context) error { return m.openVhost(ctx, dir, was, now) }, close: m.close,
			logs: func() string { return logTail(m.epmd.program.log) },
			what: "private node of " + filepath.Dir(b.server), address: loopbackAddress(now.Ports[0]),
		}, nil
	})
	return m, err
}

// openVhost opens the kept virtual host, or creates an empty one.
func (r *RabbitMQ) openVhost(ctx context.Context, dir *workDir, was *keptServer, now keptServer) (err error) {
	if was == nil {
		if err = r.openEmpty(ctx); err == nil {
			now.Name = r.own.Vhost
		}
	} else {
		now.Name = was.Name
		r.URL, err = withVhost(r.admin, was.Name)
	}
	if err != nil {
		return err
	}
	return dir.saveKept("rabbitmq", now)
}

// openEmpty creates the virtual host to which URL leads, or draws a prefix if a given node has no management
// API.
func (r *RabbitMQ) openEmpty(ctx context.Context) (err error) {
	if r.own, err = r.CreateVhost(ctx); err == nil {
		r.URL, r.Prefix = r.own.URL, r.own.Prefix
	}
	return err
}

// logBytes limits the write-ahead log of a node's quorum queues. They keep the log's content in memory, so
// with RabbitMQ's default of 512 MiB a node's memory would grow for hours.
const logBytes = 64_000_000

// prepareRabbit writes the node's files and determines how it starts. Each attempt to start a new node has
// its own directory, unless the directory is kept. now is the information to save about the node.
func prepareRabbit(b *rabbitBinaries, dir *workDir, was *keptServer, attempt int, management bool, who *account, g *guard) (m *RabbitMQ, now keptServer, err error) {
	ports, err := was.attemptPorts(attempt, 4)
	if err != nil {
		return nil, now, err
	}
	now = keptServer{Ports: ports, Node: uniqueName()}
	home := filepath.Join(dir.path, "rabbitmq"+strconv.Itoa(attempt))
	if was != nil {
		now.Node = was.Node
	}
	if dir.keep {
		home = filepath.Join(dir.path, "rabbitmq")
	}
	in := func(name string) string { return filepath.Join(home, name) }
	for _, dir := range []string{home, in("conf.d"), in("log")} {
		if err := errors.Join(os.MkdirAll(dir, 0o700), who.takeOwnership(dir)); err != nil {
			return nil, now, err
		}
	}
	files := map[string]string{
		"env.conf":        "",
		"advanced.config": "[].\n",
		"enabled_plugins": "[].\n",
		"rabbitmq.conf": fmt.Sprintf("listeners.tcp.1 = %s\nlog.console = true\nlog.console.level = info\nlog.file = false\nraft.wal_max_size_bytes = %d\n",
			loopbackAddress(ports[0]), logBytes),
	}
	api := ""
	if management {
		files["enabled_plugins"] = "[rabbitmq_management].\n"
		files["rabbitmq.conf"] += fmt.Sprintf("management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %d\n", ports[3])
		api = "http://" + loopbackAddress(ports[3])
	}
	for name, text := range files {
		if err := errors.Join(os.WriteFile(in(name), []byte(text), 0o600), who.takeOwnership(in(name))); err != nil {
			return nil, now, err
		}
	}
	node := now.Node
	// Every path for which Debian or RabbitMQ has a default is set explicitly, so that the node uses no file
	// of an installed service. With RUNNING_UNDER_SYSTEMD the start script becomes the Erlang machine, so
	// that signals reach it and the child's process number is its own.
	env := serverEnv(home,
		"RABBITMQ_NODENAME="+node+"@localhost",
		"RABBITMQ_CONF_ENV_FILE="+in("env.conf"),
		"RABBITMQ_CONFIG_FILE="+in("rabbitmq.conf"),
		"RABBITMQ_CONFIG_FILES="+in("conf.d"),
		"RABBITMQ_ADVANCED_CONFIG_FILE="+in("advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+in("enabled_plugins"),
		"RABBITMQ_MNESIA_BASE="+in("mnesia"),
		"RABBITMQ_LOG_BASE="+in("log"),
		"RABBITMQ_FEATURE_FLAGS_FILE="+in("feature_flags"),
		"RABBITMQ_GENERATED_CONFIG_DIR="+in("generated"),
		"RABBITMQ_PID_FILE="+in("pid"),
		"RABBITMQ_DIST_PORT="+strconv.Itoa(ports[1]),
		"ERL_EPMD_PORT="+strconv.Itoa(ports[2]),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_CRASH_DUMP="+in("erl_crash.dump"),
		// Idle schedulers sleep instead of spinning first, because every sandbox has its own node.
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} +sbwt none +sbwtdcpu none +sbwtdio none",
		"RUNNING_UNDER_SYSTEMD=true",
	)
	if err := os.WriteFile(in("rabbitmqctl"), controlScript(b.ctl, env), 0o700); err != nil { //nolint:gosec // a script
		return nil, now, err
	}
	server := &program{name: "RabbitMQ", path: b.server, env: env, dir: home, user: who, log: filepath.Join(dir.path, "rabbitmq.log")}
	m = &RabbitMQ{
		node:       node + "@",
		user:       "guest",
		keep:       dir.keep,
		Management: api,
		Control:    in("rabbitmqctl"),

		admin: "amqp://guest:guest@" + loopbackAddress(ports[0]),
		epmd: &portMapper{guard: g, program: &program{
			name: "epmd", path: b.epmd, env: env, dir: home, user: who, log: filepath.Join(dir.path, "epmd.log"),
			args: []string{"-port", strconv.Itoa(ports[2]), "-address", "127.0.0.1"},
		}},
		ctl: func(ctx context.Context, args ...string) (string, error) {
			return runCommand(ctx, &program{name: "rabbitmqctl", path: b.ctl, args: args, env: env, dir: home, user: who})
		},
	}
	m.makePrivate(childLauncher(server, g), server.logPath)
	m.before = m.epmd.start
	return m, now, nil
}

// controlScript returns a shell script that runs a program in exactly the given environment.
func controlScript(path string, env []string) []byte {
	var b strings.Builder
	b.WriteString("#!/bin/sh\nexec env -i")
	for _, word := range append(slices.Clone(env), path) {
		b.WriteString(" '" + strings.ReplaceAll(word, "'", `'\''`) + "'")
	}
	b.WriteString(" \"$@\"\n")
	return []byte(b.String())
}
