package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"handoff/chaos/servers/containers"
	"handoff/core/host/without"
)

// engine returns the machine's container engine.
func engine(t *testing.T) *containers.Engine {
	t.Helper()
	e, err := containers.Find(t.Context())
	if err != nil {
		err = fmt.Errorf("no container engine: %w", err)
	}
	without.Need(t, without.Docker, err)
	t.Cleanup(func() { check(t, e.Close()) })
	return e
}

// inContainers returns places in which no servers are installed, so that only containers are used.
func inContainers(t *testing.T) *places {
	where := nowhere(t)
	where.engine = containers.Find
	return where
}

// Servers in containers behave like installed ones and are removed afterwards.
func TestContainers(t *testing.T) {
	e := engine(t)
	var log strings.Builder
	o := Options{Postgres: true, RabbitMQ: true, Management: true, PrivateOnly: true, Log: &log, places: inContainers(t)}
	set, err := Up(within(t), o)
	check(t, err)
	t.Cleanup(func() { check(t, set.Down()) })
	if n := strings.Count(log.String(), ": a container of "); n != 2 {
		t.Errorf("said:\n%s", log.String())
	}
	t.Run("postgres", func(t *testing.T) { postgresLife(t, set.Postgres) })
	t.Run("rabbitmq", func(t *testing.T) { rabbitLife(t, set.RabbitMQ) })
	t.Run("given", func(t *testing.T) { givenServers(t, set) })
	if left := count(t, e, set.Dir()); left != 2 {
		t.Errorf("%d containers carry this run's label, not 2", left)
	}
	check(t, set.Down())
	if left := count(t, e, set.Dir()); left != 0 {
		t.Errorf("%d containers are left", left)
	}
}

// The next start removes the container of a run whose lock is free, but not the container of a live run.
func TestNextStartRemovesLeftoverContainers(t *testing.T) {
	e := engine(t)
	base := t.TempDir()
	alive, err := makeWorkDir(base)
	check(t, err)
	gone := filepath.Join(base, "gone")
	ports, err := FreePorts(1)
	check(t, err)
	for _, run := range []string{alive.path, gone} {
		_, err := e.Create(within(t), containers.Spec{
			Name: boxName(), Image: postgresImage(), Ports: map[int]int{5432: ports[0]}, Run: run,
		})
		check(t, err)
	}
	removed, err := e.Sweep(within(t), runIsOver)
	check(t, err)
	if len(removed) == 0 || count(t, e, alive.path) != 1 || count(t, e, gone) != 0 {
		t.Errorf("removed %q; left of the living run %d, of the dead one %d", removed, count(t, e, alive.path), count(t, e, gone))
	}
	check(t, alive.removeDir())
	_, err = e.Sweep(within(t), runIsOver)
	check(t, err)
	if count(t, e, alive.path) != 0 {
		t.Error("the container remains after its run")
	}
}

func TestImageWithoutDockerIsRefused(t *testing.T) {
	t.Setenv(ImagePostgres, "postgres:17")
	t.Setenv(AddressPostgres, "")
	t.Setenv(Without, "docker")
	_, err := Up(t.Context(), Options{Postgres: true})
	var bad *AddressError
	if !errors.As(err, &bad) || bad.Variable != ImagePostgres {
		t.Errorf("got %v", err)
	}
}

func TestNamedImageOverridesInstalledServers(t *testing.T) {
	t.Setenv(ImagePostgres, "postgres:17")
	t.Setenv(AddressPostgres, "")
	t.Setenv(Without, "")
	where := usualPlaces()
	asked := false
	where.engine = func(context.Context) (*containers.Engine, error) {
		asked = true
		return nil, errors.New("no engine answers")
	}
	_, err := Up(t.Context(), Options{Postgres: true, places: where})
	if !asked || !errors.Is(err, ErrEnvironment) || !strings.Contains(err.Error(), "postgres:17") {
		t.Errorf("asked for an engine: %v; got %v", asked, err)
	}
}

func postgresImage() string {
	if image := os.Getenv(ImagePostgres); image != "" {
		return image
	}
	return componentNamed(ComponentPostgres).usualImage
}

// count returns the number of containers with a run's label, and removes none.
func count(t *testing.T, e *containers.Engine, run string) int {
	t.Helper()
	n := 0
	_, err := e.Sweep(within(t), func(directory string) bool {
		if directory == run {
			n++
		}
		return false
	})
	check(t, err)
	return n
}
