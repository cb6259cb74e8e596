package sim

import (
	"context"
	"errors"
	"strings"

	"handoff/core/host"
	"handoff/sim/kernel"
)

// healthScheme is the scheme of simulated health endpoints. The name of the process follows it, and
// then the path. The readiness path asks whether the process is ready; any other path asks whether
// it is up.
const (
	healthScheme = "sim://"
	readyPath    = "/readyz"
)

var errNotAnswering = errors.New("nobody answers there")

// prober probes whether simulated workers are ready, like /readyz of real ones. It uses the simulated
// network, so faults of the link between the two processes affect the probe.
type prober struct {
	w *world
	p *kernel.Process
	h host.Host
}

// Probe implements executor.Prober. A process that has ended refuses the connection; a paused process keeps
// the caller waiting.
func (p *prober) Probe(ctx context.Context, url string) error {
	err := p.probeTarget(ctx, url)
	p.w.witness.reportProbe(p.p, url, err)
	return err
}

func (p *prober) probeTarget(ctx context.Context, url string) error {
	name, path, _ := strings.Cut(strings.TrimPrefix(url, healthScheme), "/")
	target := p.w.findProcess(name)
	if target == nil {
		return errNotAnswering
	}
	answered, stalled := false, false
	var ready error
	err := p.w.net.Call(ctx, p.p, target.name, func() {
		answered = target.isAlive()
		stalled = answered && (target.current.Paused() || target.current.Frozen())
		switch {
		case !answered || stalled:
		case target.pulse == nil:
			ready = errNotAnswering // the process has just started and is not listening yet
		case "/"+path == readyPath:
			ready = target.pulse.Ready()
		}
	})
	switch {
	case err != nil:
		return err
	case stalled:
		for err == nil {
			err = p.h.Sleep(ctx, hungCheckInterval)
		}
		return err
	case !answered:
		return errNotAnswering
	}
	return ready
}
