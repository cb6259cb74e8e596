package servers

import (
	"context"
	"errors"
	"io"
	"os"
)

// sharedMarker is a variable that Shared sets alongside its addresses, so that MainAlone can distinguish them
// from the user's addresses.
const sharedMarker = "HANDOFF_CHAOS_SHARED"

// MainAlone replaces Main in a package whose tests stop whole servers or reconfigure them. It ignores the
// servers of Shared, but uses servers at addresses that the user has set.
func MainAlone(m interface{ Run() int }) {
	if os.Getenv(sharedMarker) != "" {
		for _, name := range []string{sharedMarker, AddressPostgres, AddressRabbitMQ, AddressManagement} {
			_ = os.Unsetenv(name)
		}
	}
	Main(m)
}

// Shared starts a PostgreSQL and a RabbitMQ for several programs, such as the tests of many packages. It
// returns the variables, as NAME=VALUE, by which Up finds them in these programs. It omits components that
// already have an address or that HANDOFF_WITHOUT excludes. down ends the started servers; it is never nil.
func Shared(ctx context.Context, log io.Writer) (variables []string, down func() error, err error) {
	o := Options{Management: true, Log: log}
	declared, err := WithoutList()
	if err != nil {
		return nil, func() error { return nil }, err
	}
	o.Postgres = !declared[ComponentPostgres] && addressFor(AddressPostgres, false) == ""
	o.RabbitMQ = !declared[ComponentRabbitMQ] && addressFor(AddressRabbitMQ, false) == ""
	if !o.Postgres && !o.RabbitMQ {
		return nil, func() error { return nil }, nil
	}
	set, err := Up(ctx, o)
	if err != nil {
		return nil, func() error { return nil }, err
	}
	if p := set.Postgres; p != nil {
		variables = append(variables, AddressPostgres+"="+p.URL)
	}
	if m := set.RabbitMQ; m != nil {
		if m.Management == "" {
			return nil, func() error { return nil }, errors.Join(errors.New("RabbitMQ came up without its management API, which creates virtual hosts"), set.Down())
		}
		variables = append(variables, AddressRabbitMQ+"="+m.URL, AddressManagement+"="+m.Management)
	}
	return append(variables, sharedMarker+"=yes"), set.Down, nil
}
