//go:build linux

package main

import "io"

const probeArgument = "probe-what-an-action-may-see"

func probe(args []string, out io.Writer) int { return 0 }
