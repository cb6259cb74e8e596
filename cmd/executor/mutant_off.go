//go:build !mutant

package main

import "handoff/core/executor"

// takeMutant leaves the command line alone: only a build with the tag mutant can be given a known defect.
func takeMutant(args []string) (rest []string, plant func(*executor.Options)) { return args, nil }
