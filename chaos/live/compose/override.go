package compose

import (
	"fmt"
	"maps"
	"os"
	"strings"

	"go.yaml.in/yaml/v4"
)

// overrideFile is a compose file that changes the base file.
type overrideFile struct {
	Services map[string]serviceEntry `yaml:"services"`
	Networks map[string]networkEntry `yaml:"networks,omitempty"`
}

type serviceEntry struct {
	Image       string            `yaml:"image,omitempty"`
	User        string            `yaml:"user,omitempty"`
	Command     []string          `yaml:"command,omitempty"`
	Environment map[string]string `yaml:"environment,omitempty"`
	Volumes     []string          `yaml:"volumes,omitempty"`
	Ports       []string          `yaml:"ports,omitempty"`
	Labels      map[string]string `yaml:"labels"`
}

type networkEntry struct {
	Labels map[string]string `yaml:"labels"`
}

// fileExecutor is the compose file's only process with a published port, which HANDOFF_API_PORT sets.
const fileExecutor = "executor-1"

// The image of the file's daemons, and the variable that replaces it.
const (
	imageVariable = "HANDOFF_IMAGE"
	daemonImage   = "${" + imageVariable + ":-handoff-chaos}"
)

// serversOverride adds the stack's labels, and lets PostgreSQL accept as many connections as
// private servers do.
func serversOverride(labels map[string]string) overrideFile {
	labels = escapeValues(labels)
	return overrideFile{
		Services: map[string]serviceEntry{
			servicePostgres:  {Labels: labels, Command: []string{"postgres", "-c", "max_connections=200"}},
			serviceRabbitMQ:  {Labels: labels},
			serviceToxiproxy: {Labels: labels},
		},
		Networks: map[string]networkEntry{"default": {Labels: labels}},
	}
}

// processesOverride describes executors and workers. A process of the file keeps its other settings there.
// Daemons run as this process's user, so that it can read their files.
func processesOverride(all []*Service, labels map[string]string) overrideFile {
	o := overrideFile{Services: make(map[string]serviceEntry)}
	for _, p := range all {
		s := serviceEntry{
			Image: daemonImage, User: fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()),
			Environment: make(map[string]string), Labels: escapeValues(labels),
			Volumes: []string{escapeVariables(p.Folder + ":" + p.Folder)},
		}
		for _, word := range p.Command {
			s.Command = append(s.Command, escapeVariables(word))
		}
		for _, entry := range p.Env {
			name, value, _ := strings.Cut(entry, "=")
			s.Environment[name] = escapeVariables(value)
		}
		if p.Name != fileExecutor {
			s.Ports = []string{fmt.Sprintf("127.0.0.1:%d:%d", p.Port, p.Listens)}
		}
		o.Services[p.Name] = s
	}
	return o
}

// escapeVariables escapes a text so that docker compose expands no variables in it.
func escapeVariables(text string) string { return strings.ReplaceAll(text, "$", "$$") }

func escapeValues(texts map[string]string) map[string]string {
	all := maps.Clone(texts)
	for name, text := range all {
		all[name] = escapeVariables(text)
	}
	return all
}

// writeOverride writes an override as YAML.
func writeOverride(path string, o overrideFile) error {
	text, err := yaml.Marshal(o)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
