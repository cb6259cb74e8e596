//go:build !mutant

package main

import "handoff/core/executor"

// takeMutant returns the arguments unchanged: only builds with the tag mutant can plant a mutant.
func takeMutant(args []string) (rest []string, plant func(*executor.Options)) { return args, nil }
