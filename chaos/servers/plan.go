package servers

import (
	"context"
	"fmt"
	"os"

	"handoff/chaos/servers/containers"
	"handoff/core/host/without"
)

// plan says where each wanted component comes from: an address, binaries or an image, exactly one
// of these.
type plan struct {
	pgAddress, mqAddress string
	management           string
	pgBinaries           *postgresBinaries
	mqBinaries           *rabbitBinaries
	pgImage, mqImage     string
	engine               *containers.Engine // the engine for the images
}

func (p *plan) private() bool { return p.pgBinaries != nil || p.mqBinaries != nil || p.engine != nil }

// makePlan decides everything that can be decided without starting anything, so that a missing
// RabbitMQ is not reported only after PostgreSQL was started.
func makePlan(ctx context.Context, o Options) (*plan, error) {
	declared, err := WithoutList()
	if err != nil {
		return nil, err
	}
	where := o.places
	if where == nil {
		where = usualPlaces()
	}
	p := &plan{management: os.Getenv(AddressManagement)}
	var missing []Missing
	for _, w := range p.wanted(o, where) {
		lacks, err := w.decide(ctx, p, declared, where)
		if err != nil {
			return nil, p.drop(err)
		}
		if lacks != nil {
			lacks.PrivateOnly = o.PrivateOnly
			missing = append(missing, *lacks)
		}
	}
	if len(missing) > 0 {
		return nil, p.drop(&UnavailableError{Missing: missing})
	}
	if p.private() && !privateSupported {
		return nil, p.drop(&StartError{Component: "private instances", Err: errNoPrivate})
	}
	return p, nil
}

// Available returns the error that Up would return for missing components. It starts nothing.
func Available(ctx context.Context, o Options) error {
	p, err := makePlan(ctx, o)
	if err != nil {
		return err
	}
	return p.drop(nil)
}

// drop closes everything that an abandoned plan has opened.
func (p *plan) drop(err error) error {
	if p.engine != nil {
		_ = p.engine.Close() // nothing was created on it
	}
	return err
}

// wanted is a component, with a function for each way to get it.
type wanted struct {
	component     string
	address       *string
	check         func() error
	find          func() (found bool, looked []string)
	imageVariable string
	usualImage    string
	image         *string
}

func (p *plan) wanted(o Options, where *places) []wanted {
	var out []wanted
	if o.Postgres {
		p.pgAddress = addressFor(AddressPostgres, o.PrivateOnly)
		out = append(out, wanted{
			component: ComponentPostgres, address: &p.pgAddress,
			check: func() error { return checkPostgresAddress(p.pgAddress, o.AllowRemote) },
			find: func() (bool, []string) {
				var looked []string
				p.pgBinaries, looked = where.findPostgres()
				return p.pgBinaries != nil, looked
			},
			imageVariable: ImagePostgres, usualImage: defaultPostgresImage, image: &p.pgImage,
		})
	}
	if o.RabbitMQ {
		p.mqAddress = addressFor(AddressRabbitMQ, o.PrivateOnly)
		out = append(out, wanted{
			component: ComponentRabbitMQ, address: &p.mqAddress,
			check: func() error { return checkRabbitAddress(p.mqAddress, p.management, o.AllowRemote) },
			find: func() (bool, []string) {
				var looked []string
				p.mqBinaries, looked = where.findRabbit()
				return p.mqBinaries != nil, looked
			},
			imageVariable: ImageRabbitMQ, usualImage: defaultRabbitImage, image: &p.mqImage,
		})
	}
	return out
}

// decide returns the component if it is unavailable. An image that a variable names was requested
// explicitly, so it has priority over installed binaries.
func (w wanted) decide(ctx context.Context, p *plan, declared map[string]bool, where *places) (*Missing, error) {
	if declared[w.component] {
		return &Missing{Component: w.component, Without: true}, nil
	}
	if *w.address != "" {
		return nil, w.check()
	}
	image := os.Getenv(w.imageVariable)
	if image != "" && declared[without.Docker] {
		return nil, &AddressError{w.imageVariable, "names an image, and " + Without + " names docker: one of the two is wrong"}
	}
	var looked []string
	if image == "" {
		var found bool
		if found, looked = w.find(); found {
			return nil, nil
		}
		image = w.usualImage
	}
	if declared[without.Docker] {
		looked = append(looked, fmt.Sprintf("a container engine (not looked for: %s names docker)", Without))
		return &Missing{Component: w.component, Looked: looked}, nil
	}
	if p.engine == nil {
		var err error
		if p.engine, err = where.engine(ctx); err != nil {
			p.engine = nil
			looked = append(looked, fmt.Sprintf("a container engine, for the image %s (%v)", image, err))
			return &Missing{Component: w.component, Looked: looked}, nil
		}
	}
	*w.image = image
	return nil, nil
}

func addressFor(variable string, privateOnly bool) string {
	if privateOnly {
		return ""
	}
	return os.Getenv(variable)
}

func (p *plan) postgres(ctx context.Context, s *Set, log *lineLog) (*Postgres, error) {
	switch {
	case p.pgImage != "":
		return containedPostgres(ctx, p.pgImage, s.boxes, log)
	case p.pgBinaries != nil:
		return startPostgres(ctx, p.pgBinaries, s.dir, s.guard, log)
	default:
		return givenPostgres(ctx, p.pgAddress, log)
	}
}

func (p *plan) rabbitmq(ctx context.Context, s *Set, management bool, log *lineLog) (*RabbitMQ, error) {
	switch {
	case p.mqImage != "":
		return containedRabbit(ctx, p.mqImage, management, s.boxes, log)
	case p.mqBinaries != nil:
		return startRabbit(ctx, p.mqBinaries, s.dir, management, s.guard, log)
	default:
		return givenRabbit(ctx, p.mqAddress, p.management, log)
	}
}
