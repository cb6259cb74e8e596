package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// Labels that docker compose sets.
const (
	labelProject = "com.docker.compose.project"
	labelService = "com.docker.compose.service"
)

// Project returns a docker compose project's containers by the names of their services.
func (e *Engine) Project(ctx context.Context, name string) (map[string]*Container, error) {
	filters := client.Filters{}.Add("label", labelProject+"="+name)
	found, err := e.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	if err != nil {
		return nil, err
	}
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithLogger(log.NewNoopLogger()))
	if err != nil {
		return nil, err
	}
	all := make(map[string]*Container)
	for _, c := range found.Items {
		made, err := provider.ContainerFromType(ctx, c)
		if err != nil {
			return nil, err
		}
		all[c.Labels[labelService]] = &Container{engine: e, made: made}
	}
	return all, nil
}

// Gateway returns this machine's address in one of the engine's networks, given by name.
func (e *Engine) Gateway(ctx context.Context, network string) (string, error) {
	found, err := e.api.NetworkInspect(ctx, network, client.NetworkInspectOptions{})
	if err != nil {
		return "", err
	}
	for _, c := range found.Network.IPAM.Config {
		if c.Gateway.IsValid() {
			return c.Gateway.String(), nil
		}
	}
	return "", fmt.Errorf("the network %s has no gateway", network)
}

// Signal sends a signal, such as STOP, to the container's first process only.
func (c *Container) Signal(ctx context.Context, signal string) error {
	_, err := c.engine.api.ContainerKill(ctx, c.ID(), client.ContainerKillOptions{Signal: signal})
	return err
}

// Wait returns nil once the container has ended or was removed.
func (c *Container) Wait(ctx context.Context) error {
	waiting := c.engine.api.ContainerWait(ctx, c.ID(), client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-waiting.Result:
		return nil
	case err := <-waiting.Error:
		return err
	}
}

// CopyFile copies one of the container's files to a new executable file.
func (c *Container) CopyFile(ctx context.Context, from, to string) error {
	in, err := c.made.CopyFileFromContainer(ctx, from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755) //nolint:gosec // a program
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
