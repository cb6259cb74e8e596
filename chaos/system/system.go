// Package system reads system.yaml: what a job system consists of, how a job is submitted to it, and what it promises.
package system

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"handoff/chaos/promise"
	"handoff/core/config/yamlfile"
)

// System is a system under test.
type System struct {
	// File is the path of the file, and Folder the one in which its commands run.
	File, Folder string
	Name, About  string
	// Servers are the private servers that the system needs, each of Servers().
	Servers []string
	// Build is a command that runs once, Prepare one that runs once for each run, before anything starts.
	Build, Prepare string
	// Processes are the roles, in the order of the file.
	Processes []Role
	// Submit is a program that reads a job from each line and answers with a line.
	Submit string
	Jobs   *Jobs
	Env    map[string]string
	// Settings are lines for the configuration of a private server, by its name.
	Settings map[string]map[string]string
	Promises promise.Promises
}

// Role is a kind of process.
type Role struct {
	Name string
	// Run is its command, Count how many there are, named NAME-1 and so on.
	Run   string
	Count int
	// Restart is how soon it is started again after it ended; negative for never.
	Restart time.Duration
	// Starts is how long it needs from its start until it works.
	Starts time.Duration
}

// WorkerRole is the role of processes that run jobs.
const WorkerRole = "worker"

// Jobs is how the system's own word about its jobs is read: a query of its PostgreSQL, or a command that prints a line
// of JSON for each job. Either gives job and status, and may give attempt and result.
type Jobs struct {
	SQL, Run string
	// Done, Failed and Cancelled are the statuses that end a job.
	Done, Failed, Cancelled []string
}

// The private servers.
const (
	Postgres = "postgres"
	RabbitMQ = "rabbitmq"
	Redis    = "redis"
)

// Servers lists the servers that a system may need.
func Servers() []string { return []string{Postgres, RabbitMQ, Redis} }

// Variable is the environment variable that has the URL of a server.
func Variable(server string) string {
	return map[string]string{Postgres: "DATABASE_URL", RabbitMQ: "AMQP_URL", Redis: "REDIS_URL"}[server]
}

const (
	defaultRestart = time.Second
	defaultStarts  = 20 * time.Second
	mostProcesses  = 20
)

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)

// Workers are the names of the processes that run jobs.
func (s *System) Workers() []string {
	return s.processesOf(func(r Role) bool { return r.Name == WorkerRole })
}

// Others are the names of all other processes.
func (s *System) Others() []string {
	return s.processesOf(func(r Role) bool { return r.Name != WorkerRole })
}

func (s *System) processesOf(wanted func(Role) bool) (names []string) {
	for _, r := range s.Processes {
		for i := range r.Count {
			if wanted(r) {
				names = append(names, fmt.Sprintf("%s-%d", r.Name, i+1))
			}
		}
	}
	return names
}

// Starts is how long the slowest worker needs until it runs jobs.
func (s *System) Starts() time.Duration {
	return slices.MaxFunc(s.Processes, func(a, b Role) int { return cmp.Compare(a.Starts, b.Starts) }).Starts
}

// LoadFile reads a system from a file. A readable file with mistakes gives yamlfile.Errors.
func LoadFile(path string) (*System, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a system: %w", err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, yamlfile.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading a system: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a system from the bytes of a file.
func Parse(path string, data []byte) (*System, error) {
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	l := &loader{Reader: yamlfile.NewReader(path, "system", data), s: System{File: path, Folder: folder}}
	if root := l.Root(data); root != nil {
		l.readSystem(root)
	}
	if problems := l.Problems(); len(problems) > 0 {
		return nil, problems
	}
	return &l.s, nil
}

func commandSchema(about string) yamlfile.Schema { return yamlfile.TextSchema().With(about) }

func roleShape(name string) yamlfile.Shape {
	return yamlfile.NewShape("process "+name,
		yamlfile.Required("run", "its command, for a shell", commandSchema("a command")),
		yamlfile.Optional("count", "how many there are; left out: 1", yamlfile.IntegerSchema(1, mostProcesses)),
		yamlfile.Optional("restart", "how soon it is started again after it ended: 1s, or never; left out: 1s",
			yamlfile.Schema{"oneOf": []any{yamlfile.DurationSchema(), yamlfile.Enum([]string{"never"})}}),
		yamlfile.Optional("starts", "how long it needs until it works; left out: 20s", yamlfile.DurationSchema()),
	)
}

func jobsShape() yamlfile.Shape {
	statuses := yamlfile.ListOf(yamlfile.TextSchema())
	return yamlfile.NewShape("jobs",
		yamlfile.Optional("sql", "a query of its PostgreSQL: job, status and, if there are, attempt and result", yamlfile.TextSchema()),
		yamlfile.Optional("run", "a command that prints the same as a line of JSON for each job", yamlfile.TextSchema()),
		yamlfile.Required("done", "the statuses of a job that is done", yamlfile.SomeOf(yamlfile.TextSchema())),
		yamlfile.Optional("failed", "the statuses of a job that failed for good", statuses),
		yamlfile.Optional("cancelled", "the statuses of a job that was cancelled", statuses),
	)
}

// Shape describes the file.
func Shape() yamlfile.Shape {
	return yamlfile.NewShape("the system",
		yamlfile.Required("name", "small letters, digits and hyphens", yamlfile.Schema{"type": "string", "pattern": nameForm.String()}),
		yamlfile.Optional("about", "its settings, and what is scaled, for reports", yamlfile.TextSchema()),
		yamlfile.Required("servers", "the private servers that it needs; [] for none", yamlfile.SetOf(yamlfile.Enum(Servers()))),
		yamlfile.Optional("build", "a command that runs once", yamlfile.TextSchema()),
		yamlfile.Optional("prepare", "a command that runs once for each run, before anything starts", yamlfile.TextSchema()),
		yamlfile.Required("processes", "what runs, by role; worker runs the jobs", yamlfile.MapOf(roleShape("").Object())),
		yamlfile.Required("submit", "a program that stays: it reads a job from each line and answers ok, known or error", yamlfile.TextSchema()),
		yamlfile.Optional("jobs", "what the system says of its jobs; left out: only runs are judged", jobsShape().Object()),
		yamlfile.Optional("env", "environment variables of all its processes", yamlfile.MapOf(yamlfile.Schema{"type": []string{"string", "number", "boolean"}})),
		yamlfile.Optional("settings", "lines for the configuration of the private servers",
			yamlfile.MapOf(yamlfile.MapOf(yamlfile.Schema{"type": []string{"string", "number", "boolean"}}))),
		yamlfile.Optional("promises", "what it promises; left out: everything is measured, and only what hangs is judged", promise.Shape().Object()),
	)
}

type loader struct {
	*yamlfile.Reader
	s System
}

func (l *loader) readSystem(n *yaml.Node) {
	m, ok := l.Mapping(n, Shape())
	if !ok {
		return
	}
	text := func(key string, to *string) {
		if n := m.At(key); n != nil {
			*to, _ = l.Text(n, key)
		}
	}
	text("name", &l.s.Name)
	if n := m.At("name"); n != nil && !nameForm.MatchString(l.s.Name) {
		l.Refuse(n, "name %q must be small letters and digits, with hyphens between them", l.s.Name)
	}
	text("about", &l.s.About)
	text("build", &l.s.Build)
	text("prepare", &l.s.Prepare)
	text("submit", &l.s.Submit)
	if n := m.At("servers"); n != nil {
		l.s.Servers, _ = l.Choices(n, "server", "servers", Servers())
	}
	if n := m.At("processes"); n != nil {
		l.readProcesses(n)
	}
	if n := m.At("jobs"); n != nil {
		l.readJobs(n)
	}
	if n := m.At("env"); n != nil {
		l.s.Env = l.readValues(n, "env")
	}
	if n := m.At("settings"); n != nil {
		l.readSettings(n)
	}
	if n := m.At("promises"); n != nil {
		l.s.Promises = promise.Read(l.Reader, n)
	}
}

func (l *loader) readProcesses(n *yaml.Node) {
	workers, all := 0, 0
	for _, e := range l.Entries(n, "processes") {
		if !nameForm.MatchString(e.Name) {
			l.Refuse(e.Key, "the role %q must be small letters and digits, with hyphens between them", e.Name)
		}
		m, ok := l.Mapping(e.Value, roleShape(e.Name))
		if !ok || !m.Has("run") {
			continue
		}
		r := Role{Name: e.Name, Count: 1, Restart: defaultRestart, Starts: defaultStarts}
		r.Run, _ = l.Text(m.At("run"), "run")
		if n := m.At("count"); n != nil {
			count, _ := l.Integer(n, "count", 1, mostProcesses)
			r.Count = int(count)
		}
		if n := m.At("restart"); n != nil {
			if n.Value == "never" {
				r.Restart = -1
			} else {
				r.Restart, _ = l.Duration(n, "restart", 0)
			}
		}
		if n := m.At("starts"); n != nil {
			r.Starts, _ = l.Duration(n, "starts", 0)
		}
		if all += r.Count; e.Name == WorkerRole {
			workers += r.Count
		}
		l.s.Processes = append(l.s.Processes, r)
	}
	switch {
	case workers == 0:
		l.Refuse(n, "there is no role %s: the processes that run jobs have this name", WorkerRole)
	case all > mostProcesses:
		l.Refuse(n, "%d processes; a system has at most %d", all, mostProcesses)
	}
}

func (l *loader) readJobs(n *yaml.Node) {
	m, ok := l.Mapping(n, jobsShape())
	if !ok {
		return
	}
	j := &Jobs{}
	l.s.Jobs = j
	for key, to := range map[string]*string{"sql": &j.SQL, "run": &j.Run} {
		if n := m.At(key); n != nil {
			*to, _ = l.Text(n, key)
		}
	}
	for key, to := range map[string]*[]string{"done": &j.Done, "failed": &j.Failed, "cancelled": &j.Cancelled} {
		if n := m.At(key); n != nil {
			items, _ := l.Items(n, key)
			for _, item := range items {
				status, _ := l.Text(item, key)
				*to = append(*to, status)
			}
		}
	}
	switch {
	case (j.SQL == "") == (j.Run == ""):
		l.Refuse(n, "jobs needs either sql or run")
	case j.SQL != "" && !slices.Contains(l.s.Servers, Postgres):
		l.Refuse(m.At("sql"), "sql asks the system's PostgreSQL, and servers does not list %s", Postgres)
	}
}

// readValues reads a mapping of names to simple values, as texts.
func (l *loader) readValues(n *yaml.Node, where string) map[string]string {
	all := map[string]string{}
	for _, e := range l.Entries(n, where) {
		if e.Value.Kind != yaml.ScalarNode {
			l.Refuse(e.Value, "%s of %s must be a text or a number, not %s", e.Name, where, yamlfile.KindOf(e.Value))
			continue
		}
		all[e.Name] = e.Value.Value
	}
	return all
}

func (l *loader) readSettings(n *yaml.Node) {
	l.s.Settings = map[string]map[string]string{}
	for _, e := range l.Entries(n, "settings") {
		if !slices.Contains(l.s.Servers, e.Name) {
			l.Unknown(e.Key, "settings are for a server that the system has", e.Name, l.s.Servers)
			continue
		}
		l.s.Settings[e.Name] = l.readValues(e.Value, "settings of "+e.Name)
	}
}
