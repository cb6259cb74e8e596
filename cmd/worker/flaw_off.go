//go:build !flaw

package main

import "handoff/core/worker"

// takeFlaw leaves the command line alone: only a build with the tag flaw can be given a known defect.
func takeFlaw(args []string) (rest []string, plant func(*worker.Options)) { return args, nil }
