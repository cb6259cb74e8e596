//go:build !mutant

package main

import "handoff/core/worker"

// takeMutant returns the arguments unchanged: only builds with the tag mutant can plant a mutant.
func takeMutant(args []string) (rest []string, plant func(*worker.Options)) { return args, nil }
