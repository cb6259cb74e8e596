package config

import (
	"net"
	"net/url"
	"strings"
)

// Deployment is a daemon's environment: addresses, credentials and its own name. It is separate from Config,
// which determines behaviour, because a simulated cluster has no addresses.
//
// In the file both share their sections: executor.name is a Deployment's, executor.dispatch_timeout
// a Config's.
type Deployment struct {
	Database struct {
		// URL is the database's URL; it may contain a password.
		URL string `yaml:"url" secret:"url"`
		// Migrate makes an executor migrate the schema when it starts. Without it, an executor does not start
		// on an older schema, and an operator runs `executor migrate up`: for database roles that can't alter
		// tables.
		Migrate bool `yaml:"migrate"`
	} `yaml:"database"`
	MessageQueue struct {
		RabbitMQ struct {
			// URL is the broker's URL; its path is the virtual host, and it may contain a password.
			URL string `yaml:"url" secret:"url"`
		} `yaml:"rabbitmq"`
	} `yaml:"message_queue"`
	API struct {
		// Listen is the address of the executor's HTTP API; empty for none.
		Listen string `yaml:"listen"`
		// Token is the bearer token that requests must carry; empty for none. Its name is
		// "default", and it may do everything.
		Token string `yaml:"token" secret:"all"`
		// Tokens are additional tokens: a list of {name, token, rights}. Rights is read, submit (also creates,
		// cancels and retries executions) or operate (also defines actions, settles dead letters and controls
		// workers). An entry may have an old_token, which is also accepted, for a rotation. With any token
		// set, every request needs one.
		Tokens []Token `yaml:"tokens" secret:"all"`
		// Insecure allows the API to listen beyond this machine without a token. Every client that reaches it
		// can then run commands on the workers.
		Insecure bool `yaml:"insecure"`
		// AllowedHosts are additional names and addresses, without ports, under which clients reach the API,
		// such as those of a proxy. Localhost and the address that the API listens on are always allowed. The
		// API refuses other hosts only if no token is set.
		AllowedHosts []string `yaml:"allowed_hosts"`
		TLS          struct {
			// CertFile and KeyFile are PEM files of the certificate, with its chain, and of its key; both
			// empty for plain HTTP. They are reloaded when they change.
			CertFile string `yaml:"cert_file"`
			KeyFile  string `yaml:"key_file"`
		} `yaml:"tls"`
	} `yaml:"api"`
	Executor struct {
		// Name is the process's name in logs and claims; empty for the name of the host.
		Name string `yaml:"name"`
		// Actions is a directory of action files that are stored in the database at start; empty for none.
		Actions string `yaml:"actions"`
	} `yaml:"executor"`
	Worker struct {
		// Name identifies the worker across restarts; no two live processes may share it. Empty for
		// the name of the host.
		Name string `yaml:"name"`
		// Runtimes are the runtimes that the worker offers; empty for all that its machine supports.
		Runtimes []string `yaml:"runtimes"`
		// ActionsDir is the directory of scripts; actions find its path in HANDOFF_ACTIONS_DIR. If
		// it is empty, only commands run.
		ActionsDir string `yaml:"actions_dir"`
		// HealthListen is the address of the worker's endpoints /healthz (the process is up), /readyz (it has
		// its lease and receives dispatches) and /metrics; empty for none. The default is a free port of
		// 127.0.0.1, which the log names. Only executors in the same network namespace can probe that; others
		// know this and do not count the worker as unreachable. For their probes, listen on an address that
		// they can reach.
		HealthListen string `yaml:"health_listen"`
		// HealthURL is the URL that executors probe, if it differs from /readyz at the worker's address:
		// behind a proxy, or in another network. It should end in /readyz, because /healthz only reports that
		// the process is up. If it is empty, executors use the address; its host is the machine's name if the
		// worker listens everywhere (0.0.0.0).
		HealthURL string `yaml:"health_url"`
		// Isolation configures how far actions are isolated.
		Isolation Isolation `yaml:"isolation"`
	} `yaml:"worker"`
	Log struct {
		// Level is the lowest level that is logged.
		Level string `yaml:"level"`
		// Format is the format of log lines: auto, text or json.
		Format string `yaml:"format"`
	} `yaml:"log"`
}

// The runtimes of the contract. Noop runs in the worker's own process.
const (
	RuntimeShell  = "shell"
	RuntimePython = "python"
	RuntimeNode   = "node"
	RuntimeNoop   = "noop"
)

// Runtimes lists every runtime that a worker can have.
func Runtimes() []string { return []string{RuntimeShell, RuntimePython, RuntimeNode, RuntimeNoop} }

// DefaultDeployment returns the defaults.
func DefaultDeployment() Deployment {
	var d Deployment
	d.Database.Migrate = true
	d.API.Listen = "127.0.0.1:8080"
	d.Worker.HealthListen = "127.0.0.1:0"
	d.Worker.Isolation = defaultIsolation()
	d.Log.Level, d.Log.Format = "info", LogAuto
	return d
}

// Validate returns every problem at once. No message repeats a value that may hold a secret.
func (d Deployment) Validate() []Problem {
	v := validation{}
	v.checkURL("database.url", d.Database.URL, "postgres", "postgresql")
	v.checkURL("message_queue.rabbitmq.url", d.MessageQueue.RabbitMQ.URL, "amqp", "amqps")
	v.checkListenAddress("api.listen", d.API.Listen)
	v.checkListenAddress("worker.health_listen", d.Worker.HealthListen)
	if d.Worker.HealthURL != "" {
		v.checkURL("worker.health_url", d.Worker.HealthURL, "http", "https")
	}
	v.checkAccess(d)
	v.checkIsolation(d.Worker.Isolation)
	for _, n := range []struct{ key, name string }{{"executor.name", d.Executor.Name}, {"worker.name", d.Worker.Name}} {
		if len(n.name) > 200 || strings.ContainsFunc(n.name, func(c rune) bool { return c < ' ' || c == '/' }) {
			v.addProblem(n.key, "must be at most 200 characters without a slash")
		}
	}
	return v.problems
}

// checkURL refuses a value that is not a URL of one of the schemes.
func (v *validation) checkURL(key, text string, schemes ...string) {
	if text == "" {
		v.addProblem(key, "is not set; set it in the file or by the environment variable %s", EnvName(key))
		return
	}
	u, err := url.Parse(text)
	if err != nil {
		// The parser's message would reveal the password.
		v.addProblem(key, "is not a URL; the characters @ : / ? # %% in a password must be written as %%40 %%3A %%2F %%3F %%23 %%25")
		return
	}
	for _, s := range schemes {
		if u.Scheme == s {
			if u.Host == "" && u.Query().Get("host") == "" {
				v.addProblem(key, "names no host; it should look like %s://user:password@host/name", s)
			}
			return
		}
	}
	v.addProblem(key, "must begin with %s://", strings.Join(schemes, ":// or "))
}

func (v *validation) checkListenAddress(key, text string) {
	if text == "" {
		return
	}
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		v.addProblem(key, "%q is not an address; it should look like 127.0.0.1:8080", text)
		return
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		v.addProblem(key, "%q is not a port; use a number up to 65535", port)
	}
}

// MaskURL replaces the password of a URL. It masks a text that is not a URL as a whole.
func MaskURL(text string) string {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" && u.RawQuery == "" {
		return masked
	}
	query := u.Query()
	for key := range query {
		if k := strings.ToLower(key); strings.Contains(k, "pass") || strings.Contains(k, "secret") || strings.Contains(k, "token") {
			query.Set(key, masked)
		}
	}
	// The mask is inserted at the end, because a URL would escape it.
	const mark = "HANDOFFMASK"
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), mark)
	}
	if u.RawQuery != "" {
		u.RawQuery = strings.ReplaceAll(query.Encode(), url.QueryEscape(masked), mark)
	}
	return strings.ReplaceAll(u.String(), mark, masked)
}

// masked is shown in place of a secret.
const masked = "***"
