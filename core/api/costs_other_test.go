//go:build !unix

package api

import "time"

func processorTime() (used time.Duration, known bool) { return 0, false }
