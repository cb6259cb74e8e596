package compose

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"handoff/chaos/servers"
	"handoff/chaos/servers/containers"
	"handoff/core/host/without"
)

// Tool is the command for docker compose: "docker compose" or, for version 1, "docker-compose".
type Tool []string

// FindTool finds docker compose: the plugin, or the program of version 1.
func FindTool() (Tool, error) {
	if exec.Command("docker", "compose", "version").Run() == nil {
		return Tool{"docker", "compose"}, nil
	}
	if _, err := exec.LookPath("docker-compose"); err == nil {
		return Tool{"docker-compose"}, nil
	}
	return nil, errors.New("neither `docker compose` nor `docker-compose` is installed")
}

// Run runs a command to its end and returns its output. env is added to this process's environment.
func (t Tool) Run(ctx context.Context, env []string, args ...string) (string, error) {
	line := slices.Concat(t[1:], args)
	cmd := exec.CommandContext(ctx, t[0], line...)
	cmd.Env = append(os.Environ(), env...)
	servers.OwnGroup(cmd) // Ctrl-C must not end the command; the caller removes what it has created
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", t[0], strings.Join(line, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// UnavailableError means that containers can't be used on this machine. It matches servers.ErrEnvironment.
// Looked lists where their prerequisites were searched.
type UnavailableError struct {
	Looked []string
}

// Error implements error.
func (u *UnavailableError) Error() string {
	return "containers need an engine on this machine and docker compose. Looked for:\n  " + strings.Join(u.Looked, "\n  ") +
		"\nStart an engine (docker info has to answer) and install docker compose (Debian, Ubuntu: apt-get install -y docker.io docker-compose), " +
		"or leave --target compose out: then the daemons run as processes of this machine"
}

// Is makes the error match servers.ErrEnvironment.
func (u *UnavailableError) Is(target error) bool { return target == servers.ErrEnvironment }

// findPrerequisites finds an engine and docker compose, or returns an error that lists the searched places.
func findPrerequisites(ctx context.Context) (*containers.Engine, Tool, error) {
	declared, err := servers.WithoutList()
	if err != nil {
		return nil, nil, err
	}
	if declared[without.Docker] {
		return nil, nil, &UnavailableError{Looked: []string{fmt.Sprintf("nothing: %s names docker", servers.Without)}}
	}
	var looked []string
	tool, err := FindTool()
	if err != nil {
		looked = append(looked, "docker compose: "+err.Error())
	}
	engine, err := containers.Find(ctx)
	if err != nil {
		looked = append(looked, fmt.Sprintf("a container engine at DOCKER_HOST, of the docker context, or at the usual sockets: %v", err))
	}
	if len(looked) == 0 {
		return engine, tool, nil
	}
	if engine != nil {
		_ = engine.Close() // nothing was created on it
	}
	return nil, nil, &UnavailableError{Looked: looked}
}

// Prepare builds the daemons' image according to the file, unless HANDOFF_IMAGE names one. The error lists
// whatever this machine lacks. log receives a line for each step.
func Prepare(ctx context.Context, file string, log io.Writer) error {
	engine, tool, err := findPrerequisites(ctx)
	if err != nil {
		return err
	}
	_ = engine.Close() // nothing was created on it
	if os.Getenv(imageVariable) != "" {
		return nil
	}
	_, _ = fmt.Fprintf(log, "building the daemons' image (%s names one that is built)\n", imageVariable)
	ctx, cancel := context.WithTimeout(ctx, upWithin)
	defer cancel()
	if _, err := tool.Run(ctx, nil, "-f", file, "build", fileExecutor); err != nil {
		return &servers.StartError{Component: "the daemons' image", Err: err}
	}
	return nil
}
