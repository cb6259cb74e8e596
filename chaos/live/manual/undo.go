package manual

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"handoff/chaos/fault"
	"handoff/chaos/live/cluster"
)

// Undo ends all manual faults, even if chaos inject was killed: it starts servers and processes that are
// down, resumes those that are paused, and heals every link. It tries everything and joins the errors. A
// chaos inject that still waits later finds its fault ended, and reports no error.
func (sy *System) Undo(ctx context.Context) error {
	failed := sy.Supervisor.Mend(ctx)
	if err := toxiproxy.NewClient(sy.Toxiproxy).ResetState(); err != nil {
		failed = errors.Join(failed, fmt.Errorf("healing the links, at %s: %w", sy.Toxiproxy, err))
	}
	return failed
}

// hasStatus reports whether toxiproxy answered with an HTTP status.
func hasStatus(err error, status int) bool {
	var answer *toxiproxy.ApiError
	return errors.As(err, &answer) && answer.Status == status
}

// Mend implements Supervisor. Neither act affects a running server or process.
func (c Control) Mend(ctx context.Context) error {
	processes, err := c.Processes(ctx)
	if err != nil {
		return err
	}
	names := []string{fault.Database, fault.Broker}
	for _, p := range processes {
		names = append(names, p.Name)
	}
	var failed error
	for _, name := range names {
		for _, act := range []cluster.Act{cluster.Start, cluster.Resume} {
			if err := c.doWithTimeout(ctx, name, act); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s %s: %w", act, name, err))
				break
			}
		}
	}
	return failed
}

func (c Control) doWithTimeout(ctx context.Context, name string, act cluster.Act) error {
	ctx, cancel := context.WithTimeout(ctx, actTimeout(name))
	defer cancel()
	return c.Do(ctx, name, act)
}

// Mend implements Supervisor. The engine refuses to resume services that are not paused, so Mend lists the
// paused ones first.
func (c Compose) Mend(ctx context.Context) error {
	processes, err := c.Processes(ctx)
	if err != nil {
		return err
	}
	services := []string{serviceName(fault.Database), serviceName(fault.Broker)}
	for _, p := range processes {
		services = append(services, p.Name)
	}
	paused, err := c.Tool.Run(ctx, nil, "-f", c.File, "ps", "--services", "--filter", "status=paused")
	if err == nil && strings.TrimSpace(paused) != "" {
		_, err = c.Tool.Run(ctx, nil, append([]string{"-f", c.File, "unpause"}, strings.Fields(paused)...)...)
	}
	_, started := c.Tool.Run(ctx, nil, append([]string{"-f", c.File, "start"}, services...)...)
	return errors.Join(err, started)
}

// isGone reports whether a fault's toxic no longer exists, because the link was healed in the meantime.
func isGone(err error) bool { return hasStatus(err, http.StatusNotFound) }

// isTaken reports whether another manual fault is in effect on the link.
func isTaken(err error) bool { return hasStatus(err, http.StatusConflict) }
