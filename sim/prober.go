package sim

import (
	"context"
	"errors"
	"strings"

	"handoff/core/host"
	"handoff/sim/kernel"
)

// healthScheme is that of simulated health endpoints; what follows it is the process, and then the path that asks whether
// it is ready. Any other path asks whether it is up.
const (
	healthScheme = "sim://"
	readyPath    = "/readyz"
)

var errNotAnswering = errors.New("nobody answers there")

// prober asks simulated workers whether they are ready, as /readyz of the real ones does, over the simulated network, so that what cuts or slows the link
// between the two processes does so to the probe.
type prober struct {
	w *world
	p *kernel.Process
	h host.Host
}

// Probe implements executor.Prober. A process that has ended refuses; one that stands still lets the
// caller wait.
func (p *prober) Probe(ctx context.Context, url string) error {
	err := p.probe(ctx, url)
	p.w.witness.probed(p.p, url, err)
	return err
}

func (p *prober) probe(ctx context.Context, url string) error {
	name, path, _ := strings.Cut(strings.TrimPrefix(url, healthScheme), "/")
	target := p.w.process(name)
	if target == nil {
		return errNotAnswering
	}
	answered, stalled := false, false
	var ready error
	err := p.w.net.Call(ctx, p.p, target.name, func() {
		answered = target.alive()
		stalled = answered && (target.current.Paused() || target.current.Frozen())
		switch {
		case !answered || stalled:
		case target.pulse == nil:
			ready = errNotAnswering // it has just started, and does not listen yet
		case "/"+path == readyPath:
			ready = target.pulse.Ready()
		}
	})
	switch {
	case err != nil:
		return err
	case stalled:
		for err == nil {
			err = p.h.Sleep(ctx, stirs)
		}
		return err
	case !answered:
		return errNotAnswering
	}
	return ready
}
