package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// EnsureInstalled installs missing packages of PostgreSQL and RabbitMQ if it runs as root on Debian or a
// derivative. It logs this first. It does not install components that HANDOFF_WITHOUT excludes or that an
// address or an image replaces. With HANDOFF_INSTALL=no, on other systems, and for other users it installs
// nothing: it returns an UnavailableError unless the missing components can run in containers.
//
// The packages may start services on the usual ports; this package does not use them.
func EnsureInstalled(ctx context.Context, log io.Writer) error {
	out := &lineLog{w: log}
	packages, missing, err := missingPackages(usualPlaces())
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		return namedAvailable(ctx)
	}
	apt, err := exec.LookPath("apt-get")
	_, statErr := os.Stat("/etc/debian_version")
	switch {
	case os.Getenv(Install) == "no":
		out.printf("%s=no: not installing %s", Install, strings.Join(packages, ", "))
		return containersInstead(ctx, missing, out)
	case err != nil || statErr != nil || os.Geteuid() != 0:
		out.printf("missing: %s; installing them takes apt-get and root", strings.Join(packages, ", "))
		return containersInstead(ctx, missing, out)
	}
	unlock, err := waitForLock(ctx, filepath.Join(os.TempDir(), "handoff-install.lock"))
	if err != nil {
		return &StartError{Component: "the installation", Err: err}
	}
	defer unlock()
	// Another process may have installed them while this one waited for the lock.
	if packages, _, err = missingPackages(usualPlaces()); err != nil || len(packages) == 0 {
		return err
	}
	began := time.Now()
	update := []string{"update"}
	install := append([]string{"-o", "DPkg::Lock::Timeout=120", "install", "-y", "--no-install-recommends"}, packages...)
	for _, args := range [][]string{update, install} {
		out.printf("missing: %s; running apt-get %s (%s=no prevents it)", strings.Join(packages, ", "), strings.Join(args, " "), Install)
		if text, err := aptGet(ctx, apt, args); err != nil {
			return &StartError{Component: "the installation", Err: fmt.Errorf("apt-get %s: %w", args[0], err), LogTail: lastLines(text)}
		}
	}
	if _, missing, err = missingPackages(usualPlaces()); err != nil {
		return err
	}
	if len(missing) > 0 {
		return &UnavailableError{Missing: missing}
	}
	out.printf("installed %s in %v", strings.Join(packages, ", "), time.Since(began).Round(100*time.Millisecond))
	return nil
}

// namedAvailable checks that addresses and images that variables name are usable.
func namedAvailable(ctx context.Context) error {
	declared, err := WithoutList()
	if err != nil {
		return err
	}
	return Available(ctx, Options{Postgres: !declared[ComponentPostgres], RabbitMQ: !declared[ComponentRabbitMQ]})
}

// containersInstead returns nil if containers can replace every missing component.
func containersInstead(ctx context.Context, missing []Missing, out *lineLog) error {
	o := Options{}
	for _, m := range missing {
		o.Postgres = o.Postgres || m.Component == ComponentPostgres
		o.RabbitMQ = o.RabbitMQ || m.Component == ComponentRabbitMQ
	}
	p, err := makePlan(ctx, o)
	if err != nil {
		return err
	}
	out.printf("containers will be used, of the engine at %s", p.engine.Address())
	return p.abandonPlan(nil)
}

func missingPackages(where *places) (packages []string, missing []Missing, err error) {
	declared, err := WithoutList()
	if err != nil {
		return nil, nil, err
	}
	for _, c := range knownComponents() {
		if declared[c.name] || os.Getenv(c.address) != "" || os.Getenv(c.image) != "" {
			continue
		}
		if looked := c.find(where, new(plan)); looked != nil {
			packages = append(packages, c.debian)
			missing = append(missing, Missing{Component: c.name, Looked: looked})
		}
	}
	return packages, missing, nil
}

// aptGet runs apt-get. When the context ends, it interrupts apt-get instead of killing it: dpkg must not stop
// half-way.
func aptGet(ctx context.Context, path string, args []string) (string, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	var out limitedOutput
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), errors.Join(err, ctx.Err())
}

func waitForLock(ctx context.Context, path string) (func(), error) {
	for {
		f, err := lockFile(path, true)
		if err == nil {
			return func() { _ = f.Close() }, nil // nothing was written
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}
