// Package host stands for the real one, so that the tests need nothing of the product.
package host

import (
	"context"
	"time"
)

type Host interface {
	Now() time.Time
	Sleep(ctx context.Context, d time.Duration) error
	Go(name string, run func())
}
