package servers

import (
	"context"
	"fmt"
	"os"
	"slices"

	"handoff/chaos/servers/containers"
	"handoff/core/host/without"
)

// component is PostgreSQL or RabbitMQ, with the ways to provide it.
type component struct {
	name, display  string
	address, image string // the variables that name an address and an image
	usualImage     string // the version against which the models are tested
	debian         string // the package
	checkAddress   func(address string) error
	find           func(*places, *plan) (looked []string) // sets the plan's binaries, or returns the searched places
}

func knownComponents() []component {
	return []component{
		{
			name: ComponentPostgres, display: "PostgreSQL", address: AddressPostgres, image: ImagePostgres, usualImage: "postgres:15", debian: "postgresql",
			checkAddress: checkPostgresAddress,
			find: func(where *places, p *plan) (looked []string) {
				p.pgBinaries, looked = where.findPostgres()
				return looked
			},
		},
		{
			name: ComponentRabbitMQ, display: "RabbitMQ", address: AddressRabbitMQ, image: ImageRabbitMQ, usualImage: "rabbitmq:3.10-management", debian: "rabbitmq-server",
			checkAddress: checkRabbitAddress,
			find: func(where *places, p *plan) (looked []string) {
				p.mqBinaries, looked = where.findRabbit()
				return looked
			},
		},
	}
}

// componentNamed returns the component with a name from HANDOFF_WITHOUT.
func componentNamed(name string) component {
	all := knownComponents()
	return all[slices.IndexFunc(all, func(c component) bool { return c.name == name })]
}

// plan holds exactly one source for each requested component: an address, binaries or an image.
type plan struct {
	addresses, images map[string]string // by the name of the component
	pgBinaries        *postgresBinaries
	mqBinaries        *rabbitBinaries
	engine            *containers.Engine // the engine for the images
}

func (p *plan) hasPrivate() bool {
	return p.pgBinaries != nil || p.mqBinaries != nil || p.engine != nil
}

// makePlan decides all that can be decided before a server starts, so that a missing RabbitMQ is reported
// before PostgreSQL starts.
func makePlan(ctx context.Context, o Options) (*plan, error) {
	declared, err := WithoutList()
	if err != nil {
		return nil, err
	}
	where := o.places
	if where == nil {
		where = usualPlaces()
	}
	p := &plan{addresses: make(map[string]string), images: make(map[string]string)}
	var missing []Missing
	for _, c := range knownComponents() {
		if c.name == ComponentPostgres && !o.Postgres || c.name == ComponentRabbitMQ && !o.RabbitMQ {
			continue
		}
		lacks, err := p.chooseSource(ctx, c, o, declared, where)
		if err != nil {
			return nil, p.abandonPlan(err)
		}
		if lacks != nil {
			lacks.PrivateOnly = o.PrivateOnly
			missing = append(missing, *lacks)
		}
	}
	if len(missing) > 0 {
		return nil, p.abandonPlan(&UnavailableError{Missing: missing})
	}
	if p.hasPrivate() && !privateSupported {
		return nil, p.abandonPlan(&StartError{Component: "private instances", Err: errNoPrivate})
	}
	return p, nil
}

// Available returns the error that Up would return for missing components. It starts nothing.
func Available(ctx context.Context, o Options) error {
	p, err := makePlan(ctx, o)
	if err != nil {
		return err
	}
	return p.abandonPlan(nil)
}

// abandonPlan closes everything that the plan has opened, and returns err.
func (p *plan) abandonPlan(err error) error {
	if p.engine != nil {
		_ = p.engine.Close() // no containers were created
	}
	return err
}

// chooseSource chooses the source of a component, or returns the component as missing. An image that a
// variable names has priority over installed binaries, because it was requested explicitly.
func (p *plan) chooseSource(ctx context.Context, c component, o Options, declared map[string]bool, where *places) (*Missing, error) {
	if declared[c.name] {
		return &Missing{Component: c.name, Without: true}, nil
	}
	if address := addressFor(c.address, o.PrivateOnly); address != "" {
		p.addresses[c.name] = address
		return nil, c.checkAddress(address)
	}
	image := os.Getenv(c.image)
	if image != "" && declared[without.Docker] {
		return nil, &AddressError{c.image, "names an image, and " + Without + " names docker: one of the two is wrong"}
	}
	var looked []string
	if image == "" {
		if looked = c.find(where, p); looked == nil {
			return nil, nil
		}
		image = c.usualImage
	}
	if declared[without.Docker] {
		looked = append(looked, fmt.Sprintf("a container engine (not looked for: %s names docker)", Without))
		return &Missing{Component: c.name, Looked: looked}, nil
	}
	if p.engine == nil {
		var err error
		if p.engine, err = where.engine(ctx); err != nil {
			p.engine = nil
			looked = append(looked, fmt.Sprintf("a container engine, for the image %s (%v)", image, err))
			return &Missing{Component: c.name, Looked: looked}, nil
		}
	}
	p.images[c.name] = image
	return nil, nil
}

func addressFor(variable string, privateOnly bool) string {
	if privateOnly {
		return ""
	}
	return os.Getenv(variable)
}

func (p *plan) providePostgres(ctx context.Context, s *Set, log *lineLog) (*Postgres, error) {
	switch image := p.images[ComponentPostgres]; {
	case image != "":
		return containedPostgres(ctx, image, s.boxes, log)
	case p.pgBinaries != nil:
		return startPostgres(ctx, p.pgBinaries, s.dir, s.guard, log)
	default:
		return givenPostgres(ctx, p.addresses[ComponentPostgres], log)
	}
}

func (p *plan) provideRabbitMQ(ctx context.Context, s *Set, management bool, log *lineLog) (*RabbitMQ, error) {
	switch image := p.images[ComponentRabbitMQ]; {
	case image != "":
		return containedRabbit(ctx, image, management, s.boxes, log)
	case p.mqBinaries != nil:
		return startRabbit(ctx, p.mqBinaries, s.dir, management, s.guard, log)
	default:
		return givenRabbit(ctx, p.addresses[ComponentRabbitMQ], os.Getenv(AddressManagement), log)
	}
}
